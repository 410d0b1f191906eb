#include "passel/kernels/update.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "each_target.h"

namespace passel::kernels {
namespace {

/// torch.optim's formulas for one parameter, in double.
class Plain {
 public:
  Plain(const UpdateOptions& options, double parameter) : o_(options), p_(parameter) {}

  double step(const UpdateStep& s, double gradient) {
    double g = gradient * s.grad_scale;
    if (o_.rule == UpdateRule::kAdamw) {
      p_ -= s.lr * o_.weight_decay * p_;
    } else {
      g += o_.weight_decay * p_;
    }
    p_ -= s.lr * direction(s, g);
    return p_;
  }

 private:
  double momentum(double g) { return buffer_ = o_.momentum * buffer_ + g; }

  double direction(const UpdateStep& s, double g) {
    switch (o_.rule) {
      case UpdateRule::kSgd:
        if (o_.momentum == 0) return g;
        momentum(g);
        return o_.nesterov ? g + o_.momentum * buffer_ : buffer_;
      case UpdateRule::kRmsprop:
        square_ = o_.alpha * square_ + (1 - o_.alpha) * g * g;
        g /= std::sqrt(square_) + o_.eps;
        return o_.momentum == 0 ? g : momentum(g);
      case UpdateRule::kAdagrad:
        square_ += g * g;
        return g / (std::sqrt(square_) + o_.eps);
      default:
        mean_ = o_.beta1 * mean_ + (1 - o_.beta1) * g;
        square_ = o_.beta2 * square_ + (1 - o_.beta2) * g * g;
        const double t = static_cast<double>(s.step);
        const double root = std::sqrt(square_ / (1 - std::pow(o_.beta2, t)));
        return mean_ / (1 - std::pow(o_.beta1, t)) / (root + o_.eps);
    }
  }

  UpdateOptions o_;
  double p_;
  double buffer_ = 0, square_ = 0, mean_ = 0;
};

/// Parameters with their state, and gradients drawn for each step.
struct Training {
  std::mt19937 engine{23};
  std::vector<float> parameters;
  std::vector<std::vector<float>> state;

  Training(const UpdateOptions& options, std::size_t n)
      : parameters(draw(n)),
        state(static_cast<std::size_t>(state_blocks(options)), std::vector<float>(n)) {}

  std::vector<float> draw(std::size_t n) {
    std::vector<float> values(n);
    for (float& v : values) v = static_cast<float>(engine()) * 0x1p-31F - 1;
    return values;
  }

