#include "passel/shm_cuda/cuda_error.h"

#include <cuda_runtime_api.h>

namespace passel::shm {
namespace {

std::string hint_text(cudaError_t code, std::string_view hint) {
  std::string text = cuda_text(code);
  if (!hint.empty()) text.append(". ").append(hint);
  return text;
}

}  // namespace

CudaError::CudaError(std::string_view operation, cudaError_t code, std::string_view hint)
    : Error(operation, 0, hint_text(code, hint)), cuda_code_(code) {}

void check_cuda(cudaError_t code, std::string_view operation, std::string_view hint) {
  if (code == cudaSuccess) return;
  cudaGetLastError();  // the failure is reported here, not once more by somebody's next check
  throw CudaError(operation, code, hint);
}

std::string cuda_text(cudaError_t code) {
  return std::string(cudaGetErrorName(code)) + " (" + std::to_string(code) + "), " +
         cudaGetErrorString(code);
}

}  // namespace passel::shm
