// What a thread of a GPU does to an element of the flat block, on the CPU: bit by bit what the
// CPU's own kernels do.
#include "one_lane.h"

#include <gtest/gtest.h>

#include <bit>

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

template <UpdateRule kRule>
void update_by_lane(UpdateCase& work) {
  const UpdateFactors factors = update_factors(work.options, kUpdateStep);
  const UpdateArrays arrays =
      update_arrays({work.parameters.data(), pointers<const float*>(work.state)},
                    work.parameters.data(), pointers<float*>(work.state));
  for (std::size_t i = 0; i < kCount; ++i) {
    one_lane::update_lanes<kRule>(one_lane::Tag(), factors, work.options.momentum != 0, arrays,
                                  work.gradient.data(), i);
  }
}

void update_by_lane_of(UpdateCase& work) {
  switch (work.options.rule) {
    case UpdateRule::kSgd:
      return update_by_lane<UpdateRule::kSgd>(work);
    case UpdateRule::kRmsprop:
      return update_by_lane<UpdateRule::kRmsprop>(work);
    case UpdateRule::kAdagrad:
      return update_by_lane<UpdateRule::kAdagrad>(work);
    case UpdateRule::kAdam:
    case UpdateRule::kAdamw:
      return update_by_lane<UpdateRule::kAdam>(work);
  }
}

TEST(OneLane, UpdatesWithTheBitsOfTheCpu) {
  for (const UpdateOptions& options : all_update_options()) {
    SCOPED_TRACE(testing::Message()
                 << "rule " << static_cast<int>(options.rule) << ", momentum " << options.momentum);
    UpdateCase expected(options, kCount), got(options, kCount);
    apply_update(options, kUpdateStep, expected.parameters.data(), expected.gradient.data(),
                 pointers<float*>(expected.state), kCount);
    update_by_lane_of(got);
    expect_same_bits(got.parameters, expected.parameters);
    for (std::size_t s = 0; s < got.state.size(); ++s) {
      expect_same_bits(got.state[s], expected.state[s]);
    }
  }
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
