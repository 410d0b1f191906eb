#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>

#include "passel/kernels/update.h"

namespace passel::kernels {

// The update rules and the arithmetic around them on a GPU. Arrays are device memory. Each call
// queues work on `stream` of the current device, does not wait for it, and returns the error of the
// launch. Any n; threads may call these at once.

/// As the function of the CPU, with its bits. Other processes may update the same arrays meanwhile.
cudaError_t apply_update(const UpdateOptions& options, const UpdateStep& step,
                         const UpdateSource& from, const float* gradient, float* parameters,
                         std::span<float* const> state, std::size_t n,
                         cudaStream_t stream) noexcept;

/// The same in place, but each element of `parameters` is changed by one atomic addition of what
/// the update makes of it: of updates that several processes make at once, none is lost. One at a
/// time, the sum is rounded once more than with apply_update(), and subnormal numbers count as
/// zeros.
///
/// The state is read and written as by apply_update(), with its bits: a momentum or a mean is no
/// sum, so if several processes share it, some of what it is made of is lost.
cudaError_t add_update(const UpdateOptions& options, const UpdateStep& step, const float* gradient,
                       float* parameters, std::span<float* const> state, std::size_t n,
                       cudaStream_t stream) noexcept;

/// As the function of the CPU, with its bits.
cudaError_t compensate_delay(float lambda, const float* gradient, const float* now,
                             const float* then, float* out, std::size_t n,
                             cudaStream_t stream) noexcept;

/// sum += next, each [n].
cudaError_t add_to(float* sum, const float* next, std::size_t n, cudaStream_t stream) noexcept;

/// values *= factor, [n].
cudaError_t scale_by(float* values, float factor, std::size_t n, cudaStream_t stream) noexcept;

/// Doubles that add_squares() needs to work with.
inline constexpr std::size_t kNormPartials = 256;

/// total += the sum of the squares of `values` [n], added in double in an order that depends on n
/// alone; it is another one than the CPU's. `partial` [kNormPartials] is written.
cudaError_t add_squares(const float* values, std::size_t n, double* partial, double* total,
                        cudaStream_t stream) noexcept;

}  // namespace passel::kernels
