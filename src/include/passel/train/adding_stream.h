#pragma once

#include <cstdint>
#include <span>

#include "passel/train/dataset.h"

namespace passel::train {

/// The adding problem as one long sequence, cut into windows that follow each other. A step holds a
/// value from U(-1/2, 1/2) and a marker; two steps of each window are marked, one in each half. The
/// target of a window is the sum of all marked values since its document began; a window begins a
/// document with probability 1 / mean, and the first one does.
///
/// Who carries what it has seen from window to window can be exact. Who sees one window alone
/// cannot know the 2 * (mean - 1) values, in the mean, that were marked before it: the best that it
/// can do is a mean squared error of error_without_memory().
///
/// Every window is a function of (seed, split, index); nothing is stored.
class AddingStream final : public Dataset {
 public:
  /// @param steps of a window
  /// @param mean windows of a document, in the mean
  /// @param train_windows of the training split; the test split is another sequence
  /// Throws UsageError where steps are not from AddingProblem::kMinSteps to kMaxSteps or another
  /// number is not positive.
  AddingStream(std::uint64_t seed, std::int64_t steps, std::int64_t mean,
               std::int64_t train_windows, std::int64_t test_windows);

  static constexpr double error_without_memory(std::int64_t mean) {
    return static_cast<double>(mean - 1) * 2 / 12;
  }

  SampleShape shape() const noexcept override { return {steps_, 2, 0}; }
  std::int64_t train_size() const noexcept override { return train_windows_; }
  std::int64_t test_size() const noexcept override { return test_windows_; }
  void load() override {}
  void fill(Split split, std::span<const std::int64_t> indices, float* x,
            Targets targets) const override;
  bool begins_document(Split split, std::int64_t index) const override;

 private:
  struct Window;

  Window window(Split split, std::int64_t index) const;
  double marked_before(Split split, std::int64_t index) const;

  std::uint64_t seed_;
  std::int64_t steps_;
  std::int64_t mean_;
  std::int64_t train_windows_;
  std::int64_t test_windows_;
};

}  // namespace passel::train
