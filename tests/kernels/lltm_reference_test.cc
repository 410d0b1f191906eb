// Whether the oracle itself is right: closed forms and central differences.
#include "lltm_case.h"
#include "lltm_math.h"

namespace passel::kernels::test {
namespace {

/// sum of outputs times the gradients that the case was given for them.
double loss_of(LltmCase<double>& c) {
  lltm_reference_forward(c.shape, c.forward_arrays());
  double loss = 0;
  for (std::size_t i = 0; i < c.hidden.size(); ++i) loss += c.hidden[i] * c.grad_hidden[i];
  const std::size_t last = c.hidden.size() - c.h0.size();
  for (std::size_t i = 0; i < c.h0.size(); ++i) {
    loss += c.hidden[last + i] * c.grad_h_last[i] + c.c_last[i] * c.grad_c_last[i];
  }
  return loss;
}

void expect_central_differences(LltmCase<double>& c, Guarded<double>& input,
                                const Guarded<double>& gradient, const char* name) {
  constexpr double kStep = 1e-6;
  for (std::size_t i = 0; i < input.size(); ++i) {
    const double value = input[i];
    input[i] = value + kStep;
    const double above = loss_of(c);
    input[i] = value - kStep;
    const double below = loss_of(c);
    input[i] = value;
    const double slope = (above - below) / (2 * kStep);
    EXPECT_NEAR(gradient[i], slope, 1e-6 + 1e-6 * std::abs(slope)) << name << "[" << i << "]";
  }
}

TEST(LltmReference, GradientsAreTheSlopesOfTheLoss) {
  for (std::int64_t steps = 1; steps <= 4; ++steps) {
    LltmCase<double> c({.steps = steps, .batch = 3, .input = 17, .state = 5}, 7 + steps, 2.0);
    c.run_reference();
    expect_central_differences(c, c.x, c.grad_x, "x");
    expect_central_differences(c, c.weight, c.grad_weight, "weight");
    expect_central_differences(c, c.bias, c.grad_bias, "bias");
    expect_central_differences(c, c.h0, c.grad_h0, "h0");
    expect_central_differences(c, c.c0, c.grad_c0, "c0");
  }
}

/// With W = 0 the cell grows by the same amount in each step.
template <typename T>
void expect_closed_form(LltmCase<T>& c, double tolerance) {
  const auto state = static_cast<std::size_t>(c.shape.state);
  const std::size_t block = c.h0.size();
  for (std::size_t i = 0; i < c.hidden.size(); ++i) {
    const std::size_t unit = i % state;
    const std::size_t steps_before = i / block;
    const double t = 1 + static_cast<double>(steps_before);
    const double growth =
        sigmoid_of(double{c.bias[unit]}) * elu_of(double{c.bias[2 * state + unit]});
    const double cell = c.c0[i % block] + t * growth;
    EXPECT_NEAR(c.cells[i], std::tanh(cell), tolerance * t);
    if (i + block >= c.hidden.size()) {
      EXPECT_NEAR(c.c_last[i % block], cell, tolerance * t);
    }
    EXPECT_NEAR(c.hidden[i], sigmoid_of(double{c.bias[state + unit]}) * std::tanh(cell),
                tolerance * t);
  }
}

TEST(LltmReference, WithoutWeightsTheCellGrowsLinearly) {
  LltmCase<double> c({.steps = 9, .batch = 3, .input = 2, .state = 18}, 3);
  std::ranges::fill(c.weight.values(), 0.0);
  lltm_reference_forward(c.shape, c.forward_arrays());
  expect_closed_form(c, 1e-14);
}

TEST(Lltm, WithoutWeightsTheCellGrowsLinearly) {
  LltmCase<float> c({.steps = 9, .batch = 3, .input = 2, .state = 18}, 3);
  std::ranges::fill(c.weight.values(), 0.0F);
  c.forward();
  expect_closed_form(c, 1e-6);
}

TEST(Lltm, WithoutWeightsTheGradientOfTheFirstCellIsThatOfTheLast) {
  LltmCase<double> c({.steps = 9, .batch = 3, .input = 2, .state = 18}, 4);
  std::ranges::fill(c.weight.values(), 0.0);
  std::ranges::fill(c.grad_hidden.values(), 0.0);
  std::ranges::fill(c.grad_h_last.values(), 0.0);
  c.run();
  EXPECT_TRUE(same_bits(c.grad_c0, c.grad_c_last));
}

TEST(LltmReference, WithoutBiasOrWeightsHalfTheSquashedCellComesOut) {
  LltmCase<double> c({.steps = 1, .batch = 2, .input = 1, .state = 3}, 5);
  std::ranges::fill(c.weight.values(), 0.0);
  std::ranges::fill(c.bias.values(), 0.0);
  lltm_reference_forward(c.shape, c.forward_arrays());
  EXPECT_TRUE(same_bits(c.c_last, c.c0));
  for (std::size_t i = 0; i < c.h0.size(); ++i) {
    EXPECT_DOUBLE_EQ(c.hidden[i], std::tanh(c.c0[i]) / 2);
  }
}

// What the host and the GPU compute for one unit, against the plain definitions.
TEST(LltmUnit, SlopesSelectTheirBranchAndStayFinite) {
  for (const double z : {0.0, 1e-8, -1e-8, 1.0, -1.0, 20.0, -20.0, 88.5, 100.0, -100.0, 700.0}) {
    EXPECT_DOUBLE_EQ(elu_slope(elu_of(z)), z > 0 ? 1.0 : 1.0 + std::expm1(z));
    EXPECT_TRUE(std::isfinite(sigmoid_slope(sigmoid_of(z))));
  }
  EXPECT_EQ(elu_slope(elu_of(0.0F)), 1.0F);
  EXPECT_EQ(elu_slope(elu_of(100.0F)), 1.0F);
  EXPECT_EQ(sigmoid_of(-1000.0F), 0.0F);
}

TEST(LltmUnit, GradientIsTheSlopeOfItsOutputs) {
  const auto loss = [](double i, double o, double g, double c) {
    const auto unit = lltm_unit(i, o, g, c);
    return 0.7 * unit.hidden - 0.4 * unit.cell;
  };
  const auto unit = lltm_unit(0.3, -0.8, -0.5, 0.9);
  const auto grad =
      lltm_unit_grad(unit.input, unit.output, unit.candidate, unit.squashed, 0.7, -0.4);
  constexpr double kE = 1e-6;
  const auto slope = [&](double i, double o, double g, double c) {
    return (loss(0.3 + i, -0.8 + o, -0.5 + g, 0.9 + c) -
            loss(0.3 - i, -0.8 - o, -0.5 - g, 0.9 - c)) /
           (2 * kE);
  };
  EXPECT_NEAR(grad.input, slope(kE, 0, 0, 0), 1e-9);
  EXPECT_NEAR(grad.output, slope(0, kE, 0, 0), 1e-9);
  EXPECT_NEAR(grad.candidate, slope(0, 0, kE, 0), 1e-9);
  EXPECT_NEAR(grad.cell, slope(0, 0, 0, kE), 1e-9);
}

}  // namespace
}  // namespace passel::kernels::test
