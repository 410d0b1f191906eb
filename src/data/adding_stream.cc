#include "passel/train/adding_stream.h"

#include <stdexcept>
#include <string>

#include "expect_within.h"
#include "passel/train/adding_problem.h"
#include "passel/train/philox.h"

namespace passel::train {
namespace {

constexpr const char* kName = "the adding stream";
constexpr std::int64_t kMany = std::int64_t{1} << 31;

float value_of(Philox& random) {
  return random.uniform_float() - 0.5F;
}

}  // namespace

// What there is to know of a window but its unmarked values, which are drawn last: so the sum of a
// document costs a few draws a window.
struct AddingStream::Window {
  Philox random;  // of the unmarked values
  bool begins;
  std::int64_t first, second;  // marked steps
  float first_value, second_value;
};

AddingStream::AddingStream(std::uint64_t seed, std::int64_t steps, std::int64_t mean,
                           std::int64_t train_windows, std::int64_t test_windows)
    : seed_(seed),
      steps_(steps),
      mean_(mean),
      train_windows_(train_windows),
      test_windows_(test_windows) {
  expect_within(kName, steps, AddingProblem::kMinSteps, AddingProblem::kMaxSteps,
                "a number of steps");
  expect_within(kName, mean, 1, kMany, "a number of windows a document");
  expect_within(kName, train_windows, 1, kMany, "a number of training windows");
  expect_within(kName, test_windows, 1, kMany, "a number of test windows");
}

AddingStream::Window AddingStream::window(Split split, std::int64_t index) const {
  if (index < 0 || index >= size(split)) {
    throw std::out_of_range("window " + std::to_string(index) + " is not one of the " +
                            std::to_string(size(split)) + " windows of the adding stream");
  }
  const auto stream = static_cast<std::uint64_t>(index) * 2 + (split == Split::kTest ? 1 : 0);
  Philox random(seed_, RandomPurpose::kAddingStream, stream);
  const auto below = [&](std::int64_t bound) {
    return static_cast<std::int64_t>(random.uniform_below(static_cast<std::uint32_t>(bound)));
  };
  const bool begins = below(mean_) == 0 || index == 0;
  const std::int64_t first = below(steps_ / 2);
  const std::int64_t second = steps_ / 2 + below(steps_ - steps_ / 2);
  const float first_value = value_of(random);
  const float second_value = value_of(random);
  return {random, begins, first, second, first_value, second_value};
}

bool AddingStream::begins_document(Split split, std::int64_t index) const {
  return window(split, index).begins;
}

// Exact in whatever order: the values are multiples of 2^-24.
double AddingStream::marked_before(Split split, std::int64_t index) const {
  double sum = 0;
  bool begins = window(split, index).begins;
  while (!begins) {
    const Window before = window(split, --index);
    sum += double{before.first_value} + double{before.second_value};
    begins = before.begins;
  }
  return sum;
}

void AddingStream::fill(Split split, std::span<const std::int64_t> indices, float* x,
                        Targets targets) const {
  if (targets.values == nullptr) {
    throw std::logic_error("the adding stream has real targets: set Targets::values");
  }
  const auto n = static_cast<std::int64_t>(indices.size());
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t index = indices[static_cast<std::size_t>(i)];
    Window here = window(split, index);
    for (std::int64_t step = 0; step < steps_; ++step) {
      float* const at = x + 2 * (step * n + i);
      at[0] = step == here.first    ? here.first_value
              : step == here.second ? here.second_value
                                    : value_of(here.random);
      at[1] = step == here.first || step == here.second ? 1.0F : 0.0F;
    }
    targets.values[i] = static_cast<float>(marked_before(split, index) + double{here.first_value} +
                                           double{here.second_value});
  }
}

}  // namespace passel::train
