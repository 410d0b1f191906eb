#include "passel/kernels_torch/linear_loss.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>

#include "linear_loss_ops.h"

namespace passel {
namespace {

using torch::Tensor;
using LossFunction = std::function<Tensor(const Tensor&, const Tensor&, const Tensor&)>;

struct Arguments {
  Tensor x, weight, bias;

  std::vector<Tensor> all() const { return {x, weight, bias}; }
};

Arguments make_arguments(std::int64_t batch, std::int64_t input, std::int64_t output,
                         torch::Dtype dtype = torch::kDouble) {
  torch::manual_seed(7);
  const auto options = torch::TensorOptions().dtype(dtype).requires_grad(true);
  return {torch::randn({batch, input}, options), torch::randn({output, input}, options),
          torch::randn({output}, options)};
}

Tensor labels(std::int64_t batch, std::int64_t classes) {
  return torch::randint(classes, {batch}, torch::kLong);
}

// Value and gradients are ATen's; the incoming gradient is not 1.
void expect_like(const LossFunction& ours, const LossFunction& theirs, const Arguments& a,
                 double tolerance) {
  const Tensor got = ours(a.x, a.weight, a.bias), expected = theirs(a.x, a.weight, a.bias);
  EXPECT_TRUE(got.sizes() == expected.sizes());
  EXPECT_EQ(got.scalar_type(), expected.scalar_type());
  EXPECT_TRUE(torch::allclose(got, expected, tolerance, tolerance)) << got << expected;
  const Tensor incoming = torch::full_like(expected, -1.75);
  const auto got_grads = torch::autograd::grad({got}, a.all(), {incoming});
  const auto expected_grads = torch::autograd::grad({expected}, a.all(), {incoming});
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(torch::allclose(got_grads[i], expected_grads[i], tolerance, tolerance)) << i;
  }
}

LossFunction our_cross_entropy(const Tensor& target) {
  return [=](const Tensor& x, const Tensor& weight, const Tensor& bias) {
    return linear_cross_entropy(x, weight, bias, target);
  };
}

LossFunction our_mse(const Tensor& target) {
  return [=](const Tensor& x, const Tensor& weight, const Tensor& bias) {
    return linear_mse(x, weight, bias, target);
  };
}

void expect_cross_entropy_like_aten(const Arguments& a, double tolerance) {
  const Tensor target = labels(a.x.size(0), a.weight.size(0));
  const auto theirs = [&](const Tensor& x, const Tensor& weight, const Tensor& bias) {
    return at::cross_entropy_loss(at::linear(x, weight, bias), target);
  };
  expect_like(our_cross_entropy(target), theirs, a, tolerance);
}

void expect_mse_like_aten(const Arguments& a, bool one_dimension, double tolerance) {
  Tensor target = torch::randn({a.x.size(0), a.weight.size(0)}, a.x.options().requires_grad(false));
  if (one_dimension) target = target.squeeze(1);
  const auto theirs = [&](const Tensor& x, const Tensor& weight, const Tensor& bias) {
    const Tensor y = at::linear(x, weight, bias);
    return at::mse_loss(one_dimension ? y.squeeze(1) : y, target);
  };
  expect_like(our_mse(target), theirs, a, tolerance);
}

TEST(LinearCrossEntropy, HasTheValueAndGradientsOfAten) {
  for (const std::int64_t batch : {1, 8, 17, 64}) {
    for (const std::int64_t classes : {1, 2, 10, 33}) {
      expect_cross_entropy_like_aten(make_arguments(batch, 21, classes), 1e-12);
    }
  }
  expect_cross_entropy_like_aten(make_arguments(64, 128, 10, torch::kFloat), 1e-5);
  expect_cross_entropy_like_aten(make_arguments(5, 33, 1000, torch::kFloat), 1e-5);
}

TEST(LinearMse, HasTheValueAndGradientsOfAten) {
  for (const std::int64_t batch : {1, 8, 17, 64}) {
    expect_mse_like_aten(make_arguments(batch, 21, 1), true, 1e-12);
    expect_mse_like_aten(make_arguments(batch, 21, 1), false, 1e-12);
    expect_mse_like_aten(make_arguments(batch, 21, 7), false, 1e-12);
  }
  expect_mse_like_aten(make_arguments(64, 128, 1, torch::kFloat), true, 1e-5);
}

TEST(Linear, HasTheValueAndGradientsOfAten) {
  const auto theirs = [](const Tensor& x, const Tensor& weight, const Tensor& bias) {
    return at::linear(x, weight, bias);
  };
  expect_like(linear, theirs, make_arguments(17, 21, 10), 1e-12);
  expect_like(linear, theirs, make_arguments(64, 128, 10, torch::kFloat), 1e-5);
}

TEST(Linear, TakesExpandedIncomingGradients) {
  const auto a = make_arguments(4, 6, 3);
  const auto got = torch::autograd::grad({linear(a.x, a.weight, a.bias).sum()}, a.all());
  const auto expected = torch::autograd::grad({at::linear(a.x, a.weight, a.bias).sum()}, a.all());
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(torch::allclose(got[i], expected[i]));
}

TEST(LinearLoss, OfAnEmptyBatchIsNanWithZeroGradients) {
  const auto a = make_arguments(0, 5, 3);
  for (const Tensor& loss :
       {linear_cross_entropy(a.x, a.weight, a.bias, labels(0, 3)),
        linear_mse(a.x, a.weight, a.bias, torch::zeros({0, 3}, torch::kDouble))}) {
    EXPECT_TRUE(std::isnan(loss.item<double>()));
    const auto grads = torch::autograd::grad({loss}, a.all());
    EXPECT_TRUE(torch::equal(grads[1], torch::zeros_like(a.weight)));
    EXPECT_TRUE(torch::equal(grads[2], torch::zeros_like(a.bias)));
  }
}

TEST(LinearLoss, AcceptsAnyStridesOfItsArguments) {
  const auto a = make_arguments(6, 8, 4);
  const Tensor target = labels(12, 4).slice(0, 0, 12, 2);
  const Tensor goal = torch::randn({4, 6}, torch::kDouble).t();
  const Arguments strided{a.x.t().contiguous().t(), a.weight.t().contiguous().t(),
                          torch::stack({a.bias, a.bias}, 1).select(1, 0)};
  for (const auto& loss : {our_cross_entropy(target), our_mse(goal)}) {
    const Tensor expected = loss(a.x, a.weight, a.bias);
    const Tensor got = loss(strided.x, strided.weight, strided.bias);
    EXPECT_TRUE(torch::equal(got, expected));
    const auto expected_grads = torch::autograd::grad({expected}, a.all());
    const auto got_grads = torch::autograd::grad({got}, a.all());
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(torch::equal(got_grads[i], expected_grads[i])) << i;
    }
  }
  const Tensor one_row = torch::randn({1, 8}, torch::kDouble).expand({6, 8});
  EXPECT_TRUE(
      torch::allclose(linear(one_row, a.weight, a.bias), at::linear(one_row, a.weight, a.bias)));
}

