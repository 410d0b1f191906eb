#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "passel/train/checkpoint_hashes.h"
#include "passel/train/update_log.h"
#include "training.h"

namespace passel::train {

/// A run whose updates are those that were recorded, in their order, each from the version it was
/// computed from then; and what becomes of the comparison.
class Recording {
 public:
  /// Throws DataError where nothing was recorded.
  explicit Recording(const RunFolder& folder);

  /// Turns the training into a repetition of the recorded one, which reports its losses to this
  /// object. Throws DataError where the records are not those of such a run.
  void prepare(Training& training);

  /// The history by updates instead of tickets. Throws DataError where the last ones are missing.
  HashHistory by_updates(const HashHistory& history) const;

  /// Where a loss first differed from the recorded one.
  std::optional<std::string> difference() const;

 private:
  void check(const UpdateRecord& record, std::int64_t begin, const BatchPlan& plan) const;
  void compare(const Done& done);

  std::filesystem::path file_;
  std::vector<UpdateRecord> records_;  // by version
  std::optional<std::int64_t> differs_;
  float loss_ = 0;
};

}  // namespace passel::train
