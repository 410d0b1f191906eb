#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

#include "kernels_torch/lltm_arguments.h"
#include "lltm_ops.h"

namespace passel {
namespace {

using lltm_test::Arguments;
using lltm_test::composed;
using lltm_test::fused;
using lltm_test::loss_of;
using lltm_test::make_arguments;
using lltm_test::relative_error;
using torch::Tensor;

Arguments converted(const Arguments& a, torch::Dtype type, torch::Dtype cell) {
  return {a.x.to(type), a.weight.to(type), a.bias.to(type), a.h0.to(type), a.c0.to(cell)};
}

TEST(LltmForOtherDevices, ComputesWhatTheKernelsCompute) {
  for (const std::int64_t steps : {0, 1, 5}) {
    const torch::NoGradGuard no_grad;
    const auto a = make_arguments(steps, 3, 4, 7, torch::kDouble);
    const auto ours = detail::lltm_forward_cpu(a.x, a.weight, a.bias, a.h0, a.c0);
    const auto theirs = detail::lltm_forward_composed(a.x, a.weight, a.bias, a.h0, a.c0);
    const auto [hidden, h, c, cells, gates, packed] = theirs;
    EXPECT_LT(relative_error(hidden, std::get<0>(ours)), 1e-14);
    EXPECT_LT(relative_error(h, std::get<1>(ours)), 1e-14);
    EXPECT_LT(relative_error(c, std::get<2>(ours)), 1e-14);
    EXPECT_LT(relative_error(cells, std::get<3>(ours)), 1e-14);
    EXPECT_LT(relative_error(gates, std::get<4>(ours)), 1e-14);
    EXPECT_EQ(packed.sizes(), std::get<5>(ours).sizes());
  }
}

TEST(LltmForOtherDevices, ComputesTheGradientsTheKernelsCompute) {
  const torch::NoGradGuard no_grad;
  for (const std::int64_t steps : {0, 1, 5}) {
    const auto a = make_arguments(steps, 3, 4, 7, torch::kDouble);
    const Tensor by_hidden = torch::randn({steps, 3, 7}, torch::kDouble);
    const Tensor by_h = torch::randn({3, 7}, torch::kDouble);
    for (const auto& by_c :
         {std::optional<Tensor>(torch::randn({3, 7}, torch::kDouble)), std::optional<Tensor>()}) {
      const auto gradients = [&](auto* forward, auto* backward) {
        const auto [hidden, h, c, cells, gates, packed] =
            forward(a.x, a.weight, a.bias, a.h0, a.c0);
        const auto [x, weight, bias, h0, c0] =
            backward(a.x, a.weight, a.bias, a.h0, a.c0, hidden, cells, gates, packed, by_hidden,
                     by_h, by_c, {true, true, true, true, true});
        return std::vector<Tensor>{x, weight, bias, h0, c0};
      };
      const auto expected = gradients(detail::lltm_forward_cpu, detail::lltm_backward_cpu);
      const auto got = gradients(detail::lltm_forward_composed, detail::lltm_backward_composed);
      for (std::size_t i = 0; i < 5; ++i) EXPECT_LT(relative_error(got[i], expected[i]), 1e-13);
    }
  }
}

TEST(LltmForTracing, HasTheShapesThatTheKernelsReturn) {
  const torch::NoGradGuard no_grad;
  for (const std::int64_t steps : {0, 4}) {
    const auto a = make_arguments(steps, 3, 50, 65, torch::kFloat);
    const auto meta = [](const Tensor& tensor) { return tensor.to(torch::kMeta); };
    const auto real = detail::call_lltm_forward(a.x, a.weight, a.bias, a.h0, a.c0);
    const auto shapes =
        detail::call_lltm_forward(meta(a.x), meta(a.weight), meta(a.bias), meta(a.h0), meta(a.c0));
    const auto same = [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
      return ((std::get<kIndex>(real).sizes() == std::get<kIndex>(shapes).sizes()) && ...);
    };
    EXPECT_TRUE(same(std::make_index_sequence<6>()));
  }
}

TEST(LltmOfHalfTypes, ComputesInSinglePrecisionAndKeepsTheCellStateThere) {
  for (const auto type : {torch::kHalf, torch::kBFloat16}) {
    const auto half = converted(make_arguments(6, 3, 4, 7, torch::kFloat), type, torch::kFloat);
    const auto single = converted(half, torch::kFloat, torch::kFloat);
    const auto got = fused(half), expected = fused(single);
    EXPECT_TRUE(torch::equal(got[0], expected[0].to(type)));
    EXPECT_TRUE(torch::equal(got[1], expected[1].to(type)));
    EXPECT_TRUE(torch::equal(got[2], expected[2]));
  }
}

TEST(LltmOfHalfTypes, HasGradientsOfTheArgumentsTypes) {
  const auto base = make_arguments(6, 3, 4, 7, torch::kFloat);
  loss_of(fused(converted(base, torch::kBFloat16, torch::kBFloat16)), {true, true, true})
      .backward();
  for (const Tensor& argument : base.all()) EXPECT_TRUE(argument.grad().defined());
  const auto expected =
      torch::autograd::grad({loss_of(composed(base), {true, true, true})}, base.all());
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_LT(relative_error(base.all()[i].grad(), expected[i]), 3e-2) << "argument " << i;
  }
}

TEST(LltmUnderAutocast, CastsAllButTheCellState) {
  const auto a = make_arguments(4, 3, 2, 7, torch::kFloat);
  at::autocast::set_autocast_enabled(torch::kCPU, true);
  const auto got = fused(a);
  at::autocast::set_autocast_enabled(torch::kCPU, false);
  at::autocast::clear_cache();
  const auto expected = fused(converted(a, torch::kBFloat16, torch::kFloat));
  EXPECT_EQ(got[0].scalar_type(), torch::kBFloat16);
  EXPECT_EQ(got[2].scalar_type(), torch::kFloat);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(torch::equal(got[i], expected[i]));
}

TEST(LltmCell, IsOneStepInTheTutorialsOrder) {
  const auto a = make_arguments(1, 3, 4, 7, torch::kDouble);
  const auto expected = composed(a);
  for (const Tensor& bias : {a.bias, a.bias.unsqueeze(0)}) {
    const auto [new_h, new_cell] = lltm_cell(a.x[0], a.weight, bias, a.h0, a.c0);
    EXPECT_LT(relative_error(new_h, expected[1]), 1e-14);
    EXPECT_LT(relative_error(new_cell, expected[2]), 1e-14);
  }
}

TEST(LltmCell, TakesMoreRowsThanAGridHasBlocks) {
  const auto a = make_arguments(1, 70'000, 1, 2, torch::kFloat);
  const auto [new_h, new_cell] = lltm_cell(a.x[0], a.weight, a.bias, a.h0, a.c0);
  EXPECT_LT(relative_error(new_cell, composed(a)[2]), 1e-6);
}

TEST(LltmBackward, RefusesSavedTensorsOfOtherShapes) {
  const torch::NoGradGuard no_grad;
  const auto a = make_arguments(2, 3, 4, 5, torch::kFloat);
  Tensor hidden, h, c, cells, gates, packed;
  std::tie(hidden, h, c, cells, gates, packed) =
      detail::call_lltm_forward(a.x, a.weight, a.bias, a.h0, a.c0);
  const auto backward = [&](const Tensor& cells_given, const Tensor& packed_given) {
    detail::call_lltm_backward(a.x, a.weight, a.bias, a.h0, a.c0, hidden, cells_given, gates,
                               packed_given, hidden, {}, {}, {true, true, true, true, true});
  };
  backward(cells, packed);
  EXPECT_THROW(backward(cells.narrow(0, 0, 1), packed), c10::ValueError);
  EXPECT_THROW(backward(cells, packed.narrow(0, 0, 5)), c10::ValueError);
  EXPECT_THROW(backward(cells.to(torch::kDouble), packed), c10::TypeError);
}

}  // namespace
}  // namespace passel
