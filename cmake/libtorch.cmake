# Imported targets for libtorch, made from an installed torch folder (a PyPI
# wheel or an unpacked libtorch). TorchConfig.cmake is not used: for the CUDA
# wheels it asks for a CUDA toolkit even where only CPU code is built.
#
#   libtorch::cpu    torch_cpu and c10: all that a CPU program links
#   libtorch::cuda   torch_cuda and c10_cuda, where this torch has them; programs link
#                    them with a CUDA toolkit
#
# Looked for in: PASSEL_TORCH, CMAKE_PREFIX_PATH, the .venv of the project and of
# Passel, for an installed package the torch it was built with, python3.

function(_passel_find_torch out)
  set(candidates ${PASSEL_TORCH} $ENV{PASSEL_TORCH})
  foreach(prefix IN LISTS CMAKE_PREFIX_PATH)
    list(APPEND candidates ${prefix} ${prefix}/torch ${prefix}/../..)
  endforeach()
  file(GLOB venv_torch ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch
       ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../.venv/lib/python3*/site-packages/torch)
  list(APPEND candidates ${venv_torch} ${PASSEL_BUILT_WITH_TORCH})
  foreach(dir IN LISTS candidates)
    if(EXISTS "${dir}/lib/libtorch_cpu.so" AND EXISTS "${dir}/include/ATen/ATen.h")
      get_filename_component(dir "${dir}" REALPATH)
      set(${out} "${dir}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  execute_process(
    COMMAND python3 -c "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
    OUTPUT_VARIABLE dir OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(dir AND EXISTS "${dir}/lib/libtorch_cpu.so")
    set(${out} "${dir}" PARENT_SCOPE)
    return()
  endif()
  message(FATAL_ERROR
    "libtorch was not found. Expected a torch folder with lib/libtorch_cpu.so and include/ATen. "
    "Pass -DPASSEL_TORCH=DIR, or run 'make build' in Passel's folder, which installs one there into "
    ".venv.")
endfunction()

if(NOT TARGET libtorch::cpu)
  _passel_find_torch(_torch_dir)
  file(STRINGS "${_torch_dir}/include/torch/headeronly/version.h" _torch_version
       REGEX "#define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
  string(REGEX REPLACE "[^0-9;]" "" _torch_version "${_torch_version}")
  string(REPLACE ";" "." PASSEL_TORCH_VERSION "${_torch_version}")
  if(PASSEL_TORCH_VERSION VERSION_LESS 2.9)
    message(FATAL_ERROR "Passel needs torch 2.9 or newer; ${_torch_dir} is ${PASSEL_TORCH_VERSION}.")
  endif()
  message(STATUS "libtorch ${PASSEL_TORCH_VERSION}: ${_torch_dir}")
  set(PASSEL_TORCH_FOLDER "${_torch_dir}")  # an installed package looks there, too

  foreach(_lib c10 torch_cpu)
    add_library(libtorch::${_lib} SHARED IMPORTED)
    set_target_properties(libtorch::${_lib} PROPERTIES
      IMPORTED_LOCATION "${_torch_dir}/lib/lib${_lib}.so"
      INTERFACE_INCLUDE_DIRECTORIES
        "${_torch_dir}/include;${_torch_dir}/include/torch/csrc/api/include")
  endforeach()
  add_library(libtorch::cpu INTERFACE IMPORTED)
  # DT_RPATH, not RUNPATH: the wheel's own libraries are found through it too.
  set_target_properties(libtorch::cpu PROPERTIES
    INTERFACE_LINK_LIBRARIES "libtorch::torch_cpu;libtorch::c10"
    INTERFACE_LINK_OPTIONS "-Wl,--disable-new-dtags")

  if(EXISTS "${_torch_dir}/lib/libtorch_cuda.so")
    foreach(_lib c10_cuda torch_cuda)
      add_library(libtorch::${_lib} SHARED IMPORTED)
      set_target_properties(libtorch::${_lib} PROPERTIES
        IMPORTED_LOCATION "${_torch_dir}/lib/lib${_lib}.so")
    endforeach()
    # torch_cuda is needed even where no symbol of it is: it registers ATen's operators.
    add_library(libtorch::cuda INTERFACE IMPORTED)
    set_target_properties(libtorch::cuda PROPERTIES
      INTERFACE_LINK_LIBRARIES "libtorch::torch_cuda;libtorch::c10_cuda;libtorch::cpu"
      INTERFACE_LINK_OPTIONS "-Wl,--no-as-needed")
  endif()
endif()