TEST(LinearLoss, ComputesNoGradientNobodyAskedFor) {
  const Tensor target = labels(6, 4);
  for (std::size_t wanted = 0; wanted < 3; ++wanted) {
    const auto a = make_arguments(6, 8, 4);
    const auto expected =
        torch::autograd::grad({linear_cross_entropy(a.x, a.weight, a.bias, target)}, a.all());
    for (std::size_t i = 0; i < 3; ++i) a.all()[i].set_requires_grad(i == wanted);
    linear_cross_entropy(a.x, a.weight, a.bias, target).backward();
    for (std::size_t i = 0; i < 3; ++i) {
      ASSERT_EQ(a.all()[i].grad().defined(), i == wanted) << wanted << " " << i;
    }
    EXPECT_TRUE(torch::equal(a.all()[wanted].grad(), expected[wanted]));
  }
}

TEST(LinearLoss, RecordsNothingWhereNoGradientIsWanted) {
  const auto a = make_arguments(6, 8, 4);
  const Tensor target = labels(6, 4);
  const Tensor recorded = linear_cross_entropy(a.x, a.weight, a.bias, target);
  const torch::NoGradGuard no_grad;
  const Tensor plain = linear_cross_entropy(a.x, a.weight, a.bias, target);
  EXPECT_FALSE(plain.requires_grad());
  EXPECT_TRUE(torch::equal(plain, recorded));
  EXPECT_FALSE(linear(a.x, a.weight, a.bias).requires_grad());
}

