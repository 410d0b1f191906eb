#include <algorithm>
#include <cstdint>

#include "one_lane.h"
#include "passel/kernels_cuda/block_arithmetic.h"
#include "pointwise_plan.h"

namespace passel::kernels {
namespace {

constexpr unsigned kWarp = 32;
constexpr unsigned kWholeWarp = 0xffffffff;

/// The elements of one thread: first, first + stride, ...
__device__ std::size_t first_element() {
  return static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

__device__ std::size_t element_stride() {
  return static_cast<std::size_t>(gridDim.x) * blockDim.x;
}

unsigned blocks_for(std::size_t n) {
  const auto wanted = (n + kPointwiseThreads - 1) / kPointwiseThreads;
  return static_cast<unsigned>(std::min<std::size_t>(wanted, kPointwiseBlocks));
}

template <UpdateRule kRule>
__global__ void __launch_bounds__(kPointwiseThreads)
    update_kernel(UpdateFactors factors, bool momentum, UpdateArrays arrays, const float* gradient,
                  std::size_t n) {
  for (std::size_t i = first_element(); i < n; i += element_stride()) {
    one_lane::update_lanes<kRule>(one_lane::Tag(), factors, momentum, arrays, gradient, i);
  }
}

template <UpdateRule kRule>
__global__ void __launch_bounds__(kPointwiseThreads)
    add_update_kernel(UpdateFactors factors, bool momentum, UpdateArrays arrays,
                      const float* gradient, std::size_t n) {
  for (std::size_t i = first_element(); i < n; i += element_stride()) {
    one_lane::add_update<kRule>(factors, momentum, arrays, gradient, i);
  }
}

__global__ void __launch_bounds__(kPointwiseThreads)
    compensate_kernel(float lambda, const float* gradient, const float* now, const float* then,
                      float* out, std::size_t n) {
  for (std::size_t i = first_element(); i < n; i += element_stride()) {
    out[i] = one_lane::compensated(lambda, gradient[i], now[i], then[i]);
  }
}

__global__ void __launch_bounds__(kPointwiseThreads)
    add_kernel(float* sum, const float* next, std::size_t n) {
  for (std::size_t i = first_element(); i < n; i += element_stride()) sum[i] += next[i];
}

__global__ void __launch_bounds__(kPointwiseThreads)
    scale_kernel(float* values, float factor, std::size_t n) {
  for (std::size_t i = first_element(); i < n; i += element_stride()) values[i] *= factor;
}

/// The sum over a warp, in every lane.
__device__ double sum_of_warp(double sum) {
  for (unsigned step = kWarp / 2; step > 0; step /= 2) {
    sum += __shfl_xor_sync(kWholeWarp, sum, static_cast<int>(step));
  }
  return sum;
}

/// One warp a block, which makes one partial sum.
__global__ void squares_kernel(const float* values, std::size_t n, double* partial) {
  double sum = 0;
  for (std::size_t i = first_element(); i < n; i += element_stride()) {
    const double value = values[i];
    sum += value * value;
  }
  sum = sum_of_warp(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

/// One warp.
__global__ void total_kernel(const double* partial, double* total) {
  double sum = 0;
  for (unsigned i = threadIdx.x; i < kNormPartials; i += kWarp) sum += partial[i];
  sum = sum_of_warp(sum);
  if (threadIdx.x == 0) *total += sum;
}

using UpdateKernel = void (*)(UpdateFactors, bool, UpdateArrays, const float*, std::size_t);

cudaError_t launch_update(UpdateKernel kernel, const UpdateOptions& options, const UpdateStep& step,
                          const UpdateArrays& arrays, const float* gradient, std::size_t n,
                          cudaStream_t stream) {
  if (n == 0) return cudaSuccess;
  kernel<<<blocks_for(n), kPointwiseThreads, 0, stream>>>(
      update_factors(options, step), options.momentum != 0, arrays, gradient, n);
  return cudaGetLastError();
}

}  // namespace

cudaError_t apply_update(const UpdateOptions& options, const UpdateStep& step,
                         const UpdateSource& from, const float* gradient, float* parameters,
                         std::span<float* const> state, std::size_t n,
                         cudaStream_t stream) noexcept {
  UpdateKernel kernel = nullptr;
  one_lane::with_rule(options.rule, [&](auto rule) { kernel = update_kernel<rule>; });
  return launch_update(kernel, options, step, update_arrays(from, parameters, state), gradient, n,
                       stream);
}

cudaError_t add_update(const UpdateOptions& options, const UpdateStep& step, const float* gradient,
                       float* parameters, std::span<float* const> state, std::size_t n,
                       cudaStream_t stream) noexcept {
  UpdateKernel kernel = nullptr;
  one_lane::with_rule(options.rule, [&](auto rule) { kernel = add_update_kernel<rule>; });
  return launch_update(kernel, options, step, update_arrays({parameters, state}, parameters, state),
                       gradient, n, stream);
}

cudaError_t compensate_delay(float lambda, const float* gradient, const float* now,
                             const float* then, float* out, std::size_t n,
                             cudaStream_t stream) noexcept {
  if (n == 0) return cudaSuccess;
  compensate_kernel<<<blocks_for(n), kPointwiseThreads, 0, stream>>>(lambda, gradient, now, then,
                                                                     out, n);
  return cudaGetLastError();
}

cudaError_t add_to(float* sum, const float* next, std::size_t n, cudaStream_t stream) noexcept {
  if (n == 0) return cudaSuccess;
  add_kernel<<<blocks_for(n), kPointwiseThreads, 0, stream>>>(sum, next, n);
  return cudaGetLastError();
}

cudaError_t scale_by(float* values, float factor, std::size_t n, cudaStream_t stream) noexcept {
  if (n == 0) return cudaSuccess;
  scale_kernel<<<blocks_for(n), kPointwiseThreads, 0, stream>>>(values, factor, n);
  return cudaGetLastError();
}

cudaError_t add_squares(const float* values, std::size_t n, double* partial, double* total,
                        cudaStream_t stream) noexcept {
  squares_kernel<<<static_cast<unsigned>(kNormPartials), kWarp, 0, stream>>>(values, n, partial);
  total_kernel<<<1, kWarp, 0, stream>>>(partial, total);
  return cudaGetLastError();
}

}  // namespace passel::kernels
