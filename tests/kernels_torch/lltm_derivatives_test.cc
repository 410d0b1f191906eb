#include <gtest/gtest.h>

#include <limits>

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

const std::vector<bool> kAll = {true, true, true};

// Gradients of a loss that is made of gradients.
std::vector<Tensor> second_derivatives(const std::vector<Tensor>& outputs, const Arguments& a) {
  const auto first = torch::autograd::grad({loss_of(outputs, kAll)}, a.all(), {}, {}, true);
  return torch::autograd::grad({loss_of(first, {true, true, true, true, true})}, a.all());
}

TEST(LltmDerivatives, OfTheSecondOrderEqualThoseOfTheComposedCell) {
  for (const std::int64_t steps : {1, 4}) {
    const auto a = make_arguments(steps, 3, 2, 5, torch::kDouble);
    const auto expected = second_derivatives(composed(a), a), got = second_derivatives(fused(a), a);
    for (std::size_t i = 0; i < 5; ++i) {
      EXPECT_LT(relative_error(got[i], expected[i]), 1e-12) << "argument " << i;
    }
  }
}

TEST(LltmDerivatives, OfTheSecondOrderAreRightWhereTheInitialStateDependsOnTheInput) {
  auto a = make_arguments(3, 2, 4, 4, torch::kDouble);
  const auto derivatives = [&](auto&& run) {
    Arguments tied = a;
    tied.h0 = a.x[0].sin();
    const auto first =
        torch::autograd::grad({loss_of(run(tied), kAll)}, {a.x, a.weight}, {}, {}, true);
    return torch::autograd::grad({loss_of(first, {true, true})}, {a.x, a.weight});
  };
  const auto expected = derivatives(composed), got = derivatives(fused);
  EXPECT_LT(relative_error(got[0], expected[0]), 1e-12);
  EXPECT_LT(relative_error(got[1], expected[1]), 1e-12);
}

TEST(LltmDerivatives, OfTheSecondOrderAreRefusedAfterTheWeightsHaveChanged) {
  const auto a = make_arguments(2, 2, 2, 3, torch::kDouble);
  const Tensor loss = loss_of(fused(a), kAll);
  {
    const torch::NoGradGuard no_grad;
    a.weight.add_(1);
  }
  const auto grads = torch::autograd::grad({loss}, {a.x}, {}, /*retain_graph=*/true);
  EXPECT_TRUE(grads[0].isfinite().all().item<bool>());
  try {
    torch::autograd::grad({loss}, {a.x}, {}, {}, /*create_graph=*/true);
    FAIL() << "expected c10::Error";
  } catch (const c10::Error& error) {
    EXPECT_NE(std::string(error.what()).find("weight [9, 5] was changed in place"),
              std::string::npos)
        << error.what();
  }
}

TEST(LltmDerivatives, NoticeEachTensorTheyNeedThatWasChangedInPlace) {
  for (const auto change : {&Arguments::x, &Arguments::h0, &Arguments::c0}) {
    const auto a = make_arguments(2, 2, 2, 3, torch::kDouble);
    const Tensor loss = loss_of(fused(a), kAll);
    {
      const torch::NoGradGuard no_grad;
      (a.*change).add_(1);
    }
    EXPECT_THROW(loss.backward(), c10::Error);
  }
}

TEST(LltmDerivatives, NoticeAnOutputThatWasChangedInPlace) {
  const auto a = make_arguments(2, 2, 2, 3, torch::kDouble);
  const auto outputs = fused(a);
  outputs[0].detach().fill_(1);
  EXPECT_THROW(outputs[0].sum().backward(), c10::Error);
}

TEST(LltmDerivatives, AreThoseOfEachArgumentAlone) {
  for (std::size_t wanted = 0; wanted < 5; ++wanted) {
    const auto a = make_arguments(3, 2, 4, 5, torch::kDouble);
    const auto expected = torch::autograd::grad({loss_of(fused(a), kAll)}, a.all());
    for (std::size_t i = 0; i < 5; ++i) a.all()[i].set_requires_grad(i == wanted);
    loss_of(fused(a), kAll).backward();
    for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(a.all()[i].grad().defined(), i == wanted);
    EXPECT_TRUE(torch::equal(a.all()[wanted].grad(), expected[wanted]));
  }
}

TEST(LltmDerivatives, TakeExpandedAndStridedGradients) {
  const auto a = make_arguments(3, 2, 4, 5, torch::kDouble);
  const auto hidden = fused(a)[0];
  const Tensor wide = torch::randn({5, 2, 3}, torch::kDouble);
  for (const Tensor& grad :
       {torch::ones({}, torch::kDouble).expand({3, 2, 5}), wide.permute({2, 1, 0})}) {
    const auto got = torch::autograd::grad({hidden}, a.all(), {grad}, true);
    const auto expected = torch::autograd::grad({hidden}, a.all(), {grad.contiguous()}, true);
    for (std::size_t i = 0; i < 5; ++i) EXPECT_TRUE(torch::equal(got[i], expected[i]));
  }
}

// What elu' = (z > 0) + exp(z) (z < 0) makes NaN of, or zero.
TEST(LltmDerivatives, AreRightWhereTheCandidateIsHugeOrZero) {
  for (const double z : {100.0, 1e-8, 0.0, -1e-8, -100.0}) {
    Arguments a{torch::zeros({1, 1, 1}), torch::zeros({3, 2}), torch::zeros({3}),
                torch::zeros({1, 1}), torch::zeros({1, 1})};
    a.bias[2] = z;
    a.bias.set_requires_grad(true);
    fused(a)[2].sum().backward();
    const double expected = 0.5 * (z > 0 ? 1 : std::exp(z));  // i = sigmoid(0)
    EXPECT_NEAR(a.bias.grad()[2].item<double>(), expected, 1e-7) << "z = " << z;
    EXPECT_TRUE(a.bias.grad().isfinite().all().item<bool>());
  }
}

TEST(LltmDerivatives, PassNaNsOn) {
  const auto a = make_arguments(2, 2, 2, 3, torch::kDouble);
  {
    const torch::NoGradGuard no_grad;
    a.x[0][0][0] = std::numeric_limits<double>::quiet_NaN();
  }
  const auto grads = torch::autograd::grad({loss_of(fused(a), kAll)}, a.all());
  EXPECT_TRUE(grads[1].isnan().any().item<bool>());
  EXPECT_FALSE(grads[0].select(1, 1).isnan().any().item<bool>()) << "rows are independent";
}

}  // namespace
}  // namespace passel