TEST(LinearLoss, UsesTheWeightsAsTheyWereWhenItRan) {
  const auto a = make_arguments(6, 8, 4);
  const Tensor target = labels(6, 4);
  const auto expected =
      torch::autograd::grad({linear_cross_entropy(a.x, a.weight, a.bias, target)}, a.all());
  const Tensor loss = linear_cross_entropy(a.x, a.weight, a.bias, target);
  // What another process does to shared parameters: no version counter sees it.
  std::fill_n(a.weight.data_ptr<double>(), a.weight.numel(), 1e9);
  const auto got = torch::autograd::grad({loss}, a.all());
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(torch::equal(got[i], expected[i]));
}

TEST(LinearLoss, NoticesAnInputThatWasChangedInPlace) {
  const auto a = make_arguments(6, 8, 4);
  const Tensor loss = linear_cross_entropy(a.x, a.weight, a.bias, labels(6, 4));
  {
    const torch::NoGradGuard no_grad;
    a.x.add_(1);
  }
  EXPECT_THROW(loss.backward(), c10::Error);
}

TEST(LinearLoss, RefusesDoubleBackward) {
  const auto a = make_arguments(6, 8, 4);
  for (const Tensor& value :
       {linear(a.x, a.weight, a.bias).sum(),
        linear_cross_entropy(a.x, a.weight, a.bias, labels(6, 4)),
        linear_mse(a.x, a.weight, a.bias, torch::zeros({6, 4}, torch::kDouble))}) {
    EXPECT_THROW(torch::autograd::grad({value}, {a.weight}, {}, {}, /*create_graph=*/true),
                 c10::Error);
  }
}

TEST(LinearLoss, GivesShapesOnTheMetaDevice) {
  const auto options = torch::TensorOptions().device(torch::kMeta).requires_grad(true);
  const Arguments a{torch::empty({6, 8}, options), torch::empty({4, 8}, options),
                    torch::empty({4}, options)};
  const Tensor target = torch::empty({6}, options.dtype(torch::kLong).requires_grad(false));
  const Tensor loss = linear_cross_entropy(a.x, a.weight, a.bias, target);
  EXPECT_TRUE(loss.is_meta() && loss.dim() == 0 && loss.requires_grad());
  EXPECT_EQ(linear(a.x, a.weight, a.bias).sizes(), torch::IntArrayRef({6, 4}));
  const Tensor goal = torch::empty({6, 4}, options.requires_grad(false));
  EXPECT_EQ(linear_mse(a.x, a.weight, a.bias, goal).dim(), 0);
  const auto grads = torch::autograd::grad({loss}, a.all());
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(grads[i].sizes() == a.all()[i].sizes());
}

