// The linear layer against plain loops, and what must not change a single bit.
#include <sstream>

#include "each_target.h"
#include "linear_loss_case.h"

namespace passel::kernels::test {
namespace {

constexpr std::int64_t kSizes[] = {0, 1, 7, 8, 9, 17, 33};
constexpr LinearShape kShape{.batch = 19, .input = 53, .output = 10};

std::string text(const LinearShape& s) {
  std::ostringstream out;
  out << "B " << s.batch << " S " << s.input << " C " << s.output;
  return out.str();
}

template <typename T>
void expect_like_reference(const LinearShape& shape, double tolerance) {
  SCOPED_TRACE(text(shape));
  LinearCase<T> fast(shape, 11);
  LinearReference exact(fast);
  fast.run();
  // Terms are within +-1; rounding errors grow as the root of their number.
  const double limit =
      tolerance * std::sqrt(static_cast<double>(shape.batch + shape.input + shape.output));
  for (std::size_t i = 0; i < fast.results().size(); ++i) {
    const Guarded<T>& actual = *fast.results()[i];
    const std::vector<double>& expected = *exact.results()[i];
    for (std::size_t j = 0; j < expected.size(); ++j) {
      ASSERT_NEAR(static_cast<double>(actual[j]), expected[j], limit) << "array " << i << " " << j;
    }
    EXPECT_TRUE(actual.guards_intact()) << "array " << i;
  }
  EXPECT_TRUE(fast.packed.guards_intact());
  EXPECT_TRUE(fast.workspace.guards_intact());
}

class LinearSizes : public testing::TestWithParam<std::int64_t> {
 protected:
  template <typename T>
  void sweep(double tolerance) {
    for (const std::int64_t input : kSizes) {
      for (const std::int64_t output : kSizes) {
        expect_like_reference<T>({GetParam(), input, output}, tolerance);
      }
    }
  }
};

TEST_P(LinearSizes, FloatAgreesWithTheReference) {
  sweep<float>(1e-6);
}
TEST_P(LinearSizes, DoubleAgreesWithTheReference) {
  sweep<double>(1e-15);
}

INSTANTIATE_TEST_SUITE_P(Batch, LinearSizes, testing::ValuesIn(kSizes), [](const auto& info) {
  return std::string("B").append(std::to_string(info.param));
});

TEST(Linear, AgreesWithTheReferenceOnManyOutputsAndSeveralChunksOfRows) {
  expect_like_reference<float>({.batch = 3, .input = 50, .output = 1000}, 1e-6);
  expect_like_reference<double>({.batch = 3, .input = 50, .output = 1000}, 1e-15);
  expect_like_reference<float>({.batch = 517, .input = 49, .output = 49}, 1e-6);
  expect_like_reference<double>({.batch = 517, .input = 49, .output = 49}, 1e-15);
}

TEST(Linear, WithoutRowsHasZeroGradients) {
  LinearCase<float> c({.batch = 0, .input = 3, .output = 2}, 1);
  c.run();
  for (const float g : c.grad_weight.values()) EXPECT_EQ(g, 0);
  for (const float g : c.grad_bias.values()) EXPECT_EQ(g, 0);
}

TEST(Linear, WithoutInputsIsItsBias) {
  LinearCase<float> c({.batch = 2, .input = 0, .output = 9}, 1);
  c.run();
  for (std::size_t i = 0; i < c.output.size(); ++i) EXPECT_EQ(c.output[i], c.bias[i % 9]);
}

TEST(Linear, ComputesOnlyTheGradientsAskedFor) {
  LinearCase<float> all(kShape, 3);
  all.run();
  for (unsigned wanted = 0; wanted < 8; ++wanted) {
    LinearCase<float> some(kShape, 3);
    some.forward();
    auto arrays = some.backward_arrays();
    float** gradients[] = {&arrays.grad_x, &arrays.grad_weight, &arrays.grad_bias};
    for (unsigned i = 0; i < 3; ++i) {
      if ((wanted >> i & 1U) == 0) *gradients[i] = nullptr;
    }
    linear_backward(kShape, arrays);
    for (unsigned i = 0; i < 3; ++i) {
      if ((wanted >> i & 1U) != 0) {
        EXPECT_TRUE(same_bits(*some.gradients()[i], *all.gradients()[i])) << wanted << " " << i;
      } else {
        for (const float g : some.gradients()[i]->values()) ASSERT_TRUE(std::isnan(g));
      }
    }
  }
}

TEST(Linear, DifferentiatesTheWeightsThatForwardRead) {
  LinearCase<float> quiet(kShape, 4);
  LinearCase<float> raced(kShape, 4);
  quiet.run();
  raced.forward();
  std::ranges::fill(raced.weight.values(), 1e9F);
  std::ranges::fill(raced.bias.values(), 1e9F);
  linear_backward(kShape, raced.backward_arrays());
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(same_bits(*raced.results()[i], *quiet.results()[i])) << "array " << i;
  }
}

template <typename T>
void expect_same_on_each_target() {
  LinearCase<T> usual(kShape, 5);
  usual.run();
  with_each_target([&] {
    LinearCase<T> forced(kShape, 5);
    forced.run();
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_TRUE(same_bits(*forced.results()[i], *usual.results()[i])) << "array " << i;
    }
  });
}

