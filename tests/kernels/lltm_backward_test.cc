// Which gradients come in, which are asked for, and which weights they are of.
#include "lltm_case.h"

namespace passel::kernels::test {
namespace {

constexpr LltmShape kShape{.steps = 6, .batch = 9, .input = 5, .state = 18};

TEST(LltmBackward, NoIncomingGradientIsAZeroGradient) {
  for (int absent = 0; absent < 8; ++absent) {
    LltmCase<float> zeros(kShape, 2);
    LltmCase<float> nulls(kShape, 2);
    zeros.forward();
    nulls.forward();
    auto arrays = nulls.backward_arrays();
    const auto drop = [&](int bit, const float*& pointer, Guarded<float>& values) {
      if ((absent & bit) == 0) return;
      pointer = nullptr;
      std::ranges::fill(values.values(), 0.0F);
    };
    drop(1, arrays.grad_hidden, zeros.grad_hidden);
    drop(2, arrays.grad_h_last, zeros.grad_h_last);
    drop(4, arrays.grad_c_last, zeros.grad_c_last);
    lltm_backward(kShape, zeros.backward_arrays());
    lltm_backward(kShape, arrays);
    for (std::size_t i = 0; i < zeros.gradients().size(); ++i) {
      EXPECT_EQ(relative_error(nulls.gradients()[i]->values(), zeros.gradients()[i]->values()), 0)
          << "without " << absent << ", array " << i;
      if (absent == 7) {
        for (const float g : nulls.gradients()[i]->values()) ASSERT_EQ(g, 0) << "array " << i;
      }
    }
  }
}

TEST(LltmBackward, ComputesOnlyWhatIsAskedFor) {
  LltmCase<float> all(kShape, 3);
  all.run();
  for (unsigned wanted = 0; wanted < 32; ++wanted) {
    LltmCase<float> some(kShape, 3);
    some.forward();
    auto arrays = some.backward_arrays();
    float** gradients[] = {&arrays.grad_x, &arrays.grad_weight, &arrays.grad_bias, &arrays.grad_h0,
                           &arrays.grad_c0};
    for (unsigned i = 0; i < 5; ++i) {
      if ((wanted >> i & 1U) == 0) *gradients[i] = nullptr;
    }
    lltm_backward(kShape, arrays);
    for (unsigned i = 0; i < 5; ++i) {
      if ((wanted >> i & 1U) != 0) {
        EXPECT_TRUE(same_bits(*some.gradients()[i], *all.gradients()[i])) << wanted << " " << i;
      } else {
        for (const float g : some.gradients()[i]->values()) ASSERT_TRUE(std::isnan(g));
      }
    }
  }
}

TEST(LltmBackward, DifferentiatesTheWeightsThatForwardRead) {
  LltmCase<float> quiet(kShape, 4);
  LltmCase<float> overwritten(kShape, 4);
  quiet.run();
  overwritten.forward();
  std::ranges::fill(overwritten.weight.values(), 1e9F);
  std::ranges::fill(overwritten.bias.values(), 1e9F);
  lltm_backward(kShape, overwritten.backward_arrays());
  for (std::size_t i = 0; i < quiet.gradients().size(); ++i) {
    EXPECT_TRUE(same_bits(*overwritten.gradients()[i], *quiet.gradients()[i])) << i;
  }
}

TEST(LltmBackward, IsLinearInTheIncomingGradients) {
  LltmCase<double> a(kShape, 5);
  LltmCase<double> b(kShape, 6);
  LltmCase<double> sum(kShape, 5);
  for (auto* c : {&b, &sum}) {
    for (auto [from, to] : {std::pair{&a.x, &c->x},
                            {&a.weight, &c->weight},
                            {&a.bias, &c->bias},
                            {&a.h0, &c->h0},
                            {&a.c0, &c->c0}}) {
      *to = *from;
    }
  }
  const auto combine = [](const Guarded<double>& x, const Guarded<double>& y, Guarded<double>& z) {
    for (std::size_t i = 0; i < z.size(); ++i) z[i] = 2 * x[i] - 3 * y[i];
  };
  combine(a.grad_hidden, b.grad_hidden, sum.grad_hidden);
  combine(a.grad_h_last, b.grad_h_last, sum.grad_h_last);
  combine(a.grad_c_last, b.grad_c_last, sum.grad_c_last);
  for (auto* c : {&a, &b, &sum}) c->run();
  for (std::size_t i = 0; i < a.gradients().size(); ++i) {
    Guarded<double> expected(a.gradients()[i]->size());
    combine(*a.gradients()[i], *b.gradients()[i], expected);
    EXPECT_LE(relative_error(sum.gradients()[i]->values(), expected.values()), 1e-12) << i;
  }
}

}  // namespace
}  // namespace passel::kernels::test
