#include "passel/train/philox.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>
#include <vector>

namespace passel::train {
namespace {

static_assert(std::uniform_random_bit_generator<Philox>);

// The known answers that Random123 publishes for philox4x32 with 10 rounds (kat_vectors).
TEST(Philox, GivesThePublishedAnswers) {
  EXPECT_EQ(philox4x32_10({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(
      philox4x32_10({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
      (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(
      philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
      (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, WalksThroughTheBlocksOfItsStream) {
  const std::uint64_t seed = 0x0123456789abcdef;
  const std::uint64_t stream = 0xfedcba9876543210;
  Philox random(seed, RandomPurpose::kDropout, stream);
  for (std::uint32_t block = 0; block < 3; ++block) {
    const PhiloxCounter expected = philox4x32_10(
        {block, static_cast<std::uint32_t>(RandomPurpose::kDropout), 0x76543210, 0xfedcba98},
        {0x89abcdef, 0x01234567});
    for (const std::uint32_t value : expected) {
      EXPECT_EQ(random(), value);
    }
  }
}

TEST(Philox, DiffersInSeedPurposeAndStream) {
  std::set<std::uint32_t> first_values;
  for (const std::uint64_t seed : {1ULL, 2ULL, 1ULL << 32}) {
    for (const auto purpose : {RandomPurpose::kShuffle, RandomPurpose::kDropout}) {
      for (const std::uint64_t stream : {0ULL, 1ULL, 1ULL << 32}) {
        first_values.insert(Philox(seed, purpose, stream)());
      }
    }
  }
  EXPECT_EQ(first_values.size(), 18U);
}

TEST(Philox, GivesFloatsFromZeroToBelowOneThatAreUniform) {
  Philox random(7, RandomPurpose::kParameters, 0);
  std::vector<int> bins(16);
  const double draws = 160'000;
  for (int i = 0; i < draws; ++i) {
    const float value = random.uniform_float();
    ASSERT_GE(value, 0.0F);
    ASSERT_LT(value, 1.0F);
    ++bins[static_cast<std::size_t>(value * 16)];
  }
  for (const int count : bins) {  // six standard deviations
    EXPECT_NEAR(count, draws / 16, 6 * std::sqrt(draws / 16));
  }
}

TEST(Philox, GivesEveryNumberBelowABoundEquallyOften) {
  Philox random(8, RandomPurpose::kShuffle, 0);
  std::vector<int> bins(6);
  const double draws = 60'000;
  for (int i = 0; i < draws; ++i) {
    const std::uint32_t value = random.uniform_below(6);
    ASSERT_LT(value, 6U);
    ++bins[value];
  }
  for (const int count : bins) {
    EXPECT_NEAR(count, draws / 6, 6 * std::sqrt(draws / 6));
  }
}

// Plain multiply-and-shift would give every third number of this bound twice as often.
TEST(Philox, IsUnbiasedForABoundThatDoesNotDivideTheRange) {
  Philox random(9, RandomPurpose::kShuffle, 0);
  const std::uint32_t bound = 3U << 30;
  const double draws = 90'000;
  std::vector<int> rests(3);
  for (int i = 0; i < draws; ++i) {
    ++rests[random.uniform_below(bound) % 3];
  }
  for (const int count : rests) {
    EXPECT_NEAR(count, draws / 3, 6 * std::sqrt(draws / 3));
  }
}

TEST(Philox, KnowsOnlyZeroBelowOne) {
  Philox random(10, RandomPurpose::kShuffle, 0);
  EXPECT_EQ(random.uniform_below(1), 0U);
}

}  // namespace
}  // namespace passel::train
