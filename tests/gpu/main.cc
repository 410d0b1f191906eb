#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <exception>

#include "gpu/gpu.h"
#include "passel/kernels_torch/cuda.h"

// gpu_test LIBPASSEL_CUDA [options of GoogleTest]
namespace passel::gpu_test {

int gpus() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

bool has_tf32() {
  int major = 0;
  return cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0) == cudaSuccess &&
         major >= 8;
}

}  // namespace passel::gpu_test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2) {
    std::fputs("usage: gpu_test LIBPASSEL_CUDA\n", stderr);
    return 2;
  }
  try {
    // Before anything asks torch for a GPU.
    passel::load_cuda_kernels(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_test: %s\n", error.what());
    if (passel::gpu_test::gpus() > 0) return 1;
  }
  return RUN_ALL_TESTS();
}
