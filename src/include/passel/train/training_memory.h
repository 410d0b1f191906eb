#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "passel/device/block_memory.h"
#include "passel/kernels/update.h"
#include "passel/shm/arena.h"
#include "passel/shm/arrival_ring.h"
#include "passel/shm/buffer_pool.h"
#include "passel/shm/commit_ring.h"
#include "passel/shm/lane_states.h"
#include "passel/shm/queue.h"
#include "passel/shm_torch/shared_parameters.h"
#include "passel/shm_torch/tensor_handle.h"
#include "passel/train/config.h"
#include "passel/train/dataset.h"
#include "passel/train/model.h"
#include "passel/train/schedule.h"

namespace passel::train {

/// Tickets that one worker may hold: the one it computes and the next, so that
/// it never waits for the parent.
inline constexpr std::uint32_t kGrantDepth = 2;

/// Parent to worker: compute and apply the gradient of this batch.
struct Grant {
  std::int64_t ticket;
  std::int64_t batch;  // the ticket whose batch it is: another one where a recorded run is repeated
  shm::Lease lease;
  double lr;
  shm::TensorHandle x;       // [T, B, I]
  shm::TensorHandle target;  // [B]
  shm::TensorHandle fresh;   // [B] bool, of a stateful run: rows that begin without a past
};

/// Worker to parent: a ticket is done. The first message of an incarnation has
/// ticket kReady: the worker can take grants.
struct Done {
  static constexpr std::int64_t kReady = -1;
  static constexpr std::int64_t kRejected = -1;  ///< loss or gradient were not finite

  std::int64_t ticket;
  shm::Lease lease;
  std::int64_t base_version;     // parameter version the gradient was computed from
  std::int64_t applied_version;  // version it was applied to, or kRejected
  float loss;
};

/// What a worker hands in with the gradient of a ticket, in modes ordered and sync.
struct Contribution {
  double squared_norm;
  double lr;
  float loss;
  bool accepted;  ///< loss and gradient are finite
};

/// The same in mode recorded; what is not finite is not handed in.
struct Arrival {
  double squared_norm;
  double lr;
  std::int64_t base;  ///< version that the gradient was computed from
  float loss;
};

/// State of one optimiser in shared memory: that of all workers, of one slot, or in modes ordered
/// and sync that of every other version.
struct OptimizerState {
  std::vector<std::span<float>> blocks;  ///< each laid out as the parameters
  std::atomic<std::int64_t>* steps;      ///< updates made with it
};

/// What a worker has on its device, see device::MemoryUse, and used of it. Zeros: on the CPU.
struct DeviceUse {
  std::atomic<double> seconds;        // that it computed tickets, by all incarnations
  std::atomic<std::int64_t> emptied;  // times that its cache was, by all incarnations
  std::atomic<std::int64_t> allocated;
  std::atomic<std::int64_t> reserved;
  std::atomic<std::int64_t> peak;
};

/// Counters that every process of a run sees.
struct RunCounters {
  // Mode hogwild: updates applied so far by all workers; the base of staleness.
  alignas(128) std::atomic<std::int64_t> version;
  // Borders at which the parent took a snapshot; it alone writes it.
  alignas(128) std::atomic<std::int64_t> borders;
};

/// A recorded run that is repeated, as one of mode ordered whose "tickets" are the versions that
/// updates were applied to. Empty: none.
struct Replay {
  std::int64_t first = 0;             ///< version of the first update
  std::vector<std::int64_t> bases;    ///< version that each update was computed from
  std::vector<std::int64_t> batches;  ///< ticket whose batch that was
  std::int64_t first_batch = 0;       ///< tickets before it were done before the first update
};

/// The arena of a training run. The parent creates all of it before the first
/// spawn; a worker opens it and finds the same layout.
struct TrainingMemory {
  // Where versions, optimizers and gradients lie: what their pointers mean, it knows.
  std::shared_ptr<device::BlockMemory> blocks;
  shm::SharedParameters parameters;  // their layout, and the values that versions[0] begins with
  Schedule schedule;
  std::vector<std::span<float>> versions;   // version v is versions[v % size], hogwild's only one
  std::vector<OptimizerState> optimizers;   // see optimizer_count()
  std::vector<std::span<float>> gradients;  // modes ordered, sync; recorded: one a worker
  std::optional<shm::CommitRing<Contribution>> commits;  // modes ordered and sync
  std::optional<shm::ArrivalRing<Arrival>> arrivals;     // mode recorded
  std::optional<shm::LaneStates> states;                 // of a stateful run
  RunCounters* counters;
  std::span<DeviceUse> device_use;              // one per worker slot, which writes it
  shm::SimpleQueue<Done> done;                  // one producer per worker slot
  std::vector<shm::SimpleQueue<Grant>> grants;  // one per worker slot
  std::span<std::byte> batches;                 // batch_count(config) x batch_bytes(...)

  /// Bytes that create() will ask of an arena, with some room to spare.
  static std::size_t capacity(const Config& config, const Model& model, const Replay& replay = {});
  /// Bytes of all versions, optimizers and gradients.
  static std::size_t block_bytes(const Config& config, const Model& model);
  /// @param blocks this process's way to where those lie; none: to the arena
  /// Throws shm::Error when the arena is too small.
  static TrainingMemory create(shm::Arena& arena, const Config& config, const Model& model,
                               const Replay& replay = {},
                               std::shared_ptr<device::BlockMemory> blocks = nullptr);
  /// Throws shm::Error when the model is not the one it was created for.
  static TrainingMemory open(const shm::Arena& arena, const Config& config, const Model& model,
                             std::shared_ptr<device::BlockMemory> blocks = nullptr);

  /// Parameters and optimiser state after all commits so far, and the parameters of the version
  /// `age` commits before.
  std::int64_t version() const;
  std::span<float> values(std::int64_t age = 0) const;

  /// What a worker needs before it can build its model.
  static Config read_config(const shm::Arena& arena);
  static SampleShape read_shape(const shm::Arena& arena);
};

kernels::UpdateOptions update_options(const Config& config);

/// Optimiser states of a run. hogwild: 1, or with private state one per worker slot. The others: 2,
/// that of version v is the one of index v % 2.
std::size_t optimizer_count(const Config& config);

/// Tickets that may be open at once, from the oldest on: of so many the contributions are kept.
std::uint32_t ticket_window(const Config& config);

/// Batch buffers of a run: enough for every worker's grants and one being filled.
std::uint32_t batch_count(const Config& config);
/// One batch: x [T, B, I] floats, then targets [B] of 8 bytes, then a byte a row, rounded to 4 KiB.
std::size_t batch_bytes(const Config& config, const SampleShape& shape);

}  // namespace passel::train
