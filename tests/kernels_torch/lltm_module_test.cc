#include "passel/kernels_torch/lltm_module.h"

#include <gtest/gtest.h>
#include <torch/types.h>

namespace passel {
namespace {

using torch::Tensor;

TEST(LltmModule, InitialisesWithinOneOverRootS) {
  const nn::LLTM module(10, 64);
  EXPECT_EQ(module->weight.sizes(), torch::IntArrayRef({192, 74}));
  EXPECT_LE(module->weight.abs().max().item<float>(), 0.125F);
  EXPECT_GT(module->weight.abs().max().item<float>(), 0.12F);
}

TEST(LltmModule, StartsFromAZeroState) {
  nn::LLTM module(4, 6);
  const Tensor x = torch::randn({3, 2, 4});
  const Tensor zero = torch::zeros({2, 6});
  EXPECT_TRUE(torch::equal(std::get<0>(module(x)), std::get<0>(module(x, zero, zero))));
}

}  // namespace
}  // namespace passel
