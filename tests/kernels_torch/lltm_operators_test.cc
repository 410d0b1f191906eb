#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

#include <tuple>
#include <utility>
#include <vector>

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
    const auto ours = detail::lltm_forward_cpu(a.x, a.weight, a.bias, a.h0, a.c0, 0);
    const auto theirs = detail::lltm_forward_composed(a.x, a.weight, a.bias, a.h0, a.c0, 0);
    const auto [hidden, h, c, cells, gates, packed] = theirs;
    EXPECT_LT(relative_error(hidden, std::get<0>(ours)), 1e-14);
    EXPECT_LT(relative_error(h, std::get<1>(ours)), 1e-14);
    EXPECT_LT(relative_error(c, std::get<2>(ours)), 1e-14);
    EXPECT_LT(relative_error(cells.tanh(), std::get<3>(ours)), 1e-14);
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
            forward(a.x, a.weight, a.bias, a.h0, a.c0, 0);
        const auto [x, weight, bias, h0, c0] =
            backward(a.x, a.weight, a.bias, a.h0, a.c0, hidden, cells, gates, packed, by_hidden,
                     by_h, by_c, {true, true, true, true, true}, 0);
        return std::vector<Tensor>{x, weight, bias, h0, c0};
      };
      const auto expected = gradients(detail::lltm_forward_cpu, detail::lltm_backward_cpu);
      const auto got = gradients(detail::lltm_forward_composed, detail::lltm_backward_composed);
      for (std::size_t i = 0; i < 5; ++i) EXPECT_LT(relative_error(got[i], expected[i]), 1e-13);
    }
  }
}

using Kinds = std::vector<std::pair<std::vector<std::int64_t>, torch::Dtype>>;

template <class Tuple>
Kinds kinds_of(const Tuple& tensors) {
  return std::apply(
      [](const auto&... tensor) {
        return Kinds{{tensor.sizes().vec(), tensor.scalar_type()}...};
      },
      tensors);
}

// Shapes and types of all that forward and backward return.
Kinds kinds_returned(detail::LltmForward* forward, detail::LltmBackward* backward,
                     const Arguments& a, std::int64_t keep_every) {
  const auto saved = forward(a.x, a.weight, a.bias, a.h0, a.c0, keep_every);
  const auto& [hidden, h, c, cells, gates, packed] = saved;
  Kinds kinds = kinds_of(saved);
  const Kinds gradients =
      kinds_of(backward(a.x, a.weight, a.bias, a.h0, a.c0, hidden, cells, gates, packed, hidden, h,
                        c, {true, true, true, true, true}, keep_every));
  kinds.insert(kinds.end(), gradients.begin(), gradients.end());
  return kinds;
}

TEST(LltmForTracing, HasTheShapesAndTypesThatAllDevicesReturn) {
  const torch::NoGradGuard no_grad;
  for (const auto type : {torch::kFloat, torch::kDouble, torch::kHalf, torch::kBFloat16}) {
    const auto sums = type == torch::kDouble ? torch::kDouble : torch::kFloat;
    for (const std::int64_t steps : {0, 4, 5}) {
      const auto a = converted(make_arguments(steps, 3, 50, 65, torch::kFloat), type, sums);
      const Arguments meta{a.x.to(torch::kMeta), a.weight.to(torch::kMeta), a.bias.to(torch::kMeta),
                           a.h0.to(torch::kMeta), a.c0.to(torch::kMeta)};
      for (const std::int64_t keep_every : {0, 1, 2, 9}) {
        const Kinds expected =
            kinds_returned(detail::lltm_forward_meta, detail::lltm_backward_meta, meta, keep_every);
        EXPECT_EQ(
            kinds_returned(detail::lltm_forward_cpu, detail::lltm_backward_cpu, a, keep_every),
            expected);
        EXPECT_EQ(kinds_returned(detail::lltm_forward_composed, detail::lltm_backward_composed, a,
                                 keep_every),
                  expected);
      }
    }
  }
}

TEST(LltmOfHalfTypes, ComputesInSinglePrecisionAndRoundsHAfterEachStep) {
  for (const auto type : {torch::kHalf, torch::kBFloat16}) {
    const auto half = converted(make_arguments(6, 3, 4, 7, torch::kFloat), type, torch::kFloat);
    auto single = converted(half, torch::kFloat, torch::kFloat);
    const auto got = fused(half);
    for (std::int64_t t = 0; t < 6; ++t) {
      const auto [h, c] = lltm_cell(single.x[t], single.weight, single.bias, single.h0, single.c0);
      EXPECT_TRUE(torch::equal(got[0][t], h.to(type)));
      single.h0 = h.to(type).to(torch::kFloat);
      single.c0 = c;
    }
    EXPECT_TRUE(torch::equal(got[1], single.h0.to(type)));
    EXPECT_TRUE(torch::equal(got[2], single.c0));
    EXPECT_EQ(got[2].scalar_type(), torch::kFloat);
  }
}

TEST(LltmOfHalfTypes, ComputesOnOtherDevicesWhatTheKernelsCompute) {
  const torch::NoGradGuard no_grad;
  for (const auto type : {torch::kHalf, torch::kBFloat16}) {
    // One unit in the last place, where sums in another order are rounded to another value.
    const double place = type == torch::kHalf ? 1e-3 : 8e-3;
    const auto a = converted(make_arguments(6, 3, 4, 7, torch::kFloat), type, torch::kFloat);
    const Tensor by_hidden = torch::randn({6, 3, 7}).to(type);
    const auto run = [&](detail::LltmForward* forward, detail::LltmBackward* backward) {
      const auto [hidden, h, c, cells, gates, packed] =
          forward(a.x, a.weight, a.bias, a.h0, a.c0, 0);
      const auto [x, weight, bias, h0, c0] =
          backward(a.x, a.weight, a.bias, a.h0, a.c0, hidden, cells, gates, packed, by_hidden, h, c,
                   {true, true, true, true, true}, 0);
      return std::vector<Tensor>{hidden, h, c, gates, x, weight, bias, h0, c0};
    };
    const auto expected = run(detail::lltm_forward_cpu, detail::lltm_backward_cpu);
    const auto got = run(detail::lltm_forward_composed, detail::lltm_backward_composed);
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_LT(relative_error(got[i], expected[i]), place) << i;
    }
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
      detail::call_lltm_forward(a.x, a.weight, a.bias, a.h0, a.c0, 0);
  const auto backward = [&](const Tensor& cells_given, const Tensor& packed_given) {
    detail::call_lltm_backward(a.x, a.weight, a.bias, a.h0, a.c0, hidden, cells_given, gates,
                               packed_given, hidden, {}, {}, {true, true, true, true, true}, 0);
  };
  backward(cells, packed);
  EXPECT_THROW(backward(cells.narrow(0, 0, 1), packed), c10::ValueError);
  EXPECT_THROW(backward(cells, packed.narrow(0, 0, 5)), c10::ValueError);
  EXPECT_THROW(backward(cells.to(torch::kDouble), packed), c10::TypeError);
}

}  // namespace
}  // namespace passel
