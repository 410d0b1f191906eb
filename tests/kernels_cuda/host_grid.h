#pragma once

#include "lltm_units-inl.h"
#include "pointwise_plan.h"

// The pointwise kernels on the CPU: every thread of a grid, one after the other.
namespace passel::kernels {

template <int kWidth, class Arrays>
void run_grid(const Arrays& arrays, std::int64_t blocks, std::int64_t threads) {
  for (std::int64_t block = 0; block < blocks; ++block) {
    for (std::int64_t thread = 0; thread < threads; ++thread) {
      compute_share<kWidth>(arrays, share_of_thread(block, thread, threads, blocks));
    }
  }
}

/// As launch_pointwise() would.
template <template <typename, typename> class Arrays, typename T, typename Sum>
void run_planned(const Arrays<T, Sum>& arrays) {
  const PointwisePlan plan = plan_pointwise(arrays);
  if (plan.width == 1) {
    run_grid<1>(arrays, plan.blocks, kPointwiseThreads);
  } else {
    run_grid<kVectorWidth<T>>(arrays, plan.blocks, kPointwiseThreads);
  }
}

}  // namespace passel::kernels
