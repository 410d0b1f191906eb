// What a thread of a GPU does to an element of the flat block, on the CPU: bit by bit what the
// CPU's own kernels do.
#include "one_lane.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cfloat>
#include <string>
#include <thread>

#include "kernels_cuda/update_case.h"

namespace passel::kernels {
namespace {

constexpr std::size_t kCount = 1003;

void expect_same_bits(const std::vector<float>& got, const std::vector<float>& expected) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(got[i]) && std::isnan(expected[i])) continue;
    ASSERT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(expected[i]))
        << "element " << i << ": " << got[i] << " instead of " << expected[i];
  }
}

UpdateArrays arrays_of(UpdateCase& work) {
  return update_arrays({work.parameters.data(), pointers<const float*>(work.state)},
                       work.parameters.data(), pointers<float*>(work.state));
}

void update_by_lane(UpdateCase& work) {
  const UpdateFactors factors = update_factors(work.options, kUpdateStep);
  const UpdateArrays arrays = arrays_of(work);
  one_lane::with_rule(work.options.rule, [&](auto rule) {
    for (std::size_t i = 0; i < kCount; ++i) {
      one_lane::update_lanes<rule>(one_lane::Tag(), factors, work.options.momentum != 0, arrays,
                                   work.gradient.data(), i);
    }
  });
}

void add_by_lane(UpdateCase& work) {
  const UpdateFactors factors = update_factors(work.options, kUpdateStep);
  const UpdateArrays arrays = arrays_of(work);
  one_lane::with_rule(work.options.rule, [&](auto rule) {
    for (std::size_t i = 0; i < kCount; ++i) {
      one_lane::add_update<rule>(factors, work.options.momentum != 0, arrays, work.gradient.data(),
                                 i);
    }
  });
}

void update_by_cpu(UpdateCase& work) {
  apply_update(work.options, kUpdateStep, work.parameters.data(), work.gradient.data(),
               pointers<float*>(work.state), kCount);
}

std::string text_of(const UpdateOptions& options) {
  return "rule " + std::to_string(static_cast<int>(options.rule)) + ", momentum " +
         std::to_string(options.momentum);
}

TEST(OneLane, UpdatesWithTheBitsOfTheCpu) {
  for (const UpdateOptions& options : all_update_options()) {
    SCOPED_TRACE(text_of(options));
    UpdateCase expected(options, kCount), got(options, kCount);
    update_by_cpu(expected);
    update_by_lane(got);
    expect_same_bits(got.parameters, expected.parameters);
    for (std::size_t s = 0; s < got.state.size(); ++s) {
      expect_same_bits(got.state[s], expected.state[s]);
    }
  }
}

TEST(OneLane, AddsTheUpdateOfTheCpu) {
  for (const UpdateOptions& options : all_update_options()) {
    SCOPED_TRACE(text_of(options));
    const UpdateCase before(options, kCount);
    UpdateCase expected(options, kCount), got(options, kCount);
    update_by_cpu(expected);
    add_by_lane(got);
    for (std::size_t s = 0; s < got.state.size(); ++s) {
      expect_same_bits(got.state[s], expected.state[s]);
    }
    for (std::size_t i = 0; i < kCount; ++i) {
      const float old = before.parameters[i], rule = expected.parameters[i];
      if (!std::isfinite(old) || !std::isfinite(rule)) {
        EXPECT_FALSE(std::isfinite(got.parameters[i])) << i;
        continue;
      }
      const float roundings = FLT_EPSILON * (std::abs(rule) + std::abs(rule - old)) + FLT_MIN;
      EXPECT_NEAR(got.parameters[i], rule, roundings) << i;
    }
  }
}

// An update of zeros is nothing but what is added.
TEST(OneLane, AddsExactlyWhatTheCpuMakesOfZeros) {
  for (const UpdateOptions& options : all_update_options()) {
    if (options.weight_decay != 0) continue;
    SCOPED_TRACE(text_of(options));
    const UpdateCase before(options, kCount);
    UpdateCase change(options, kCount), got(options, kCount);
    std::ranges::fill(change.parameters, 0.0F);
    update_by_cpu(change);
    add_by_lane(got);
    for (std::size_t i = 0; i < kCount; ++i) {
      if (!std::isfinite(before.parameters[i]) || !std::isfinite(change.parameters[i])) continue;
      EXPECT_EQ(got.parameters[i], before.parameters[i] + change.parameters[i]) << i;
    }
  }
}

TEST(OneLane, LosesNoUpdateThatThreadsAddAtOnce) {
  constexpr std::size_t kThreads = 4;
  constexpr int kUpdates = 200'000;
  const UpdateFactors factors = update_factors({.rule = UpdateRule::kSgd}, {.lr = 1, .step = 1});
  std::vector<float> values(3);
  const std::vector<float> gradient = {1, -1, 0.5};  // every sum is exact in a float
  const UpdateArrays arrays = update_arrays({values.data(), {}}, values.data(), {});
  std::vector<std::jthread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (std::size_t i = 0; i < kUpdates * values.size(); ++i) {
        one_lane::add_update<UpdateRule::kSgd>(factors, false, arrays, gradient.data(), i % 3);
      }
    });
  }
  threads.clear();
  EXPECT_EQ(values, (std::vector<float>{-800'000, 800'000, -400'000}));
}

TEST(OneLane, CompensatesADelayWithTheBitsOfTheCpu) {
  const UpdateCase values({.rule = UpdateRule::kAdam}, kCount);
  std::vector<float> expected(kCount), got(kCount);
  compensate_delay(0.7F, values.gradient.data(), values.parameters.data(), values.state[0].data(),
                   expected.data(), kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    got[i] =
        one_lane::compensated(0.7F, values.gradient[i], values.parameters[i], values.state[0][i]);
  }
  expect_same_bits(got, expected);
}

}  // namespace
}  // namespace passel::kernels
