#pragma once

#include <cstdint>
#include <span>

#include "passel/train/dataset.h"

namespace passel::train {

/// The adding problem: each step holds a value from U(0, 1) and a marker; two steps are marked, one
/// in each half of the sequence; the target is the sum of the two marked values. Predicting 1
/// always gives a mean squared error of 1/6. Hochreiter, Schmidhuber: "Long short-term memory",
/// Neural Computation 9(8), 1997, experiment 4, in the form of Le, Jaitly, Hinton:
/// arXiv:1504.00941. Every sample is a function of (seed, split, index); nothing is stored.
class AddingProblem final : public Dataset {
 public:
  static constexpr std::int64_t kMinSteps = 2;  ///< one for each half
  static constexpr std::int64_t kMaxSteps = 1'000'000;

  /// Throws UsageError where steps are not from kMinSteps to kMaxSteps or a size is not positive.
  AddingProblem(std::uint64_t seed, std::int64_t steps, std::int64_t train_size,
                std::int64_t test_size);

  SampleShape shape() const noexcept override { return {steps_, 2, 0}; }
  std::int64_t train_size() const noexcept override { return train_size_; }
  std::int64_t test_size() const noexcept override { return test_size_; }
  void load() override {}
  void fill(Split split, std::span<const std::int64_t> indices, float* x,
            Targets targets) const override;

 private:
  std::uint64_t seed_;
  std::int64_t steps_;
  std::int64_t train_size_;
  std::int64_t test_size_;
};

}  // namespace passel::train
