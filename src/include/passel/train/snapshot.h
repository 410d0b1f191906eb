#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "passel/shm_torch/shared_parameters.h"
#include "passel/train/config.h"
#include "passel/train/dataset.h"
#include "passel/train/model.h"
#include "passel/train/safetensors.h"
#include "passel/train/training_memory.h"

namespace passel::train {

/// One optimiser's state: that of all workers, or of one worker slot.
struct OptimizerSnapshot {
  std::int64_t steps = 0;
  std::vector<std::vector<float>> blocks;  // each laid out by spans

  bool operator==(const OptimizerSnapshot&) const = default;
};

/// All state of a run at a ticket border, copied out of shared memory: tickets
/// before `ticket` are done, later ones not begun.
struct Snapshot {
  std::int64_t ticket = 0;
  std::int64_t epoch = 0;
  std::int64_t version = 0;  // updates applied
  std::vector<shm::ParameterSpan> spans;
  std::vector<float> parameters;  // laid out by spans
  // Mode ordered: those of 1, 2 ... updates before, which tickets to come are computed from.
  std::vector<std::vector<float>> older;
  std::vector<OptimizerSnapshot> optimizers;
  std::vector<float> states;       // of a stateful run: what each lane's newest ticket left,
  std::int64_t states_ticket = 0;  // of those before this one
};

/// Copies the state out. Call while no worker holds a ticket.
Snapshot take_snapshot(const TrainingMemory& memory, std::int64_t ticket, std::int64_t epoch);

/// The converse, before the first spawn. Private optimiser state goes to the slots
/// that exist now; further slots start afresh.
void restore_snapshot(const Snapshot& snapshot, const TrainingMemory& memory);

/// A checkpoint's tensors: parameters under their own names, optimiser state as
/// "optimizer/STATE/NAME", private state as "optimizer/worker-SLOT/STATE/NAME",
/// older parameter versions as "version-AGE/NAME", the states of a stateful run as "streams/state"
/// [lanes, 2 (h, c), layers, B, S].
/// The views point into the snapshot. `data` is the data set's fingerprint().
std::vector<TensorView> checkpoint_tensors(const Snapshot& snapshot, const Config& config);
Metadata checkpoint_metadata(const Snapshot& snapshot, const Config& config,
                             const SampleShape& shape, const std::string& data);

/// What a checkpoint says of the run it belongs to.
struct CheckpointHeader {
  Config config;
  SampleShape shape;
  std::int64_t ticket = 0;
  std::int64_t epoch = 0;
  std::int64_t version = 0;
  std::string canary;                         // see canary_hash(); empty: unknown
  std::string data;                           // see Dataset::fingerprint(); empty: unknown
  std::vector<std::int64_t> optimizer_steps;  // one for each optimiser saved
};
CheckpointHeader read_header(const SafetensorsFile& file);

/// Reads the parameters, and with `with_training_state` all that the header's
/// mode and optimiser keep besides. Throws DataError naming the first tensor that is missing or of
/// another shape than the model has.
Snapshot read_snapshot(const SafetensorsFile& file, const CheckpointHeader& header,
                       const Model& model, bool with_training_state);

/// 16 hex digits: XXH3 over the parameters' bytes, without padding.
std::string param_hash(const Snapshot& snapshot);

/// The same over each parameter alone, by name.
std::map<std::string, std::string> tensor_hashes(const Snapshot& snapshot);

}  // namespace passel::train
