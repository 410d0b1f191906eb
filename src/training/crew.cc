#include "passel/train/crew.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "passel/shm/error.h"
#include "passel/train/errors.h"
#include "passel/train/worker.h"

namespace passel::train {
namespace {

constexpr int kFailuresToGiveUp = 3;
// Loading libtorch on a busy machine takes seconds; --worker-timeout may be
// shorter than that, a start is given at least this long.
constexpr std::chrono::seconds kStartLimit{30};
constexpr std::chrono::seconds kRetryInterval{1};
// The parent looks around many times in this time, unless it stands still.
constexpr std::chrono::seconds kStandstill{1};

// One compute thread a worker: the kernels have no use for more, and a team of
// OpenMP threads that spins for the small products of the head loses whole time
// slices as soon as anything else wants the cores (docs/adr/0008). Set before
// exec, since libtorch and its BLAS read it once, when they are loaded.
const std::vector<std::string> kOneThread = {"OMP_NUM_THREADS=1", "MKL_NUM_THREADS=1"};

}  // namespace

Crew::Crew(const Config& config, const RunFolder& folder, shm::Arena& arena, MetricsLog& metrics,
           Progress& progress, bool simulated, std::function<void()> on_event)
    : config_(config),
      folder_(folder),
      arena_(arena),
      metrics_(metrics),
      progress_(progress),
      slots_(static_cast<std::size_t>(config.workers)),
      simulated_(simulated),
      supervisor_(arena, {.slots = static_cast<std::uint32_t>(config.workers),
                          .entry = kWorkerEntry,
                          .environment = kOneThread,
                          .on_event = std::move(on_event)}) {}

Crew::~Crew() = default;

void Crew::spawn_all() {
  for (std::uint32_t slot = 0; slot < size(); ++slot) spawn(slot);
}

void Crew::spawn(std::uint32_t slot) {
  std::uint32_t incarnation = 1;
  if (simulated_) {
    simulated_workers_.push_back(std::make_unique<Worker>(arena_, slot, incarnation));
  } else {
    incarnation = supervisor_.spawn(slot, {.output = folder_.worker_log(static_cast<int>(slot))});
  }
  slots_[slot] = {.incarnation = incarnation, .alive = true, .last_progress = Clock::now()};
  record(slot, "started");
}

bool Crew::compute() {
  bool computed = false;
  for (const auto& worker : simulated_workers_) computed = worker->try_step() || computed;
  return computed;
}

void Crew::dismiss() {
  dismissed_ = true;
  if (!simulated_) return;
  simulated_workers_.clear();
  for (std::uint32_t slot = 0; slot < size(); ++slot) {
    slots_[slot].alive = false;
    record(slot, "exited");
  }
}

void Crew::record(std::uint32_t slot, const char* state) {
  metrics_.worker(
      {.slot = static_cast<int>(slot), .incarnation = slots_[slot].incarnation, .state = state});
}

std::int64_t Crew::alive() const {
  return std::ranges::count_if(slots_, &Slot::alive);
}

bool Crew::is_current(const shm::Lease& lease) const {
  return lease.slot < size() && slots_[lease.slot].alive &&
         slots_[lease.slot].incarnation == lease.incarnation;
}

void Crew::note_ready(std::uint32_t slot) {
  slots_[slot].ready = true;
  failed_starts_ = 0;
  note_progress(slot);
  record(slot, "ready");
}

void Crew::note_trained(std::uint32_t slot) {
  note_progress(slot);
  if (!slots_[slot].trained) record(slot, "training");
  slots_[slot].trained = true;
}

void Crew::note_time() {
  const auto now = Clock::now();
  const auto gap = now - std::exchange(last_look_, now);
  if (gap < kStandstill) return;
  for (Slot& slot : slots_) slot.last_progress = std::min(now, slot.last_progress + gap);
}

bool Crew::stalled(std::uint32_t slot, bool holds_work, Clock::duration patience) const {
  const Slot& state = slots_[slot];
  return state.alive && holds_work && Clock::now() - state.last_progress > patience;
}

void Crew::kill_if_hanging(std::uint32_t slot, bool holds_work, Clock::duration limit) {
  Slot& state = slots_[slot];
  if (simulated_ || !state.alive || state.condemned || (state.ready && !holds_work)) return;
  if (!state.ready) limit = std::max<Clock::duration>(limit, kStartLimit);
  const auto idle = Clock::now() - state.last_progress;
  if (idle <= limit) return;
  state.condemned = true;
  progress_.warn(fmt::format("worker {} made no progress for {:.1f} s and is killed", slot,
                             std::chrono::duration<double>(idle).count()));
  supervisor_.kill(slot, SIGKILL);
}

void Crew::on_exit(const shm::WorkerExit& exit, std::optional<std::int64_t> ticket) {
  Slot& slot = slots_[exit.slot];
  if (exit.incarnation != slot.incarnation) return;
  const bool clean = exit.kind == shm::WorkerExit::Kind::kExited && exit.code == 0;
  WorkerRecord record{.slot = static_cast<int>(exit.slot), .incarnation = exit.incarnation};
  record.state = slot.condemned                                   ? "hung"
                 : exit.kind == shm::WorkerExit::Kind::kSignalled ? "killed"
                 : clean                                          ? "exited"
                                                                  : "failed";
  if (exit.kind == shm::WorkerExit::Kind::kSignalled) {
    record.signal = exit.code;
  } else {
    record.exit_code = exit.code;
  }
  record.text = exit.text;
  metrics_.worker(record);
  slot.alive = false;
  if (dismissed_) return;
  progress_.warn(fmt::format("{}; replacing it", exit.describe()));
  judge(exit, slot, ticket);
  ++respawns_;
  replace(exit.slot);
}

// A machine that has no process to give may have one later. With nobody left to train there is no
// point in waiting for long.
void Crew::replace(std::uint32_t slot) {
  try {
    spawn(slot);
    deserted_since_.reset();
  } catch (const shm::Error& error) {
    const auto now = Clock::now();
    if (!slots_[slot].vacant) progress_.warn(fmt::format("{}; trying again", error.what()));
    slots_[slot].vacant = true;
    next_try_ = now + kRetryInterval;
    if (alive() > 0) {
      deserted_since_.reset();
    } else if (!deserted_since_) {
      deserted_since_ = now;
    } else if (now - *deserted_since_ > kStartLimit) {
      throw;
    }
  }
}

void Crew::fill_vacancies() {
  if (dismissed_ || Clock::now() < next_try_) return;
  for (std::uint32_t slot = 0; slot < size(); ++slot) {
    if (slots_[slot].vacant) replace(slot);
  }
}

// Kills from outside say nothing about the run; a start that fails, or a ticket
// whose computation fails, will fail again.
void Crew::judge(const shm::WorkerExit& exit, const Slot& slot,
                 std::optional<std::int64_t> ticket) {
  const bool from_outside = exit.kind == shm::WorkerExit::Kind::kSignalled &&
                            (exit.code == SIGKILL || exit.code == SIGTERM || exit.code == SIGINT);
  if (!from_outside && !slot.ready && ++failed_starts_ >= kFailuresToGiveUp) {
    throw TrainingError(fmt::format(
        "workers cannot start: {} failed starts in a row. The last: {}. "
        "See {}",
        failed_starts_, exit.describe(), folder_.worker_log(static_cast<int>(exit.slot)).string()));
  }
  if (!from_outside && ticket && ++crashes_[*ticket] >= kFailuresToGiveUp) {
    throw TrainingError(fmt::format("ticket {} made {} workers fail. The last: {}. See {}", *ticket,
                                    kFailuresToGiveUp, exit.describe(),
                                    folder_.worker_log(static_cast<int>(exit.slot)).string()));
  }
  if (respawns_ >= config_.max_respawns) {
    throw TrainingError(
        fmt::format("expected at most {} replacements of workers (--max-respawns), "
                    "and one more is needed. The last: {}",
                    config_.max_respawns, exit.describe()));
  }
}

}  // namespace passel::train
