#pragma once

#include <filesystem>

#include "passel/train/batch_plan.h"
#include "passel/train/config.h"
#include "passel/train/dataset.h"
#include "passel/train/snapshot.h"

namespace passel::train {

/// A checkpoint on disk, verified, and what it says of its run.
struct SavedRun {
  SafetensorsFile file;
  CheckpointHeader header;
};

/// `target`: a checkpoint, or a run folder (its newest valid checkpoint).
/// Damaged checkpoints that are passed over are named on stderr. Throws
/// DataError when there is none, or it is damaged.
SavedRun open_saved(const std::filesystem::path& target);

DatasetOptions dataset_options(const Config& config);

/// Throws DataError unless the checkpoint's model is the one the configuration
/// and the data set ask for.
void check_same_model(const SavedRun& saved, const Config& config, const SampleShape& shape);

/// The ticket to go on with. Throws UsageError when the checkpoint's tickets
/// are not this run's: another seed or batch size.
std::int64_t resume_ticket(const SavedRun& saved, const Config& config, const BatchPlan& plan);

}  // namespace passel::train