TEST(LinearBits, AreEqualOnEveryInstructionSetInFloat) {
  expect_same_on_each_target<float>();
}
TEST(LinearBits, AreEqualOnEveryInstructionSetInDouble) {
  expect_same_on_each_target<double>();
}

TEST(LinearBits, AreEqualWhenRunAgainOverOldOutputs) {
  LinearCase<float> once(kShape, 6);
  LinearCase<float> twice(kShape, 6);
  once.run();
  twice.run().run();
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(same_bits(*twice.results()[i], *once.results()[i])) << "array " << i;
  }
}

TEST(LinearBits, OfARowDoNotDependOnTheOtherRows) {
  LinearCase<float> whole(kShape, 8);
  whole.run();
  constexpr std::int64_t kParts[][2] = {{0, 8}, {8, 10}, {18, 1}, {3, 5}};  // first, count
  for (const auto& rows_of_part : kParts) {
    const std::int64_t first = rows_of_part[0];
    const std::int64_t count = rows_of_part[1];
    LinearCase<float> part({.batch = count, .input = kShape.input, .output = kShape.output}, 8);
    const auto rows = [&](const Guarded<float>& from, std::int64_t width) {
      return from.values().subspan(static_cast<std::size_t>(first * width),
                                   static_cast<std::size_t>(count * width));
    };
    std::ranges::copy(whole.weight.values(), part.weight.data());
    std::ranges::copy(whole.bias.values(), part.bias.data());
    std::ranges::copy(rows(whole.x, kShape.input), part.x.data());
    std::ranges::copy(rows(whole.grad_output, kShape.output), part.grad_output.data());
    part.run();
    EXPECT_TRUE(same_bits<float>(part.output.values(), rows(whole.output, kShape.output)));
    EXPECT_TRUE(same_bits<float>(part.grad_x.values(), rows(whole.grad_x, kShape.input)));
  }
}

TEST(Linear, PassesNanAndInfinityOnToTheirRowsOnly) {
  LinearCase<float> c(kShape, 7);
  const auto input = static_cast<std::size_t>(kShape.input);
  const auto output = static_cast<std::size_t>(kShape.output);
  c.x[2 * input + 5] = std::numeric_limits<float>::quiet_NaN();
  c.x[4 * input + 6] = std::numeric_limits<float>::infinity();
  c.run();
  for (std::size_t i = 0; i < c.output.size(); ++i) {
    EXPECT_EQ(std::isnan(c.output[i]), i / output == 2) << i;
    EXPECT_EQ(std::isinf(c.output[i]), i / output == 4) << i;
  }
  for (std::size_t i = 0; i < c.grad_weight.size(); ++i) {
    EXPECT_EQ(std::isnan(c.grad_weight[i]), i % input == 5) << i;
    EXPECT_EQ(std::isinf(c.grad_weight[i]), i % input == 6) << i;
  }
  for (const float g : c.grad_x.values()) EXPECT_TRUE(std::isfinite(g));
}

}  // namespace
}  // namespace passel::kernels::test
