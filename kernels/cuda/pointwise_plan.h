#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include "passel/kernels_cuda/lltm_pointwise.h"

namespace passel::kernels {

/// Small blocks: a step of a small batch should reach many multiprocessors.
inline constexpr std::int64_t kPointwiseThreads = 128;
/// Enough to fill any GPU of today several times; the stride over the grid does the
/// rest, so no B or S meets a limit of the grid.
inline constexpr std::int64_t kPointwiseBlocks = 4096;

/// Bytes of T's sums that a thread reads at once.
inline constexpr std::int64_t kVectorBytes = 16;

template <typename T>
inline constexpr int kVectorWidth =
    static_cast<int>(kVectorBytes / static_cast<std::int64_t>(sizeof(typename SumOf<T>::type)));

/// How a pointwise kernel is launched. blocks = 0: not at all.
struct PointwisePlan {
  std::int64_t blocks;
  int width;  ///< units that a thread computes at once: kVectorWidth or 1
};

/// Whether every address, null or not, is a multiple of `bytes`.
inline bool all_aligned(std::initializer_list<const void*> addresses, std::int64_t bytes) {
  return std::ranges::all_of(addresses, [bytes](const void* address) {
    return reinterpret_cast<std::uintptr_t>(address) % static_cast<std::uintptr_t>(bytes) == 0;
  });
}

template <typename T, typename Sum>
bool allows_vectors(const LltmPointwiseForward<T, Sum>& a) {
  constexpr std::int64_t kBytes = kVectorWidth<T> * static_cast<std::int64_t>(sizeof(T));
  return a.state % kVectorWidth<T> == 0 &&
         all_aligned({a.from_x, a.from_h, a.cell_in, a.gates, a.cell}, kVectorBytes) &&
         all_aligned({a.bias, a.hidden}, kBytes);
}

template <typename T, typename Sum>
bool allows_vectors(const LltmPointwiseBackward<T, Sum>& a) {
  constexpr std::int64_t kBytes = kVectorWidth<T> * static_cast<std::int64_t>(sizeof(T));
  return a.state % kVectorWidth<T> == 0 &&
         all_aligned({a.gates, a.cell, a.grad_hidden_in, a.grad_cell_in, a.grad_cell},
                     kVectorBytes) &&
         all_aligned({a.grad_hidden, a.grad_gates}, kBytes);
}

template <template <typename, typename> class Arrays, typename T, typename Sum>
PointwisePlan plan_pointwise(const Arrays<T, Sum>& arrays) {
  const int width = allows_vectors(arrays) ? kVectorWidth<T> : 1;
  const std::int64_t groups = arrays.batch * arrays.state / width;
  return {std::min(kPointwiseBlocks, (groups + kPointwiseThreads - 1) / kPointwiseThreads), width};
}

}  // namespace passel::kernels
