#pragma once

#include <cstdint>
#include <functional>

#include "passel/train/config.h"
#include "passel/train/dataset.h"
#include "passel/train/metrics_log.h"
#include "passel/train/snapshot.h"

namespace passel::train {

/// Accuracy [0, 1] over the test split for a classifier, mean squared error for
/// a regressor; the other member stays empty.
struct Score {
  std::optional<double> test_accuracy;
  std::optional<double> test_loss;

  double value() const { return test_accuracy ? *test_accuracy : *test_loss; }
  bool higher_is_better() const { return test_accuracy.has_value(); }
};

/// Evaluates the snapshot's parameters on the whole test split, in any thread. Those of a stateful
/// run read it as streams, up to one a row of a batch, and carry the state from window to window.
/// `cancelled` is asked between batches; an evaluation cut short gives nullopt.
std::optional<Score> evaluate(const Snapshot& snapshot, const Dataset& dataset,
                              const Config& config, const std::function<bool()>& cancelled);

}  // namespace passel::train