// What serves devices without kernels of ours, run here where there are some.
TEST(LinearLoss, HasTheSameValuesAndGradientsComposedOfAtensOperators) {
  for (const std::int64_t batch : {0, 1, 5}) {
    const auto a = make_arguments(batch, 8, 4);
    const torch::NoGradGuard no_grad;
    const Tensor target = labels(batch, 4), goal = torch::randn({batch, 4}, torch::kDouble);
    const auto expect_close = [](const Tensor& got, const Tensor& expected) {
      EXPECT_TRUE(torch::allclose(got, expected, 1e-12, 1e-12, /*equal_nan=*/true));
    };
    const auto ours = detail::cross_entropy_forward_cpu(a.x, a.weight, a.bias, target);
    const auto theirs = detail::cross_entropy_forward_composed(a.x, a.weight, a.bias, target);
    expect_close(std::get<0>(theirs), std::get<0>(ours));
    expect_close(std::get<1>(theirs), std::get<1>(ours));
    const auto our_mse_parts = detail::mse_forward_cpu(a.x, a.weight, a.bias, goal);
    const auto their_mse_parts = detail::mse_forward_composed(a.x, a.weight, a.bias, goal);
    expect_close(std::get<0>(their_mse_parts), std::get<0>(our_mse_parts));
    expect_close(std::get<1>(their_mse_parts), std::get<1>(our_mse_parts));
    const Tensor scale = torch::full({}, -1.75, torch::kDouble);
    const auto our_grads = detail::linear_backward_cpu(a.x, std::get<2>(ours), std::get<1>(ours),
                                                       scale, 8, {true, true, true});
    const auto their_grads = detail::linear_backward_composed(
        a.x, std::get<2>(theirs), std::get<1>(theirs), scale, 8, {true, true, true});
    expect_close(std::get<0>(their_grads), std::get<0>(our_grads));
    expect_close(std::get<1>(their_grads), std::get<1>(our_grads));
    expect_close(std::get<2>(their_grads), std::get<2>(our_grads));
  }
}

void expect_error(const std::function<void()>& body, const std::string& text) {
  try {
    body();
    FAIL() << "expected c10::Error with '" << text << "'";
  } catch (const c10::Error& error) {
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
  }
}

TEST(LinearLoss, NamesWhatItExpected) {
  const auto a = make_arguments(6, 8, 4);
  const Tensor x = a.x, weight = a.weight, bias = a.bias;
  const Tensor target = labels(6, 4), goal = torch::zeros({6, 4}, torch::kDouble);
  expect_error([&] { linear(x, weight.t(), bias); }, "weight [C, S] = [C, 8]");
  expect_error([&] { linear(x, weight, x); }, "bias [C] = [4], got [6, 8]");
  expect_error([&] { linear(x.to(torch::kHalf), weight, bias); }, "float or double");
  expect_error([&] { linear(x, weight.to(torch::kFloat), bias); }, "type Double as x, got Float");
  expect_error([&] { linear_cross_entropy(x, weight, bias, target.to(torch::kInt)); },
               "labels of type Long, got Int");
  expect_error([&] { linear_cross_entropy(x, weight, bias, target.slice(0, 1)); },
               "labels [B] = [6], got [5]");
  expect_error([&] { linear_mse(x, weight, bias, goal.to(torch::kFloat)); }, "type Double as x");
  expect_error([&] { linear_mse(x, weight, bias, goal.select(1, 0)); },
               "[B, C] = [6, 4], or [B] where C = 1, got [6]");
  expect_error([&] { linear_mse(x, weight, bias, goal.clone().set_requires_grad(true)); },
               "no gradient by its target");
}

TEST(LinearCrossEntropy, NamesALabelThatIsNoClass) {
  const auto a = make_arguments(6, 8, 4);
  for (const std::int64_t wrong : {-100, -1, 4}) {
    Tensor target = torch::zeros({6}, torch::kLong);
    target[3] = wrong;
    expect_error([&] { linear_cross_entropy(a.x, a.weight, a.bias, target); },
                 "labels in [0, 4), got " + std::to_string(wrong) + " in row 3");
  }
}

TEST(LinearCrossEntropy, AgreesWithAtenWhereLogitsAreExtreme) {
  auto a = make_arguments(4, 3, 5);
  {
    const torch::NoGradGuard no_grad;
    a.x.mul_(1e4);
  }
  expect_cross_entropy_like_aten(a, 1e-10);
  for (const double special : {std::numeric_limits<double>::infinity(), std::nan("")}) {
    const torch::NoGradGuard no_grad;
    a.bias[2] = special;
    EXPECT_TRUE(
        std::isnan(linear_cross_entropy(a.x, a.weight, a.bias, labels(4, 5)).item<double>()));
  }
}

}  // namespace
}  // namespace passel
