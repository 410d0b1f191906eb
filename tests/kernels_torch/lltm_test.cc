#include "passel/kernels_torch/lltm.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "passel/kernels_torch/lltm_module.h"

namespace passel {
namespace {

using torch::Tensor;

struct Arguments {
  Tensor x, weight, bias, h0, c0;

  std::vector<Tensor> all() const { return {x, weight, bias, h0, c0}; }
};

Arguments make_arguments(std::int64_t steps, std::int64_t batch, std::int64_t input,
                         std::int64_t state, torch::Dtype dtype) {
  torch::manual_seed(3);
  const auto options = torch::TensorOptions().dtype(dtype).requires_grad(true);
  const double bound = 1.0 / std::sqrt(static_cast<double>(state));
  return {torch::randn({steps, batch, input}, options),
          torch::empty({3 * state, state + input}, options.requires_grad(false))
              .uniform_(-bound, bound)
              .set_requires_grad(true),
          torch::empty({3 * state}, options.requires_grad(false))
              .uniform_(-bound, bound)
              .set_requires_grad(true),
          torch::randn({batch, state}, options), torch::randn({batch, state}, options)};
}

// The same cell written in ATen operators, with gradients from autograd.
std::vector<Tensor> composed(const Arguments& a) {
  Tensor h = a.h0, c = a.c0;
  std::vector<Tensor> hidden;
  for (std::int64_t t = 0; t < a.x.size(0); ++t) {
    const auto gates = torch::linear(torch::cat({h, a.x[t]}, 1), a.weight, a.bias).chunk(3, 1);
    c = c + torch::elu(gates[2]) * torch::sigmoid(gates[0]);
    h = torch::tanh(c) * torch::sigmoid(gates[1]);
    hidden.push_back(h);
  }
  return {torch::stack(hidden), h, c};
}

std::vector<Tensor> fused(const Arguments& a) {
  const auto [hidden, h, c] = lltm(a.x, a.weight, a.bias, a.h0, a.c0);
  return {hidden, h, c};
}

// A loss that weighs every output element differently; `outputs` picks which count.
Tensor loss_of(const std::vector<Tensor>& outputs, const std::vector<bool>& counts) {
  Tensor loss = torch::zeros({}, outputs[0].options());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!counts[i]) continue;
    const Tensor& out = outputs[i];
    const Tensor weights = torch::arange(1, out.numel() + 1, out.options()).view(out.sizes()).cos();
    loss = loss + (out * weights).sum();
  }
  return loss;
}

double relative_error(const Tensor& got, const Tensor& expected) {
  const double norm = expected.to(torch::kDouble).norm().item<double>();
  const double error = (got.to(torch::kDouble) - expected).norm().item<double>();
  return norm == 0 ? error : error / norm;
}

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

TEST(Lltm, RefusesDoubleBackward) {
  const auto a = make_arguments(2, 2, 2, 3, torch::kDouble);
  EXPECT_THROW(
      torch::autograd::grad({fused(a)[0].sum()}, {a.weight}, {}, {}, /*create_graph=*/true),
      c10::Error);
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
