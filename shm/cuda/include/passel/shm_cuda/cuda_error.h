#pragma once

#include <driver_types.h>

#include <string>
#include <string_view>

#include "passel/shm/error.h"

namespace passel::shm {

/// The CUDA runtime refused something at set-up. Hot paths return DeviceStatus::kCuda instead.
class CudaError : public Error {
 public:
  /// @param operation what was tried
  /// @param code what the runtime returned
  /// @param hint what to do about it
  CudaError(std::string_view operation, cudaError_t code, std::string_view hint = {});

  [[nodiscard]] cudaError_t cuda_code() const noexcept { return cuda_code_; }

 private:
  cudaError_t cuda_code_;
};

/// @throws CudaError unless `code` is cudaSuccess
void check_cuda(cudaError_t code, std::string_view operation, std::string_view hint = {});

/// The runtime's own words: name, number and sentence.
std::string cuda_text(cudaError_t code);

}  // namespace passel::shm
