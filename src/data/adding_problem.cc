#include "passel/train/adding_problem.h"

#include <stdexcept>
#include <string>

#include "expect_within.h"
#include "passel/train/philox.h"

namespace passel::train {
namespace {

constexpr std::int64_t kMaxSamples = std::int64_t{1} << 32;
constexpr const char* kName = "the adding problem";

std::uint64_t stream_of(Split split, std::int64_t index) {
  return static_cast<std::uint64_t>(index) * 2 + (split == Split::kTest ? 1 : 0);
}

/// Writes one sample whose steps are `stride` floats apart; returns its target.
float write_sample(Philox random, std::int64_t steps, float* x, std::int64_t stride) {
  const std::int64_t half = steps / 2;
  const std::int64_t first = random.uniform_below(static_cast<std::uint32_t>(half));
  const std::int64_t second = half + random.uniform_below(static_cast<std::uint32_t>(steps - half));
  for (std::int64_t step = 0; step < steps; ++step) {
    x[step * stride] = random.uniform_float();
    x[step * stride + 1] = step == first || step == second ? 1.0F : 0.0F;
  }
  return x[first * stride] + x[second * stride];
}

}  // namespace

AddingProblem::AddingProblem(std::uint64_t seed, std::int64_t steps, std::int64_t train_size,
                             std::int64_t test_size)
    : seed_(seed), steps_(steps), train_size_(train_size), test_size_(test_size) {
  expect_within(kName, steps, kMinSteps, kMaxSteps, "a number of steps");
  expect_within(kName, train_size, 1, kMaxSamples, "a number of training samples");
  expect_within(kName, test_size, 1, kMaxSamples, "a number of test samples");
}

void AddingProblem::fill(Split split, std::span<const std::int64_t> indices, float* x,
                         Targets targets) const {
  if (targets.values == nullptr) {
    throw std::logic_error("the adding problem has real targets: set Targets::values");
  }
  const auto n = static_cast<std::int64_t>(indices.size());
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t index = indices[static_cast<std::size_t>(i)];
    if (index < 0 || index >= size(split)) {
      throw std::out_of_range("sample " + std::to_string(index) + " is not one of the " +
                              std::to_string(size(split)) + " samples of the adding problem");
    }
    const Philox random(seed_, RandomPurpose::kAddingProblem, stream_of(split, index));
    targets.values[i] = write_sample(random, steps_, x + 2 * i, 2 * n);
  }
}

}  // namespace passel::train
