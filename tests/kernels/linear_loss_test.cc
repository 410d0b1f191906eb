// The losses on the outputs of a linear layer.
#include "each_target.h"
#include "linear_loss_case.h"

namespace passel::kernels::test {
namespace {

constexpr std::int64_t kSizes[] = {0, 1, 7, 8, 9, 17, 33};

/// Values in +-scale and targets in [0, classes), both drawn from `seed`.
template <typename T>
struct Batch {
  Guarded<T> logits;
  std::vector<std::int64_t> target;

  Batch(std::int64_t batch, std::int64_t classes, std::uint64_t seed, double scale = 3)
      : logits(static_cast<std::size_t>(batch * classes)) {
    std::mt19937_64 engine(seed);
    for (T& value : logits.values()) {
      value = static_cast<T>((static_cast<double>(engine() >> 11) * 0x1p-52 - 1) * scale);
    }
    for (std::int64_t b = 0; b < batch; ++b) {
      target.push_back(static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(classes)));
    }
  }
};

struct ExactLoss {
  double loss = 0;
  std::vector<double> slopes;
};

template <typename T>
ExactLoss exact_cross_entropy(const Batch<T>& batch, std::size_t classes) {
  ExactLoss exact{.loss = 0, .slopes = std::vector<double>(batch.logits.size())};
  const auto rows = static_cast<double>(batch.target.size());
  for (std::size_t b = 0; b < batch.target.size(); ++b) {
    const T* row = batch.logits.data() + b * classes;
    const auto largest = static_cast<double>(*std::max_element(row, row + classes));
    double sum = 0;
    for (std::size_t c = 0; c < classes; ++c)
      sum += std::exp(static_cast<double>(row[c]) - largest);
    const auto target = static_cast<std::size_t>(batch.target[b]);
    exact.loss += (std::log(sum) - (static_cast<double>(row[target]) - largest)) / rows;
    for (std::size_t c = 0; c < classes; ++c) {
      const double softmax = std::exp(static_cast<double>(row[c]) - largest) / sum;
      exact.slopes[b * classes + c] = (softmax - (c == target ? 1 : 0)) / rows;
    }
  }
  return exact;
}

template <typename T>
void expect_exact_cross_entropy(std::int64_t rows, std::int64_t classes, double tolerance,
                                double scale = 3) {
  SCOPED_TRACE(testing::Message() << "B " << rows << " C " << classes << " scale " << scale);
  const Batch<T> batch(rows, classes, 31, scale);
  const auto result = cross_entropy_of(batch.logits, batch.target, classes);
  EXPECT_FALSE(result.bad_row.has_value());
  EXPECT_TRUE(result.slopes.guards_intact());
  if (rows == 0) {
    EXPECT_TRUE(std::isnan(result.loss));
    return;
  }
  const auto exact = exact_cross_entropy(batch, static_cast<std::size_t>(classes));
  EXPECT_NEAR(static_cast<double>(result.loss), exact.loss, tolerance * std::max(1.0, exact.loss));
  for (std::size_t i = 0; i < exact.slopes.size(); ++i) {
    ASSERT_NEAR(static_cast<double>(result.slopes[i]), exact.slopes[i],
                tolerance / static_cast<double>(rows))
        << i;
  }
}

TEST(CrossEntropy, AgreesWithTheReferenceAtEverySize) {
  for (const std::int64_t rows : kSizes) {
    for (const std::int64_t classes : {1, 7, 8, 9, 10, 16, 17, 33, 1000}) {
      expect_exact_cross_entropy<float>(rows, classes, 2e-6);
      expect_exact_cross_entropy<double>(rows, classes, 2e-15);
    }
  }
}

TEST(CrossEntropy, DoesNotOverflowOnLogitsOfTenThousand) {
  expect_exact_cross_entropy<float>(33, 10, 2e-6, 1e4);
  expect_exact_cross_entropy<double>(33, 10, 2e-15, 1e4);
}

TEST(CrossEntropy, OfOneClassIsZero) {
  const Batch<float> batch(9, 1, 1);
  const auto result = cross_entropy_of(batch.logits, batch.target, 1);
  EXPECT_EQ(result.loss, 0);
  for (const float slope : result.slopes.values()) EXPECT_EQ(slope, 0);
}

TEST(CrossEntropy, ReportsTheFirstTargetThatIsNoClass) {
  for (const std::int64_t wrong :
       {std::int64_t{-1}, std::int64_t{10}, std::int64_t{-100},
        std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()}) {
    Batch<float> batch(9, 10, 2);
    batch.target[4] = wrong;
    batch.target[6] = wrong;
    const auto result = cross_entropy_of(batch.logits, batch.target, 10);
    EXPECT_EQ(result.bad_row, 4) << wrong;
    EXPECT_TRUE(result.slopes.guards_intact());
  }
}

TEST(CrossEntropy, HasNoValidTargetWithoutClasses) {
  EXPECT_EQ(cross_entropy_of(Guarded<float>(0), {0}, 0).bad_row, 0);
  EXPECT_FALSE(cross_entropy_of(Guarded<float>(0), {}, 0).bad_row.has_value());
}

TEST(CrossEntropy, MayPutItsSlopesWhereTheLogitsWereOrNowhere) {
  Batch<float> batch(9, 33, 3);
  const auto apart = cross_entropy_of(batch.logits, batch.target, 33);
  float loss = -1;
  CrossEntropy<float> arrays{.logits = batch.logits.data(),
                             .target = batch.target.data(),
                             .slopes = nullptr,
                             .loss = &loss};
  EXPECT_FALSE(cross_entropy(9, 33, arrays).has_value());
  EXPECT_EQ(loss, apart.loss);
  arrays.slopes = batch.logits.data();
  EXPECT_FALSE(cross_entropy(9, 33, arrays).has_value());
  EXPECT_EQ(loss, apart.loss);
  EXPECT_TRUE(same_bits(batch.logits, apart.slopes));
}

template <typename T>
void expect_limits() {
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  constexpr T kNan = std::numeric_limits<T>::quiet_NaN();
  for (std::size_t classes : {3, 10, 33}) {
    for (std::size_t at = 0; at < classes; ++at) {
      SCOPED_TRACE(testing::Message() << "C " << classes << " at " << at);
      const std::size_t other = (at + 1) % classes;
      const auto of = [&](T special, std::size_t target) {
        Batch<T> batch(2, static_cast<std::int64_t>(classes), 4);
        batch.logits[at] = special;
        batch.target[0] = static_cast<std::int64_t>(target);
        return cross_entropy_of(batch.logits, batch.target, static_cast<std::int64_t>(classes));
      };
      for (const T special : {kInfinity, kNan}) {
        const auto result = of(special, other);
        EXPECT_TRUE(std::isnan(result.loss));
        for (std::size_t i = 0; i < 2 * classes; ++i) {
          EXPECT_EQ(std::isnan(result.slopes[i]), i < classes) << i;
        }
      }
      EXPECT_EQ(of(-kInfinity, at).loss, kInfinity);
      const auto beside = of(-kInfinity, other);
      EXPECT_TRUE(std::isfinite(beside.loss));
      EXPECT_EQ(beside.slopes[at], 0);
    }
  }
  Guarded<T> nothing(10);
  std::ranges::fill(nothing.values(), -kInfinity);
  EXPECT_TRUE(std::isnan(cross_entropy_of(nothing, {3}, 10).loss));
}

TEST(CrossEntropy, PassesNanOnAndHasItsLimitsInFloat) {
  expect_limits<float>();
}
TEST(CrossEntropy, PassesNanOnAndHasItsLimitsInDouble) {
  expect_limits<double>();
}

template <typename T>
Guarded<T> values(std::int64_t count, std::uint64_t seed) {
  return Batch<T>(count, 1, seed).logits;
}

template <typename T>
void expect_exact_squared_error(double tolerance) {
  for (const std::int64_t count : {0, 1, 7, 8, 9, 15, 16, 17, 33, 1000}) {
    SCOPED_TRACE(count);
    const auto output = values<T>(count, 5);
    const auto target = values<T>(count, 6);
    const auto result = squared_error_of(output, target);
    EXPECT_TRUE(result.slopes.guards_intact());
    if (count == 0) {
      EXPECT_TRUE(std::isnan(result.loss));
      continue;
    }
    double exact = 0;
    for (std::size_t i = 0; i < output.size(); ++i) {
      const double difference = static_cast<double>(output[i]) - static_cast<double>(target[i]);
      exact += difference * difference / static_cast<double>(count);
      EXPECT_NEAR(static_cast<double>(result.slopes[i]),
                  2 * difference / static_cast<double>(count), tolerance)
          << i;
    }
    EXPECT_NEAR(static_cast<double>(result.loss), exact, tolerance * exact);
  }
}

TEST(SquaredErrorLoss, AgreesWithTheReference) {
  expect_exact_squared_error<float>(1e-6);
  expect_exact_squared_error<double>(1e-14);
}

TEST(SquaredErrorLoss, MayPutItsSlopesWhereTheOutputsWereOrNowhere) {
  auto output = values<double>(33, 7);
  const auto target = values<double>(33, 8);
  const auto apart = squared_error_of(output, target);
  double loss = -1;
  SquaredError<double> arrays{
      .output = output.data(), .target = target.data(), .slopes = nullptr, .loss = &loss};
  squared_error(33, arrays);
  EXPECT_EQ(loss, apart.loss);
  arrays.slopes = output.data();
  squared_error(33, arrays);
  EXPECT_EQ(loss, apart.loss);
  EXPECT_TRUE(same_bits(output, apart.slopes));
}

TEST(SquaredErrorLoss, PassesNanAndInfinityOn) {
  auto output = values<float>(9, 9);
  const auto target = values<float>(9, 10);
  output[3] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(squared_error_of(output, target).loss, output[3]);
  output[4] = std::numeric_limits<float>::quiet_NaN();
  const auto result = squared_error_of(output, target);
  EXPECT_TRUE(std::isnan(result.loss));
  for (std::size_t i = 0; i < 9; ++i) EXPECT_EQ(std::isfinite(result.slopes[i]), i < 3 || i > 4);
}

template <typename T>
void expect_losses_same_on_each_target() {
  const Batch<T> batch(17, 33, 12);
  const auto goal = Batch<T>(17, 33, 13).logits;
  const auto entropy = cross_entropy_of(batch.logits, batch.target, 33);
  const auto squares = squared_error_of(batch.logits, goal);
  with_each_target([&] {
    const auto forced_entropy = cross_entropy_of(batch.logits, batch.target, 33);
    EXPECT_EQ(forced_entropy.loss, entropy.loss);
    EXPECT_TRUE(same_bits(forced_entropy.slopes, entropy.slopes));
    const auto forced_squares = squared_error_of(batch.logits, goal);
    EXPECT_EQ(forced_squares.loss, squares.loss);
    EXPECT_TRUE(same_bits(forced_squares.slopes, squares.slopes));
  });
}

TEST(LossBits, AreEqualOnEveryInstructionSetInFloat) {
  expect_losses_same_on_each_target<float>();
}
TEST(LossBits, AreEqualOnEveryInstructionSetInDouble) {
  expect_losses_same_on_each_target<double>();
}

/// The layer and a loss on it, as a function of the layer's arguments.
template <class Loss>
void expect_central_differences(Loss loss_of) {
  LinearCase<double> c({.batch = 5, .input = 4, .output = 3}, 14);
  const auto value = [&] { return loss_of(c.forward().output).loss; };
  const auto result = loss_of(c.forward().output);
  std::ranges::copy(result.slopes.values(), c.grad_output.data());
  c.scale = 1.5;
  c.run();
  const std::vector<Guarded<double>*> arguments = {&c.x, &c.weight, &c.bias};
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    for (std::size_t j = 0; j < arguments[i]->size(); ++j) {
      constexpr double kStep = 1e-5;
      double& argument = (*arguments[i])[j];
      const double before = argument;
      argument = before + kStep;
      const double above = value();
      argument = before - kStep;
      const double below = value();
      argument = before;
      EXPECT_NEAR((*c.gradients()[i])[j], 1.5 * (above - below) / (2 * kStep), 1e-8)
          << "argument " << i << ", element " << j;
    }
  }
}

TEST(CrossEntropy, OfALayerAgreesWithCentralDifferences) {
  expect_central_differences([](const Guarded<double>& output) {
    return cross_entropy_of(output, {0, 2, 1, 1, 0}, 3);
  });
}

TEST(SquaredErrorLoss, OfALayerAgreesWithCentralDifferences) {
  const auto target = values<double>(15, 15);
  expect_central_differences(
      [&](const Guarded<double>& output) { return squared_error_of(output, target); });
}

}  // namespace
}  // namespace passel::kernels::test
