#include "passel/train/dropout.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <span>

#include "passel/train/model.h"

namespace passel::train {
namespace {

std::span<const float> values_of(const at::Tensor& factors) {
  return {factors.const_data_ptr<float>(), static_cast<std::size_t>(factors.numel())};
}

TEST(Dropout, LeavesOutTheShareAskedForAndKeepsTheMean) {
  for (const double p : {0.1, 0.5, 0.75}) {
    std::int64_t left_out = 0, all = 0;
    for (std::int64_t ticket = 0; ticket < 50; ++ticket) {
      const at::Tensor factors = dropout_factors(p, 1, ticket, 64, 128);
      for (const float factor : values_of(factors)) {
        if (factor == 0) {
          ++left_out;
        } else {
          ASSERT_EQ(factor, static_cast<float>(1 / (1 - p)));
        }
        ++all;
      }
    }
    // Five standard deviations of a binomial distribution; the seed is fixed.
    const double deviation = std::sqrt(p * (1 - p) / static_cast<double>(all));
    EXPECT_NEAR(static_cast<double>(left_out) / static_cast<double>(all), p, 5 * deviation);
  }
}

TEST(Dropout, DependsOnSeedAndTicketAlone) {
  const at::Tensor factors = dropout_factors(0.5, 1, 7, 20, 16);
  EXPECT_TRUE(factors.equal(dropout_factors(0.5, 1, 7, 20, 16)));
  EXPECT_FALSE(factors.equal(dropout_factors(0.5, 1, 8, 20, 16)));
  EXPECT_FALSE(factors.equal(dropout_factors(0.5, 2, 7, 20, 16)));
}

TEST(Dropout, OfUnitsIsIndependent) {
  const at::Tensor factors = dropout_factors(0.5, 1, 0, 64, 128);
  const auto values = values_of(factors);
  std::int64_t both = 0;
  for (std::size_t i = 1; i < values.size(); ++i) {
    if (values[i] == 0 && values[i - 1] == 0) ++both;
  }
  EXPECT_NEAR(static_cast<double>(both) / static_cast<double>(values.size() - 1), 0.25, 0.025);
}

TEST(Dropout, MultipliesTheLastHiddenStateBeforeTheHead) {
  Model model({.steps = 4, .features = 3, .classes = 0}, 5, 1);
  const at::Tensor x = at::arange(4 * 2 * 3, at::kFloat).view({4, 2, 3}).div(24);
  const at::Tensor bias = model.parameters().at(3).second;
  const at::Tensor target = bias.detach().expand({2}).contiguous();
  const at::Tensor none = at::zeros({2, 5}, at::kFloat), all = at::ones({2, 5}, at::kFloat);
  EXPECT_EQ(model.loss(x, target, none).item<float>(), 0) << "only the head's bias is left";
  const float loss = model.loss(x, target).item<float>();
  EXPECT_GT(loss, 0);
  EXPECT_EQ(model.loss(x, target, all).item<float>(), loss);
}

TEST(Dropout, OfNothingIsNoTensor) {
  EXPECT_FALSE(dropout_factors(0, 1, 0, 64, 128).defined());
}

}  // namespace
}  // namespace passel::train
