#include "passel/kernels_torch/lltm.h"

#include <gtest/gtest.h>

#include "kernels_torch/lltm_arguments.h"

namespace passel {
namespace {

using lltm_test::Arguments;
using lltm_test::composed;
using lltm_test::fused;
using lltm_test::loss_of;
using lltm_test::make_arguments;
using lltm_test::relative_error;
using torch::Tensor;

void expect_same_as_composed(const Arguments& a, const std::vector<bool>& counts,
                             double tolerance) {
  const auto expected = composed(a), got = fused(a);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_LT(relative_error(got[i], expected[i]), tolerance);
  const auto expected_grads =
      torch::autograd::grad({loss_of(expected, counts)}, a.all(), {}, {}, false, true);
  const auto got_grads = torch::autograd::grad({loss_of(got, counts)}, a.all());
  for (std::size_t i = 0; i < 5; ++i) {
    const Tensor reference =
        expected_grads[i].defined() ? expected_grads[i] : torch::zeros_like(a.all()[i]);
    EXPECT_LT(relative_error(got_grads[i], reference), tolerance) << "argument " << i;
  }
}

TEST(Lltm, EqualsTheComposedCellInDouble) {
  for (const std::int64_t steps : {1, 2, 9}) {
    for (const std::int64_t batch : {1, 8, 17}) {
      expect_same_as_composed(make_arguments(steps, batch, 5, 33, torch::kDouble),
                              {true, true, true}, 1e-12);
    }
  }
}

TEST(Lltm, EqualsTheComposedCellInFloat) {
  expect_same_as_composed(make_arguments(28, 16, 28, 128, torch::kFloat), {true, true, true}, 2e-5);
}

TEST(Lltm, TakesALossOfAnyOfItsOutputs) {
  const auto arguments = make_arguments(4, 3, 2, 7, torch::kDouble);
  expect_same_as_composed(arguments, {true, false, false}, 1e-12);
  expect_same_as_composed(arguments, {false, true, false}, 1e-12);
  expect_same_as_composed(arguments, {false, false, true}, 1e-12);
}

TEST(Lltm, AgreesWithCentralDifferences) {
  const auto a = make_arguments(3, 2, 3, 5, torch::kDouble);
  const std::vector<bool> counts = {true, true, true};
  const auto grads = torch::autograd::grad({loss_of(fused(a), counts)}, a.all());
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < 5; ++i) {
    auto values = a.all()[i].view({-1});
    for (std::int64_t j = 0; j < values.numel(); ++j) {
      constexpr double kStep = 1e-6;
      const double before = values[j].item<double>();
      values[j] = before + kStep;
      const double above = loss_of(fused(a), counts).item<double>();
      values[j] = before - kStep;
      const double below = loss_of(fused(a), counts).item<double>();
      values[j] = before;
      EXPECT_NEAR(grads[i].view({-1})[j].item<double>(), (above - below) / (2 * kStep), 1e-6);
    }
  }
}

TEST(Lltm, AcceptsAnyStridesOfItsArguments) {
  auto a = make_arguments(4, 3, 6, 8, torch::kDouble);
  const auto expected = fused(a);
  const Arguments strided{a.x.transpose(0, 1).contiguous().transpose(0, 1),
                          a.weight.t().contiguous().t(), a.bias, a.h0.t().contiguous().t(), a.c0};
  const auto got = fused(strided);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(torch::equal(got[i], expected[i]));
}

TEST(Lltm, ComputesNoGradientNobodyAskedFor) {
  auto a = make_arguments(4, 3, 6, 8, torch::kDouble);
  a.x = a.x.detach();
  const auto outputs = fused(a);
  outputs[0].sum().backward();
  EXPECT_FALSE(a.x.grad().defined());
  EXPECT_TRUE(a.weight.grad().defined());
}

TEST(Lltm, UsesTheWeightsAsTheyWereWhenItRan) {
  auto a = make_arguments(4, 3, 6, 8, torch::kDouble);
  const auto expected = torch::autograd::grad({loss_of(fused(a), {true, true, true})}, a.all());
  const auto outputs = fused(a);
  // What another process does to shared parameters: no version counter sees it.
  std::fill_n(a.weight.data_ptr<double>(), a.weight.numel(), 1e9);
  const auto got = torch::autograd::grad({loss_of(outputs, {true, true, true})}, a.all());
  for (std::size_t i = 0; i < 5; ++i) EXPECT_TRUE(torch::equal(got[i], expected[i]));
}

TEST(Lltm, NoticesAnOutputThatWasChangedInPlace) {
  const auto a = make_arguments(2, 2, 2, 3, torch::kDouble);
  const auto outputs = fused(a);
  outputs[0].detach().fill_(1);
  EXPECT_THROW(outputs[0].sum().backward(), c10::Error);
}

TEST(Lltm, NamesTheShapesItExpected) {
  auto a = make_arguments(2, 2, 2, 3, torch::kDouble);
  a.bias = torch::zeros({8}, torch::kDouble);
  try {
    fused(a);
    FAIL() << "expected c10::Error";
  } catch (const c10::Error& error) {
    EXPECT_NE(std::string(error.what()).find("bias [3S] = [9], got [8]"), std::string::npos)
        << error.what();
  }
}

TEST(Lltm, HandlesSequencesAndBatchesOfLengthZero) {
  for (const auto& [steps, batch] : {std::pair<std::int64_t, std::int64_t>{0, 3}, {4, 0}}) {
    const auto a = make_arguments(steps, batch, 2, 3, torch::kDouble);
    const auto outputs = fused(a);
    EXPECT_EQ(outputs[0].sizes(), torch::IntArrayRef({steps, batch, 3}));
    EXPECT_TRUE(torch::equal(outputs[1], a.h0) || batch == 0);
    (outputs[0].sum() + outputs[1].sum() + outputs[2].sum()).backward();
    EXPECT_TRUE(torch::equal(a.weight.grad(), torch::zeros_like(a.weight)));
  }
}

}  // namespace
}  // namespace passel
