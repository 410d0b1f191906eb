# The component gpu_bundle: a folder that runs `make gpu-check` and the benchmarks on a
# machine with a driver and a Python with torch, where nothing can be installed.
#
#   cmake --install BUILD --component gpu_bundle --prefix FOLDER --strip
#
# Files lie in it as in the repository and in the build folder, so the scripts find them.
set(bundle_options COMPONENT gpu_bundle EXCLUDE_FROM_ALL)

# Of whoever runs the bundle: the C and C++ runtime, the driver, and torch with its own.
set(not_bundled
  "^ld-linux" "^lib(c|m|dl|rt|pthread|util|stdc\\+\\+|gcc_s|gomp)\\.so"
  "^lib(torch|c10|shm|cuda\\.|nvidia|nvrtc|cublas|cudnn|cufft|curand|cusolver|cusparse|nccl|nvshmem|nvJitLink|cufile|cupti|caffe2)")

function(bundle_target name folder)
  install(TARGETS ${name}
    RUNTIME_DEPENDENCY_SET gpu_bundle_libraries
    RUNTIME DESTINATION ${folder} ${bundle_options}
    LIBRARY DESTINATION ${folder} ${bundle_options})
endfunction()

bundle_target(passel src)
bundle_target(passel_on_resident_batches src)
bundle_target(passel_cuda lib)
bundle_target(passel_train_cuda lib)
bundle_target(passel_ops kernels/python)
bundle_target(gpu_test tests/gpu)
bundle_target(shm_cuda_real_test tests/shm_cuda)
bundle_target(kernels_test tests/kernels)
bundle_target(shm_process_test tests/shm)
bundle_target(shm_torch_test tests/shm_torch)
bundle_target(kernels_bench tests/bench)
bundle_target(shm_bench tests/bench)

install(RUNTIME_DEPENDENCY_SET gpu_bundle_libraries
  PRE_EXCLUDE_REGEXES ${not_bundled}
  DIRECTORIES ${PASSEL_TORCH_FOLDER}/lib
  LIBRARY DESTINATION lib ${bundle_options})

install(DIRECTORY tests/gpu tests/bench tests/kernels_python DESTINATION tests ${bundle_options}
        FILES_MATCHING PATTERN "*.py" PATTERN "__pycache__" EXCLUDE)
install(DIRECTORY kernels/python/passel DESTINATION kernels/python ${bundle_options}
        PATTERN "__pycache__" EXCLUDE)
install(DIRECTORY examples/python DESTINATION examples ${bundle_options}
        PATTERN "__pycache__" EXCLUDE)
install(PROGRAMS scripts/gpu_bundle/with-torch scripts/gpu_bundle/gpu-check DESTINATION .
        ${bundle_options})
install(FILES scripts/gpu_bundle/README.md DESTINATION . ${bundle_options})
install(DIRECTORY /usr/share/datasets/fashion-mnist DESTINATION data OPTIONAL ${bundle_options})
