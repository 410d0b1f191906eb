#include "passel/train/canary.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "passel/kernels/isa.h"

namespace passel::train {
namespace {

TEST(Canary, IsTheSameOnEveryInstructionSet) {
  const std::string before(kernels::isa());
  for (const std::string_view isa : kernels::available_isas()) {
    kernels::select_isa(isa);
    EXPECT_EQ(compute_canary(), canary_hash()) << isa;
  }
  kernels::select_isa(before);
}

TEST(Canary, DoesNotDependOnTheNumberOfThreads) {
  const int before = at::get_num_threads();
  for (const int threads : {1, 2, 3}) {
    at::set_num_threads(threads);
    EXPECT_EQ(compute_canary(), canary_hash()) << threads << " threads";
  }
  at::set_num_threads(before);
}

}  // namespace
}  // namespace passel::train