  std::vector<float> step(const UpdateOptions& options, const UpdateStep& step) {
    auto gradient = draw(parameters.size());
    std::vector<float*> pointers;
    for (auto& block : state) pointers.push_back(block.data());
    apply_update(options, step, parameters.data(), gradient.data(), pointers, parameters.size());
    return gradient;
  }
};

std::vector<UpdateOptions> all_options() {
  std::vector<UpdateOptions> all;
  for (const double decay : {0.0, 0.1}) {
    all.push_back({.rule = UpdateRule::kSgd, .weight_decay = decay});
    all.push_back({.rule = UpdateRule::kSgd, .momentum = 0.9, .weight_decay = decay});
    all.push_back(
        {.rule = UpdateRule::kSgd, .momentum = 0.9, .nesterov = true, .weight_decay = decay});
    all.push_back({.rule = UpdateRule::kRmsprop, .weight_decay = decay});
    all.push_back({.rule = UpdateRule::kRmsprop, .momentum = 0.5, .weight_decay = decay});
    all.push_back({.rule = UpdateRule::kAdagrad, .eps = 1e-10, .weight_decay = decay});
    all.push_back({.rule = UpdateRule::kAdam, .weight_decay = decay});
    all.push_back({.rule = UpdateRule::kAdamw, .beta1 = 0.8, .beta2 = 0.99, .weight_decay = decay});
  }
  return all;
}

class Update : public testing::TestWithParam<UpdateOptions> {};

TEST_P(Update, FollowsTheFormulasOverManySteps) {
  for (const std::size_t n : {0, 1, 15, 16, 17, 35}) {
    Training run(GetParam(), n);
    std::vector<Plain> plain;
    for (const float p : run.parameters) plain.emplace_back(GetParam(), p);
    for (std::int64_t t = 1; t <= 300; ++t) {
      const UpdateStep step{.lr = 0.01 / static_cast<double>(t), .step = t, .grad_scale = 0.75F};
      const auto gradient = run.step(GetParam(), step);
      for (std::size_t i = 0; i < n; ++i) {
        const double expected = plain[i].step(step, gradient[i]);
        ASSERT_NEAR(run.parameters[i], expected, 2e-5 * (1 + std::abs(expected))) << "step " << t;
      }
    }
  }
}

TEST_P(Update, HasTheSameBitsOnEveryInstructionSet) {
  Training usual(GetParam(), 83);
  for (std::int64_t t = 1; t <= 20; ++t) usual.step(GetParam(), {.lr = 0.01, .step = t});
  test::with_each_target([&] {
    Training forced(GetParam(), 83);
    for (std::int64_t t = 1; t <= 20; ++t) forced.step(GetParam(), {.lr = 0.01, .step = t});
    EXPECT_EQ(forced.parameters, usual.parameters);
    EXPECT_EQ(forced.state, usual.state);
  });
}

TEST_P(Update, OutOfPlaceHasTheBitsOfInPlaceAndOnlyReadsItsSource) {
  for (const std::size_t n : {0, 1, 15, 16, 17, 35}) {
    test::with_each_target([&] {
      Training in_place(GetParam(), n);
      for (std::int64_t t = 1; t <= 5; ++t) {
        const Training before = in_place;
        const UpdateStep step{.lr = 0.01, .step = t, .grad_scale = 0.75F};
        const auto gradient = in_place.step(GetParam(), step);

        const auto nan = std::nanf("");  // what is there already must not matter
        std::vector<float> parameters(n, nan);
        std::vector<std::vector<float>> state(before.state.size(), parameters);
        std::vector<const float*> from;
        std::vector<float*> to;
        const Training source = before;
        for (const auto& block : source.state) from.push_back(block.data());
        for (auto& block : state) to.push_back(block.data());
        apply_update(GetParam(), step, {source.parameters.data(), from}, gradient.data(),
                     parameters.data(), to, n);
        EXPECT_EQ(parameters, in_place.parameters);
        EXPECT_EQ(state, in_place.state);
        EXPECT_EQ(source.parameters, before.parameters);
        EXPECT_EQ(source.state, before.state);
      }
    });
  }
}

TEST_P(Update, PassesNanOn) {
  Training run(GetParam(), 3);
  run.parameters[1] = std::nanf("");
  run.step(GetParam(), {.lr = 0.01, .step = 1});
  EXPECT_TRUE(std::isfinite(run.parameters[0]));
  EXPECT_TRUE(std::isnan(run.parameters[1]));
}

INSTANTIATE_TEST_SUITE_P(Rules, Update, testing::ValuesIn(all_options()));

TEST(UpdateState, IsNamedAsInTorch) {
  const auto names = [](const UpdateOptions& options) {
    const auto all = state_names(options);
    return std::vector<std::string_view>(all.begin(), all.end());
  };
  using Names = std::vector<std::string_view>;
  EXPECT_EQ(names({.rule = UpdateRule::kSgd}), Names{});
  EXPECT_EQ(names({.rule = UpdateRule::kSgd, .momentum = 0.9}), Names{"momentum_buffer"});
  EXPECT_EQ(names({.rule = UpdateRule::kRmsprop}), Names{"square_avg"});
  EXPECT_EQ(names({.rule = UpdateRule::kRmsprop, .momentum = 0.9}),
            (Names{"square_avg", "momentum_buffer"}));
  EXPECT_EQ(names({.rule = UpdateRule::kAdagrad}), Names{"sum"});
  EXPECT_EQ(names({.rule = UpdateRule::kAdam}), (Names{"exp_avg", "exp_avg_sq"}));
  EXPECT_EQ(names({.rule = UpdateRule::kAdamw}), (Names{"exp_avg", "exp_avg_sq"}));
}

TEST(AtomicAdditions, LoseNothingHoweverManyAddAtOnce) {
  constexpr std::size_t kThreads = 4;
  constexpr int kAdditions = 100'000;
  std::vector<float> values(3);
  const std::vector<float> deltas = {1, -1, 0.5};  // every sum is exact in a float
  std::vector<std::jthread> adders;
  for (std::size_t t = 0; t < kThreads; ++t) {
    adders.emplace_back([&] {
      for (int i = 0; i < kAdditions; ++i) {
        add_atomically(values.data(), deltas.data(), values.size());
      }
    });
  }
  adders.clear();
  EXPECT_EQ(values, (std::vector<float>{400'000, -400'000, 200'000}));
}

}  // namespace
}  // namespace passel::kernels
