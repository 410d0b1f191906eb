#include "launch_pointwise-inl.h"

namespace passel::kernels {

cudaError_t lltm_pointwise(const LltmPointwiseBackward<Bfloat16>& arrays,
                           cudaStream_t stream) noexcept {
  return launch_pointwise(arrays, stream);
}

cudaError_t lltm_pointwise(const LltmPointwiseBackward<Float16>& arrays,
                           cudaStream_t stream) noexcept {
  return launch_pointwise(arrays, stream);
}

}  // namespace passel::kernels
