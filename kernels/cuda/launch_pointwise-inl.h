#pragma once

#include "lltm_units-inl.h"
#include "pointwise_plan.h"

namespace passel::kernels {

template <int kWidth, typename Arrays>
__global__ void __launch_bounds__(kPointwiseThreads) pointwise_kernel(Arrays arrays) {
  compute_share<kWidth>(arrays,
                        share_of_thread(blockIdx.x, threadIdx.x, kPointwiseThreads, gridDim.x));
}

template <template <typename, typename> class Arrays, typename T, typename Sum>
cudaError_t launch_pointwise(const Arrays<T, Sum>& arrays, cudaStream_t stream) {
  const PointwisePlan plan = plan_pointwise(arrays);
  if (plan.blocks == 0) return cudaSuccess;
  const auto kernel = plan.width == 1 ? pointwise_kernel<1, Arrays<T, Sum>>
                                      : pointwise_kernel<kVectorWidth<T>, Arrays<T, Sum>>;
  kernel<<<static_cast<unsigned>(plan.blocks), static_cast<unsigned>(kPointwiseThreads), 0,
           stream>>>(arrays);
  return cudaGetLastError();
}

}  // namespace passel::kernels
