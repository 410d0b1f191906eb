#include <gtest/gtest.h>

#include "kernels_cuda/host_grid.h"
#include "kernels_torch/lltm_arguments.h"
#include "lltm_steps-inl.h"

// The sequence as the CUDA operators run it, with products and pointwise kernels of
// the CPU in the places of those of the GPU.
namespace passel::detail {
namespace {

using lltm_test::Arguments;
using lltm_test::make_arguments;
using lltm_test::relative_error;
using torch::Tensor;

struct HostDevice {
  static void multiply(Tensor out, const Tensor& a, const Tensor& b) {
    at::mm_out(out, a.to(out.scalar_type()), b.to(out.scalar_type()));
  }
  template <class Arrays>
  static void compute(const Arrays& arrays) {
    kernels::run_planned(arrays);
  }
};

struct Sizes {
  std::int64_t steps, batch, input, state;
};

constexpr Sizes kSizes[] = {{0, 3, 4, 7}, {1, 1, 1, 1}, {5, 0, 4, 7}, {5, 3, 0, 8},
                            {5, 3, 4, 0}, {5, 3, 4, 7}, {4, 9, 5, 32}};

std::vector<Tensor> listed(const LltmForwardResult& r) {
  return {std::get<0>(r), std::get<1>(r), std::get<2>(r), std::get<3>(r), std::get<4>(r)};
}

std::vector<Tensor> listed(const LltmGrads& r) {
  return {std::get<0>(r), std::get<1>(r), std::get<2>(r), std::get<3>(r), std::get<4>(r)};
}

void expect_close(const std::vector<Tensor>& got, const std::vector<Tensor>& expected,
                  double tolerance) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(got[i].defined(), expected[i].defined()) << i;
    if (!expected[i].defined()) continue;
    ASSERT_EQ(got[i].sizes(), expected[i].sizes()) << i;
    EXPECT_LT(relative_error(got[i], expected[i]), tolerance) << i;
  }
}

Arguments in_types(const Arguments& a, torch::Dtype type, torch::Dtype cell) {
  return {a.x.to(type), a.weight.to(type), a.bias.to(type), a.h0.to(type), a.c0.to(cell)};
}

LltmForwardResult run_steps_of(const Arguments& a, std::int64_t keep_every = 0) {
  return lltm_forward_in_steps(HostDevice(), a.x, a.weight, a.bias, a.h0, a.c0, keep_every);
}

TEST(LltmInSteps, ComputesWhatTheComposedFormComputes) {
  const torch::NoGradGuard no_grad;
  for (const Sizes s : kSizes) {
    for (const auto type : {torch::kFloat, torch::kDouble}) {
      const auto a = make_arguments(s.steps, s.batch, s.input, s.state, type);
      const auto expected = lltm_forward_composed(a.x, a.weight, a.bias, a.h0, a.c0, 0);
      expect_close(listed(run_steps_of(a)), listed(expected), type == torch::kFloat ? 1e-6 : 1e-14);
      // Whichever ran forward, the other can run backward.
      const std::int64_t weights = a.weight.numel();
      EXPECT_TRUE(torch::equal(std::get<5>(run_steps_of(a)).narrow(0, 0, weights),
                               std::get<5>(expected).narrow(0, 0, weights)));
    }
  }
}

TEST(LltmInSteps, ComputesTheGradientsOfTheComposedForm) {
  const torch::NoGradGuard no_grad;
  for (const Sizes s : kSizes) {
    const auto a = make_arguments(s.steps, s.batch, s.input, s.state, torch::kDouble);
    const auto [hidden, h, c, cells, gates, packed] =
        lltm_forward_composed(a.x, a.weight, a.bias, a.h0, a.c0, 0);
    for (int given = 0; given < 8; ++given) {
      const auto gradient = [given](int bit, const Tensor& like) {
        return (given & bit) == 0 ? std::optional<Tensor>() : torch::randn_like(like);
      };
      const auto by_hidden = gradient(1, hidden), by_h = gradient(2, h), by_c = gradient(4, c);
      for (const LltmMask& mask :
           {LltmMask{true, true, true, true, true}, LltmMask{false, true, true, false, false},
            LltmMask{true, false, false, false, true}}) {
        const auto expected =
            lltm_backward_composed(a.x, a.weight, a.bias, a.h0, a.c0, hidden, cells, gates, packed,
                                   by_hidden, by_h, by_c, mask, 0);
        const auto got = lltm_backward_in_steps(HostDevice(), a.x, a.h0, a.c0, hidden, cells, gates,
                                                packed, by_hidden, by_h, by_c, mask, 0);
        expect_close(listed(got), listed(expected), 1e-13);
      }
    }
  }
}

