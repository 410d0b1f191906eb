#include "training.h"

#include <ATen/Parallel.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <torch/headeronly/version.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "passel/kernels/isa.h"
#include "passel/train/canary.h"
#include "passel/train/errors.h"
#include "passel/train/learning_rate.h"
#include "passel/train/machine_limits.h"
#include "passel/train/manifest.h"
#include "passel/train/update_log.h"
#include "saved_run.h"

namespace passel::train {
namespace {

std::int64_t tickets_asked_for(const Config& config, const BatchPlan& plan) {
  std::int64_t total = plan.tickets();
  if (config.max_tickets > 0) total = std::min(total, config.max_tickets);
  if (config.dry_run) total = std::min(total, std::max(config.workers, Schedule::of(config).group));
  return total;
}

// Steps that lack a ticket would never be made.
std::int64_t tickets_left_out(const Config& config, const BatchPlan& plan) {
  return tickets_asked_for(config, plan) % Schedule::of(config).group;
}

std::int64_t ticket_count(const Config& config, const BatchPlan& plan) {
  return tickets_asked_for(config, plan) - tickets_left_out(config, plan);
}

BatchPlan plan_of(const Config& config, const Dataset& dataset) {
  if (!config.stateful) {
    return {dataset.train_size(), config.batch_size, config.epochs, config.seed};
  }
  return {Streams(dataset, Split::kTrain, config.lanes, config.batch_size), config.epochs};
}

void check_against_data(const Config& config, const Dataset& dataset, std::int64_t total) {
  if (total == 0 && config.mode == "sync") {
    throw UsageError(
        fmt::format("expected tickets for a whole step of {} (--shards), got fewer. Use fewer "
                    "--shards, or more "
                    "--epochs or --max-tickets",
                    config.shards));
  }
  check_open_files(config.workers);
  if (config.batch_size > dataset.train_size()) {
    throw UsageError(
        fmt::format("expected --batch-size to be at most the {} training samples, got "
                    "{}. Choose a smaller one",
                    dataset.train_size(), config.batch_size));
  }
  if (config.workers > total) {
    throw UsageError(
        fmt::format("expected at most as many workers as tickets ({}), got {}. Use "
                    "fewer --workers, {}",
                    total, config.workers,
                    config.max_tickets == total ? "or more --max-tickets"
                                                : "more --epochs or a smaller --batch-size"));
  }
}

void check_same_rule(const SavedRun& saved, const Config& config) {
  const auto options = [](const Config& c) {
    std::string text = fmt::format("--optimizer {} --optimizer-state {} --momentum {} --mode {}",
                                   c.optimizer, c.optimizer_state, c.momentum, c.mode);
    if (c.mode == "ordered") text += fmt::format(" --staleness {}", c.staleness);
    if (c.mode == "sync") text += fmt::format(" --shards {}", c.shards);
    return text;
  };
  const std::string expected = options(saved.header.config), got = options(config);
  if (expected == got) return;
  throw UsageError(
      fmt::format("expected {} as in {}, got {}", expected, saved.file.path().string(), got));
}

void check_tickets_left(std::int64_t first, std::int64_t total) {
  if (first < total) return;
  throw UsageError(fmt::format(
      "expected tickets left to train, but all {} are done. Raise --epochs or --max-tickets",
      total));
}

// Where a run that promises the same bits goes on with another arithmetic.
std::vector<std::string> other_bits(const SavedRun& saved, const Config& config) {
  const std::string& theirs = saved.header.canary;
  if (config.mode == "hogwild" || theirs.empty() || theirs == canary_hash()) return {};
  return {fmt::format(
      "this machine computes other bits than the one that wrote {} (canary {} instead of {}): the "
      "run goes on, but not bit by bit as it would have there",
      saved.file.path().string(), canary_hash(), theirs)};
}

Start read_start(const std::filesystem::path& from, const Config& config, const Dataset& dataset,
                 const BatchPlan& plan, const Model& model) {
  if (from.empty()) return {};
  const SavedRun saved = open_saved(from);
  check_same_model(saved, config, dataset.shape());
  check_same_rule(saved, config);
  return {.ticket = resume_ticket(saved, config, plan),
          .snapshot = read_snapshot(saved.file, saved.header, model, true),
          .data = saved.header.data,
          .warnings = other_bits(saved, config)};
}

void note_update(UpdateLog& updates, const Done& done, Progress& progress) {
  if (done.applied_version == Done::kRejected) return;
  updates.add({.ticket = static_cast<std::uint32_t>(done.ticket),
               .base = static_cast<std::uint32_t>(done.base_version),
               .version = static_cast<std::uint32_t>(done.applied_version),
               .loss = done.loss});
  if (const auto error = updates.take_error()) progress.warn(*error);
}

// What decides which bits come out.
nlohmann::json arithmetic(const Training& training) {
  nlohmann::json facts = {{"isa", kernels::isa()}, {"canary", canary_hash()}};
  const auto devices = training.devices.names();
  if (!devices.empty()) facts["devices"] = devices;
  return facts;
}

// What a run that ended by itself or by a signal says of itself.
void conclude(const Outcome& outcome, Progress& progress, Manifest& manifest, MetricsLog& metrics) {
  metrics.summary(outcome.summary);
  progress.summary(outcome.summary);
  if (!outcome.save_error.empty()) {
    const std::string reason = "the last checkpoint could not be saved: " + outcome.save_error;
    progress.warn(reason);
    manifest.finish(reason, 1);
    return;
  }
  const int code = outcome.exit_code();
  manifest.finish(code == 0 ? "done" : "stopped by a signal after saving", code);
}

}  // namespace

FolderLock::FolderLock(const RunFolder& folder)
    : fd_(open(folder.root().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (fd_ >= 0 && flock(fd_, LOCK_EX | LOCK_NB) == 0) return;
  const int error_number = errno;
  if (fd_ >= 0) close(fd_);
  if (error_number == EWOULDBLOCK) {
    throw UsageError(
        "expected " + folder.root().string() +
        " to be free, but another process trains in it or verifies it. Wait for its end");
  }
  throw UsageError(
      fmt::format("{}: expected a run folder that can be locked, got: {}. Make it "
                  "readable, or put it where files can be locked",
                  folder.root().string(), std::strerror(error_number)));
}

FolderLock::~FolderLock() {
  close(fd_);
}

Training::Training(Config run, const std::filesystem::path& from)
    : config(std::move(run)),
      devices(config),
      dataset(open_dataset(dataset_options(config))),
      plan(plan_of(config, *dataset)),
      model(dataset->shape(), config.hidden_size, config.seed),
      total(ticket_count(config, plan)) {
  check_against_data(config, *dataset, total);
  static_cast<void>(LearningRate(config, plan));  // refuses a warm-up that has no end
  start = read_start(from, config, *dataset, plan, model);
  check_tickets_left(start.ticket, total);
}

void check_simulated_device(const Config& config) {
  if (config.device != "cpu") {
    throw UsageError(fmt::format(
        "--simulate-workers: expected the device cpu, got {}. One process computes for all",
        config.device));
  }
}

void check_simulation(const Config& config) {
  check_simulated_device(config);
  if (config.mode == "ordered" || config.mode == "sync") return;
  throw UsageError(fmt::format(
      "--simulate-workers: expected the mode ordered or sync, got {}. Its result depends on how "
      "its processes meet, which one process cannot compute{}",
      config.mode,
      config.mode == "recorded" ? "; but it can repeat what was recorded: passel replay RUN "
                                  "--simulate-workers N"
                                : ""));
}

Outcome run_training(Training& training, const RunFolder& folder,
                     const std::vector<std::string>& argv,
                     const std::function<std::shared_ptr<void>(Coordinator&)>& watch) {
  const Config& config = training.config;
  const Start& start = training.start;
  at::set_num_threads(1);  // the workers have the cores
  const bool tty = isatty(STDERR_FILENO) != 0;
  Progress progress(STDERR_FILENO, tty, config.quiet);
  MetricsLog metrics(folder.metrics());
  if (start.snapshot) metrics.truncate_after(start.ticket);
  tensorboard::EventFile events(folder.root(),
                                start.snapshot ? std::optional(start.ticket) : std::nullopt);
  Manifest manifest(folder.manifest(), argv, config.seed, TORCH_VERSION, arithmetic(training));

  const Replay& replay = training.replay;
  shm::Arena arena =
      shm::Arena::create("passel", TrainingMemory::capacity(config, training.model, replay));
  TrainingMemory memory = TrainingMemory::create(
      arena, config, training.model, replay,
      training.devices.lay_out(arena, config, TrainingMemory::block_bytes(config, training.model)));
  if (start.snapshot) restore_snapshot(*start.snapshot, memory);
  try {
    Coordinator coordinator({.config = config,
                             .folder = folder,
                             .arena = arena,
                             .memory = memory,
                             .dataset = *training.dataset,
                             .metrics = metrics,
                             .events = events,
                             .progress = progress,
                             .tty = tty,
                             .simulated = training.simulated},
                            training.plan, start.ticket, training.total, training.borders);
    std::optional<UpdateLog> updates;
    if (config.mode == "recorded") updates.emplace(folder.updates(), memory.version());
    coordinator.set_replay(replay);
    coordinator.set_observer([&](const Done& done) {
      if (updates) note_update(*updates, done, progress);
      if (training.observer) training.observer(done);
    });
    progress.note(fmt::format("run {}: {} tickets, {} {}, mode {}", folder.root().string(),
                              training.total, config.workers,
                              training.simulated ? "simulated workers" : "workers", config.mode));
    if (start.ticket > 0) {
      progress.note(fmt::format("goes on from the checkpoint of ticket {}", start.ticket));
    }
    for (const std::string& warning : start.warnings) progress.warn(warning);
    if (const auto left = tickets_left_out(config, training.plan); left > 0) {
      progress.note(
          fmt::format("the last {} tickets are left out: they make no whole step of {} "
                      "(--shards)",
                      left, config.shards));
    }
    for (const std::string& note : training.devices.notes(config)) progress.note(note);
    const std::string crowded = crowding(config.workers, cores_allowed());
    if (!crowded.empty() && !training.simulated) progress.warn(crowded);
    coordinator.spawn_workers();
    training.dataset->load();
    if (!start.data.empty() && start.data != training.dataset->fingerprint()) {
      progress.warn(
          fmt::format("{}: expected the data that the checkpoint of ticket {} was trained on, got "
                      "others of the "
                      "same form: the run goes on with these",
                      config.data.string(), start.ticket));
    }
    const auto watcher = watch ? watch(coordinator) : nullptr;
    Outcome outcome = coordinator.run();
    conclude(outcome, progress, manifest, metrics);
    return outcome;
  } catch (const Interrupted& interrupted) {
    manifest.finish("stopped by a second signal, not saved", 128 + interrupted.signal);
    throw;
  } catch (const std::exception& error) {
    manifest.finish(error.what(), 1);
    throw;
  }
}

}  // namespace passel::train
