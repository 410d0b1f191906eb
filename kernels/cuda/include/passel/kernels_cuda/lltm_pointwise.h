#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace passel::kernels {

// The elementwise part of one LLTM step on the GPU; the matrix products before
// and after it are cuBLAS's. Pointers are device pointers to dense arrays, work
// is queued on `stream` and not waited for. Any B and S; nothing is launched
// where B * S = 0. Returns the error of the launch.
//
// Compiled and linked wherever there is a CUDA toolkit. The body of one element
// is lltm_math.h, which the tests run on the CPU; the launches themselves have
// not been run by the project's own tests, which need no GPU.

template <typename T>
struct LltmPointwiseForward {
  std::int64_t batch;
  std::int64_t state;
  const T* gates_in;  ///< [B, 3S] before the activations
  const T* cell_in;   ///< [B, S]
  T* gates;           ///< [B, 3S] out: i, o, g; may be gates_in
  T* cell;            ///< [B, S] out; may be cell_in
  T* hidden;          ///< [B, S] out
};

template <typename T>
struct LltmPointwiseBackward {
  std::int64_t batch;
  std::int64_t state;
  const T* gates;         ///< [B, 3S] i, o, g, from forward
  const T* cell;          ///< [B, S] after the step, from forward
  const T* grad_hidden;   ///< [B, S] dL/dh after the step, or nullptr for zero
  const T* grad_cell_in;  ///< [B, S] dL/dc after the step, or nullptr for zero
  T* grad_gates;          ///< [B, 3S] out: by the gates before their activations
  T* grad_cell;           ///< [B, S] out: dL/dc before the step; may be grad_cell_in
};

cudaError_t lltm_pointwise_forward(const LltmPointwiseForward<float>& arrays,
                                   cudaStream_t stream) noexcept;
cudaError_t lltm_pointwise_forward(const LltmPointwiseForward<double>& arrays,
                                   cudaStream_t stream) noexcept;
cudaError_t lltm_pointwise_backward(const LltmPointwiseBackward<float>& arrays,
                                    cudaStream_t stream) noexcept;
cudaError_t lltm_pointwise_backward(const LltmPointwiseBackward<double>& arrays,
                                    cudaStream_t stream) noexcept;

}  // namespace passel::kernels