TEST(LltmInSteps, TakesGradientsOfAnyStrides) {
  const torch::NoGradGuard no_grad;
  const auto a = make_arguments(4, 3, 5, 8, torch::kDouble);
  Tensor hidden, h, c, cells, gates, packed;
  std::tie(hidden, h, c, cells, gates, packed) =
      lltm_forward_composed(a.x, a.weight, a.bias, a.h0, a.c0, 0);
  const Tensor expanded = torch::ones({}, torch::kDouble).expand_as(hidden);
  const Tensor transposed = torch::randn({8, 3}, torch::kDouble).t();
  constexpr LltmMask kAll{true, true, true, true, true};
  const auto run = [&](const Tensor& by_hidden, const Tensor& by_h) {
    return listed(lltm_backward_in_steps(HostDevice(), a.x, a.h0, a.c0, hidden, cells, gates,
                                         packed, by_hidden, by_h, by_h, kAll, 0));
  };
  expect_close(run(expanded, transposed), run(expanded.contiguous(), transposed.contiguous()),
               1e-15);
}

TEST(LltmInSteps, NeverReturnsItsArguments) {
  const torch::NoGradGuard no_grad;
  const auto a = make_arguments(0, 3, 4, 7, torch::kFloat);
  const auto forward = run_steps_of(a);
  EXPECT_FALSE(std::get<1>(forward).is_alias_of(a.h0));
  const Tensor by_h = torch::randn_like(a.h0);
  const auto grads =
      lltm_backward_in_steps(HostDevice(), a.x, a.h0, a.c0, std::get<0>(forward),
                             std::get<3>(forward), std::get<4>(forward), std::get<5>(forward), {},
                             by_h, by_h, {true, true, true, true, true}, 0);
  EXPECT_TRUE(torch::equal(std::get<3>(grads), by_h));
  EXPECT_FALSE(std::get<3>(grads).is_alias_of(by_h));
  EXPECT_FALSE(std::get<4>(grads).is_alias_of(by_h));
}

TEST(LltmInSteps, KeepsStatesAndSumsOfHalfTypesInSinglePrecision) {
  const torch::NoGradGuard no_grad;
  for (const auto type : {torch::kHalf, torch::kBFloat16}) {
    const double rounding = type == torch::kHalf ? 1e-3 : 8e-3;
    const auto half = in_types(make_arguments(6, 3, 4, 8, torch::kFloat), type, torch::kFloat);
    const auto full = in_types(half, torch::kFloat, torch::kFloat);
    const auto got = run_steps_of(half);
    const auto expected =
        lltm_forward_composed(full.x, full.weight, full.bias, full.h0, full.c0, 0);
    EXPECT_EQ(std::get<0>(got).scalar_type(), type);
    EXPECT_EQ(std::get<2>(got).scalar_type(), torch::kFloat);
    EXPECT_EQ(std::get<4>(got).scalar_type(), torch::kFloat);
    expect_close(listed(got), listed(expected), rounding);

    const Tensor by_hidden = torch::randn({6, 3, 8}).to(type), by_h = torch::randn({3, 8}).to(type);
    const Tensor by_c = torch::randn({3, 8});
    constexpr LltmMask kAll{true, true, true, true, true};
    const auto [hidden, h, c, cells, gates, packed] = got;
    const auto grads = lltm_backward_in_steps(HostDevice(), half.x, half.h0, half.c0, hidden, cells,
                                              gates, packed, by_hidden, by_h, by_c, kAll, 0);
    const auto [hidden_f, h_f, c_f, cells_f, gates_f, packed_f] = expected;
    const auto expected_grads = lltm_backward_composed(
        full.x, full.weight, full.bias, full.h0, full.c0, hidden_f, cells_f, gates_f, packed_f,
        by_hidden.to(torch::kFloat), by_h.to(torch::kFloat), by_c, kAll, 0);
    expect_close(listed(grads), listed(expected_grads), 3 * rounding);
    EXPECT_EQ(std::get<1>(grads).scalar_type(), type);
    EXPECT_EQ(std::get<4>(grads).scalar_type(), torch::kFloat);
  }
}

