#include "passel/train/ordered_commits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace passel::train {
namespace {

using Values = std::vector<float>;

/// A run of mode ordered without processes: every ticket's gradient is a known one, and plain loops
/// over all versions ever made are the oracle.
class OrderedCommitsTest : public testing::Test {
 protected:
  OrderedCommitsTest() {
    config_.mode = "ordered";
    config_.optimizer = "sgd";
    config_.lr = 0.5;
    config_.clip_norm = 0;
    config_.staleness = 3;
    config_.hidden_size = 5;
  }

  static float gradient_of(std::int64_t ticket, std::size_t i) {
    return 0.3F * std::sin(static_cast<float>(ticket * 31) + static_cast<float>(i));
  }

  /// The parameters after `tickets` tickets.
  Values committed(std::int64_t tickets) {
    shm::Arena arena = shm::Arena::create("test", TrainingMemory::capacity(config_, model_));
    const TrainingMemory memory = TrainingMemory::create(arena, config_, model_);
    OrderedCommits commits(config_, memory, 0);
    for (std::int64_t ticket = 0; ticket < tickets; ++ticket) {
      const auto block = commits.gradient(ticket);
      fill(block, ticket);
      const double square = commits.optimizer().squared_norm(block.data());
      commits.publish(ticket,
                      {.squared_norm = square, .lr = config_.lr, .loss = 1, .accepted = true});
      EXPECT_TRUE(commits.help());
    }
    return {memory.values().begin(), memory.values().end()};
  }

  /// Padding between parameters stays 0, as in a run.
  void fill(std::span<float> block, std::int64_t ticket) const {
    for (const auto& span : shm::flat_layout(model_.parameters())) {
      for (std::size_t i = span.begin; i < span.begin + span.count; ++i) {
        block[i] = gradient_of(ticket, i);
      }
    }
  }

  /// version[k + 1] = version[k] - rate(k) * direction(k, g, version[k], version[base])
  template <class Step>
  std::vector<double> looped(std::int64_t tickets, Step step) const {
    std::vector<std::vector<double>> versions(1, initial());
    for (std::int64_t k = 0; k < tickets; ++k) {
      const std::int64_t base = std::max<std::int64_t>(0, k - config_.staleness);
      Values block(versions[0].size());
      fill(block, k);
      auto next = versions.back();
      for (std::size_t i = 0; i < next.size(); ++i) {
        next[i] -=
            step(k - base, double{block[i]}, next[i], versions[static_cast<std::size_t>(base)][i]);
      }
      versions.push_back(next);
    }
    return versions.back();
  }

  std::vector<double> initial() const {
    const auto spans = shm::flat_layout(model_.parameters());
    std::vector<double> values(shm::flat_size(spans));
    for (std::size_t p = 0; p < spans.size(); ++p) {
      const auto* from = model_.parameters()[p].second.const_data_ptr<float>();
      std::copy_n(from, spans[p].count,
                  values.begin() + static_cast<std::ptrdiff_t>(spans[p].begin));
    }
    return values;
  }

  static void expect_near(const Values& got, const std::vector<double>& expected) {
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(got[i], expected[i], 2e-5) << "element " << i;
    }
  }

  Config config_;
  Model model_{{.steps = 4, .features = 3, .classes = 2}, 5, 1};
};

TEST_F(OrderedCommitsTest, AreThePlainLoopWithoutOptions) {
  expect_near(committed(20), looped(20, [](auto, double g, auto, auto) { return 0.5 * g; }));
}

TEST_F(OrderedCommitsTest, CompensateTheDelayWithTheVersionThatTheGradientWasComputedFrom) {
  config_.delay_compensation = 2;
  const auto expected = looped(20, [](auto, double g, double now, double then) {
    return 0.5 * (g + 2 * g * g * (now - then));
  });
  expect_near(committed(20), expected);
  config_.delay_compensation = 0;
  const Values plain = committed(20);
  double difference = 0;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    difference = std::max(difference, std::abs(plain[i] - expected[i]));
  }
  EXPECT_GT(difference, 0.01) << "the compensation is to be seen in this test";
}

TEST_F(OrderedCommitsTest, LeaveOutACompensationThatIsNotFinite) {
  config_.lr = 1e35;  // the parameters go 1e34 at a time, so a compensation is beyond 1e38
  const Values plain = committed(5);
  ASSERT_TRUE(std::ranges::all_of(plain, [](float v) { return std::isfinite(v); }));
  config_.delay_compensation = 1e6;
  EXPECT_EQ(committed(5), plain);
}

TEST_F(OrderedCommitsTest, ScaleTheRateByTheStalenessOfTheTicket) {
  config_.staleness_lr = 1;
  expect_near(committed(20), looped(20, [](std::int64_t staleness, double g, auto, auto) {
                return 0.5 / static_cast<double>(1 + staleness) * g;
              }));
}

TEST_F(OrderedCommitsTest, ChangeNoBitWhereAnOptionFindsNoStaleness) {
  config_.staleness = 0;
  const Values plain = committed(20);
  config_.staleness_lr = 1;
  config_.delay_compensation = 3;
  EXPECT_EQ(committed(20), plain);
}

// A commit that a SIGKILL cut off is begun again by another process.
TEST_F(OrderedCommitsTest, ComeToTheSameBitsWhenOneIsDoneTwice) {
  config_.delay_compensation = 2;
  config_.momentum = 0.9;
  const Values expected = committed(12);
  shm::Arena arena = shm::Arena::create("test", TrainingMemory::capacity(config_, model_));
  const TrainingMemory memory = TrainingMemory::create(arena, config_, model_);
  for (std::int64_t ticket = 0; ticket < 12; ++ticket) {
    OrderedCommits commits(config_, memory, 0);
    const auto block = commits.gradient(ticket);
    fill(block, ticket);
    const double square = commits.optimizer().squared_norm(block.data());
    commits.publish(ticket,
                    {.squared_norm = square, .lr = config_.lr, .loss = 1, .accepted = true});
    commits.help();
    // All is written but the word that says so.
    memory.commits->start_at(ticket);
    commits.help();
  }
  EXPECT_EQ(Values(memory.values().begin(), memory.values().end()), expected);
}

}  // namespace
}  // namespace passel::train
