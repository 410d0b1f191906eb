#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "passel/kernels/half.h"

namespace passel::kernels {

/// The elementwise part of one LLTM step on the GPU; the matrix products before and
/// after it are the caller's. T is float, double, Bfloat16 or Float16; for the last
/// two states, gates and gradients that are carried on are in float. Letters: B
/// batch, S state, gates in the order input, output, candidate. Arrays are dense
/// device memory, aligned for their element type; where S and all addresses allow
/// it, they are read and written 16 bytes at a time.
template <typename T, typename Sum = typename SumOf<T>::type>
struct LltmPointwiseForward {
  std::int64_t batch;
  std::int64_t state;
  const Sum* from_x;   ///< [B, 3S] the gates' sums over x
  const Sum* from_h;   ///< [B, 3S] the gates' sums over h
  const T* bias;       ///< [3S]
  const Sum* cell_in;  ///< [B, S]
  Sum* gates;          ///< [B, 3S] out: i, o, g; may be from_x
  Sum* cell;           ///< [B, S] out; may be cell_in
  T* hidden;           ///< [B, S] out
};

template <typename T, typename Sum = typename SumOf<T>::type>
struct LltmPointwiseBackward {
  std::int64_t batch;
  std::int64_t state;
  const Sum* gates;           ///< [B, 3S] i, o, g, from forward
  const Sum* cell;            ///< [B, S] after the step, from forward
  const T* grad_hidden;       ///< [B, S] dL/dh after the step by the loss, or nullptr for zero
  const Sum* grad_hidden_in;  ///< [B, S] the same by the steps that follow, or nullptr for zero
  const Sum* grad_cell_in;    ///< [B, S] dL/dc after the step, or nullptr for zero
  T* grad_gates;              ///< [B, 3S] out: by the gates before their activations
  Sum* grad_cell;             ///< [B, S] out: dL/dc before the step; may be grad_cell_in
};

/// Queues the work on `stream` of the current device and does not wait for it. Any
/// B and S; nothing is launched where B * S = 0. Returns the error of the launch.
/// Threads may call these at once.
cudaError_t lltm_pointwise(const LltmPointwiseForward<float>& arrays, cudaStream_t stream) noexcept;
cudaError_t lltm_pointwise(const LltmPointwiseForward<double>& arrays,
                           cudaStream_t stream) noexcept;
cudaError_t lltm_pointwise(const LltmPointwiseForward<Bfloat16>& arrays,
                           cudaStream_t stream) noexcept;
cudaError_t lltm_pointwise(const LltmPointwiseForward<Float16>& arrays,
                           cudaStream_t stream) noexcept;

cudaError_t lltm_pointwise(const LltmPointwiseBackward<float>& arrays,
                           cudaStream_t stream) noexcept;
cudaError_t lltm_pointwise(const LltmPointwiseBackward<double>& arrays,
                           cudaStream_t stream) noexcept;
cudaError_t lltm_pointwise(const LltmPointwiseBackward<Bfloat16>& arrays,
                           cudaStream_t stream) noexcept;
cudaError_t lltm_pointwise(const LltmPointwiseBackward<Float16>& arrays,
                           cudaStream_t stream) noexcept;

}  // namespace passel::kernels