// The bounds that the tests on a GPU have, too.
TEST(LltmInSteps, IsAsExactForOddSizesAsRoundingAllows) {
  const torch::NoGradGuard no_grad;
  for (const auto& [type, tolerance] : {std::pair{torch::kHalf, 1e-2}, {torch::kBFloat16, 6e-2}}) {
    for (const std::int64_t steps : {1, 2, 9}) {
      for (const std::int64_t batch : {1, 7, 17}) {
        for (const std::int64_t state : {1, 5, 33}) {
          SCOPED_TRACE(testing::Message() << type << ' ' << steps << ' ' << batch << ' ' << state);
          const auto a =
              in_types(make_arguments(steps, batch, 3, state, torch::kFloat), type, torch::kFloat);
          const auto full = in_types(a, torch::kFloat, torch::kFloat);
          const auto [hidden, h, c, cells, gates, packed] = run_steps_of(a);
          const auto [hidden_f, h_f, c_f, cells_f, gates_f, packed_f] =
              lltm_forward_composed(full.x, full.weight, full.bias, full.h0, full.c0, 0);
          const Tensor by_hidden = hidden_f.cos(), by_c = c_f.cos();
          constexpr LltmMask kAll{true, true, true, true, true};
          const auto got =
              lltm_backward_in_steps(HostDevice(), a.x, a.h0, a.c0, hidden, cells, gates, packed,
                                     by_hidden.to(type), {}, by_c, kAll, 0);
          const auto expected =
              lltm_backward_composed(full.x, full.weight, full.bias, full.h0, full.c0, hidden_f,
                                     cells_f, gates_f, packed_f, by_hidden, {}, by_c, kAll, 0);
          expect_close(listed(got), listed(expected), tolerance);
        }
      }
    }
  }
}

TEST(LltmInSteps, ComputesAgainWhatWasNotKept) {
  const torch::NoGradGuard no_grad;
  for (const auto type : {torch::kFloat, torch::kBFloat16}) {
    for (const Sizes s : kSizes) {
      const auto a = in_types(make_arguments(s.steps, s.batch, s.input, s.state, torch::kFloat),
                              type, torch::kFloat);
      const auto gradients = [&](std::int64_t keep_every) {
        const auto [hidden, h, c, cells, gates, packed] = run_steps_of(a, keep_every);
        return listed(lltm_backward_in_steps(HostDevice(), a.x, a.h0, a.c0, hidden, cells, gates,
                                             packed, hidden, h, c, {true, true, true, true, true},
                                             keep_every));
      };
      const auto expected = gradients(0);
      for (const std::int64_t every : {1, 2, 9}) expect_close(gradients(every), expected, 1e-6);
      // Shapes and types are those that tracing says.
      const auto theirs = lltm_forward_composed(a.x, a.weight, a.bias, a.h0, a.c0, 2);
      const auto kept = run_steps_of(a, 2);
      for (std::size_t i = 0; i < 5; ++i) {
        EXPECT_EQ(listed(kept)[i].sizes(), listed(theirs)[i].sizes()) << i;
        EXPECT_EQ(listed(kept)[i].scalar_type(), listed(theirs)[i].scalar_type()) << i;
      }
      EXPECT_EQ(std::get<5>(kept).scalar_type(), std::get<5>(theirs).scalar_type());
      EXPECT_EQ(std::get<5>(kept).sizes(), std::get<5>(theirs).sizes());
    }
  }
}

TEST(LltmInSteps, TakesMoreRowsThanAGridHasBlocks) {
  const torch::NoGradGuard no_grad;
  const auto a = make_arguments(1, 70'000, 1, 4, torch::kFloat);
  const auto expected = lltm_forward_composed(a.x, a.weight, a.bias, a.h0, a.c0, 0);
  expect_close(listed(run_steps_of(a)), listed(expected), 1e-6);
}

}  // namespace
}  // namespace passel::detail
