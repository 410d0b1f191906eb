// The kernels for GPUs as work of a stream's thread, where the CPU's compute.
#include <array>
#include <vector>

#include "one_lane.h"
#include "passel/kernels_cuda/block_arithmetic.h"
#include "shm_cuda/fake_cuda/fake_cuda.h"

namespace passel::kernels {

cudaError_t apply_update(const UpdateOptions& options, const UpdateStep& step,
                         const UpdateSource& from, const float* gradient, float* parameters,
                         std::span<float* const> state, std::size_t n,
                         cudaStream_t stream) noexcept {
  const std::vector<const float*> old(from.state.begin(), from.state.end());
  const std::vector<float*> next(state.begin(), state.end());
  fake_cuda::launch(stream, [=, first = from.parameters] {
    apply_update(options, step, {first, old}, gradient, parameters, next, n);
  });
  return cudaSuccess;
}

cudaError_t add_update(const UpdateOptions& options, const UpdateStep& step, const float* gradient,
                       float* parameters, std::span<float* const> state, std::size_t n,
                       cudaStream_t stream) noexcept {
  const UpdateArrays arrays = update_arrays({parameters, state}, parameters, state);
  fake_cuda::launch(stream, [=, factors = update_factors(options, step)] {
    one_lane::with_rule(options.rule, [&](auto rule) {
      for (std::size_t i = 0; i < n; ++i) {
        one_lane::add_update<rule>(factors, options.momentum != 0, arrays, gradient, i);
      }
    });
  });
  return cudaSuccess;
}

cudaError_t compensate_delay(float lambda, const float* gradient, const float* now,
                             const float* then, float* out, std::size_t n,
                             cudaStream_t stream) noexcept {
  fake_cuda::launch(stream, [=] { compensate_delay(lambda, gradient, now, then, out, n); });
  return cudaSuccess;
}

cudaError_t add_to(float* sum, const float* next, std::size_t n, cudaStream_t stream) noexcept {
  fake_cuda::launch(stream, [=] {
    for (std::size_t i = 0; i < n; ++i) sum[i] += next[i];
  });
  return cudaSuccess;
}

cudaError_t scale_by(float* values, float factor, std::size_t n, cudaStream_t stream) noexcept {
  fake_cuda::launch(stream, [=] {
    for (std::size_t i = 0; i < n; ++i) values[i] *= factor;
  });
  return cudaSuccess;
}

cudaError_t add_squares(const float* values, std::size_t n, double* /*partial*/, double* total,
                        cudaStream_t stream) noexcept {
  fake_cuda::launch(stream, [=] { *total += squared_norm(values, n); });
  return cudaSuccess;
}

}  // namespace passel::kernels
