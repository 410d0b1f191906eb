#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "passel/train/safetensors.h"

namespace passel::train {

/// What a checkpoint says about itself.
struct CheckpointInfo {
  std::int64_t ticket = 0;  ///< tickets finished: the next one to run
  std::int64_t epoch = 0;
  std::optional<double> score;   ///< of the last evaluation; absent or NaN: never the best
  bool higher_is_better = true;  ///< accuracy: true; loss: false
  std::filesystem::path path;    ///< set by the store
};

/// Version of what checkpoints mean; a file with another one is refused.
inline constexpr int kCheckpointFormatVersion = 1;

/// Reads and verifies one checkpoint. Throws DataError where the file is damaged, no checkpoint of
/// Passel, without checksums, or of a newer format.
SafetensorsFile open_checkpoint(const std::filesystem::path& path);

/// What a file from open_checkpoint() says about itself. Throws DataError where a field is missing
/// or malformed.
CheckpointInfo checkpoint_info(const SafetensorsFile& file);

/// checkpoint-000001234.safetensors: a file whose name has the ticket.
struct NumberedFile {
  std::int64_t ticket;
  std::filesystem::path path;
};

/// The checkpoints of one run: checkpoint-000001234.safetensors (the ticket) and best.safetensors,
/// a copy of its own. The last `keep_last` and the best are kept; an old one is deleted only after
/// the new one is durable. One process and one thread at a time may save.
class CheckpointStore {
 public:
  using Report = std::function<void(const std::string& sentence)>;

  /// Touches nothing on disk. `report` hears about every damaged file that is passed over, and what
  /// went wrong beside a save that succeeded.
  /// Throws UsageError where keep_last < 1.
  explicit CheckpointStore(std::filesystem::path directory, int keep_last = 3,
                           Report report = nullptr);

  /// Writes a checkpoint (and best.safetensors, where info.score beats the best so far) and returns
  /// its path. The first call, and each after one that failed or that finds the folder gone,
  /// creates the folder, sweeps the temporaries of dead writers and looks at the best so far. A
  /// checkpoint of a later ticket is of a future that was given up (the run was resumed before it)
  /// and is deleted. What concerns only best.safetensors or what is to be deleted is reported and
  /// does not fail the save; a best that cannot be read, or is of a newer format, is left alone.
  /// Throws FileError; the older checkpoints then still stand, and the next save may succeed.
  std::filesystem::path save(const CheckpointInfo& info, std::span<const TensorView> tensors,
                             const Metadata& metadata = {});

  /// The newest checkpoint that is complete and valid; a damaged one is reported and passed over.
  /// best.safetensors stands in where it is newer than all that are left.
  /// Throws DataError where there are checkpoints but none is usable, or the newest is of a newer
  /// format; gives nullopt where there are none.
  std::optional<CheckpointInfo> latest() const;

  /// The checkpoints by ticket, whatever they hold, newest first. Throws DataError where the folder
  /// cannot be listed.
  std::vector<NumberedFile> files() const;

  /// The ticket of the best checkpoint that this store has seen; empty before the first save.
  std::optional<std::int64_t> best_ticket() const {
    return best_ ? std::optional(best_->ticket) : std::nullopt;
  }
  /// The best checkpoint, or nullopt where there is none or it is damaged (reported).
  std::optional<CheckpointInfo> best() const;

 private:
  void prepare_folder();
  void look_at_best();
  /// False where the best has to be looked at again before the next save.
  bool save_if_best(const CheckpointInfo& info, std::span<const TensorView> tensors,
                    const Metadata& metadata);
  void retire(std::int64_t saved_ticket) const;
  std::optional<CheckpointInfo> try_read(const std::filesystem::path& path) const;
  void report(const std::string& sentence) const;

  std::filesystem::path directory_;
  int keep_last_;
  Report report_;
  bool prepared_ = false;
  bool best_may_be_replaced_ = true;
  std::optional<CheckpointInfo> best_;
};

}  // namespace passel::train
