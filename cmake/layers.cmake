# add_layer(NAME DEPS ... PRIVATE_DEPS ... HEADERS ... SOURCES ...)
#
# One folder, one target, one include path. The headers form a file set whose
# only base directory is the layer's own include/, so a layer can include just
# its own headers and those of its DEPS; an upward include does not compile.
# With CMAKE_VERIFY_INTERFACE_HEADER_SETS each header must compile alone.
function(add_layer name)
  cmake_parse_arguments(arg "" "TYPE" "DEPS;PRIVATE_DEPS;HEADERS;SOURCES" ${ARGN})
  if(NOT arg_TYPE)
    set(arg_TYPE STATIC)
  endif()
  list(TRANSFORM arg_HEADERS PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/include/")

  add_library(passel_${name} ${arg_TYPE} ${arg_SOURCES})
  add_library(passel::${name} ALIAS passel_${name})
  target_sources(passel_${name} PUBLIC FILE_SET HEADERS BASE_DIRS include FILES ${arg_HEADERS})
  target_compile_features(passel_${name} PUBLIC cxx_std_20)
  target_link_libraries(passel_${name} PUBLIC ${arg_DEPS}
                        PRIVATE ${arg_PRIVATE_DEPS} $<BUILD_INTERFACE:passel_warnings>)
  set_target_properties(passel_${name} PROPERTIES EXPORT_NAME ${name})
  set_property(GLOBAL APPEND PROPERTY PASSEL_LAYERS passel_${name})
endfunction()
