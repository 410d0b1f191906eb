#include "passel/train/staleness.h"

#include <gtest/gtest.h>

#include <random>
#include <type_traits>
#include <vector>

namespace passel::train {
namespace {

static_assert(std::is_trivially_copyable_v<StalenessHistogram>);

TEST(Staleness, IsZeroWhenNothingWasCounted) {
  const StalenessHistogram sut;
  EXPECT_EQ(sut.total(), 0u);
  EXPECT_EQ(sut.mean(), 0);
  EXPECT_EQ(sut.max(), 0u);
}

TEST(Staleness, CountsExactlyUpTo31AndPutsTheRestTogether) {
  StalenessHistogram sut;
  for (const std::uint64_t value : {0u, 31u, 31u, 32u, 1000u}) sut.add(value);
  EXPECT_EQ(sut.count(0), 1u);
  EXPECT_EQ(sut.count(31), 2u);
  EXPECT_EQ(sut.overflow(), 2u);
  EXPECT_EQ(sut.max(), 1000u);
  EXPECT_DOUBLE_EQ(sut.mean(), 1094.0 / 5);
}

TEST(Staleness, TakesTheLargestValue) {
  StalenessHistogram sut;
  sut.add(UINT64_MAX);
  EXPECT_EQ(sut.overflow(), 1u);
  EXPECT_EQ(sut.max(), UINT64_MAX);
}

TEST(Staleness, MergedPartsEqualTheWhole) {
  constexpr std::uint64_t kSeed = 5;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937_64 random(kSeed);
  StalenessHistogram whole;
  std::vector<StalenessHistogram> parts(4);
  for (int i = 0; i < 10000; ++i) {
    const std::uint64_t value = random() % 50;
    whole.add(value);
    parts[random() % parts.size()].add(value);
  }
  StalenessHistogram merged;
  for (const StalenessHistogram& part : parts) merged.merge(part);
  for (std::size_t i = 0; i < StalenessHistogram::kBuckets; ++i) {
    EXPECT_EQ(merged.count(i), whole.count(i)) << i;
  }
  EXPECT_EQ(merged.overflow(), whole.overflow());
  EXPECT_EQ(merged.total(), whole.total());
  EXPECT_EQ(merged.max(), whole.max());
  EXPECT_DOUBLE_EQ(merged.mean(), whole.mean());
}

}  // namespace
}  // namespace passel::train
