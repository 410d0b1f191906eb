#include <ATen/Parallel.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <torch/headeronly/version.h>
#include <unistd.h>

#include <algorithm>

#include "commands.h"
#include "passel/train/coordinator.h"
#include "passel/train/errors.h"
#include "passel/train/machine_limits.h"
#include "passel/train/manifest.h"
#include "saved_run.h"

namespace passel::train {
namespace {

std::int64_t ticket_count(const Config& config, const BatchPlan& plan) {
  std::int64_t total = plan.tickets();
  if (config.max_tickets > 0) total = std::min(total, config.max_tickets);
  if (config.dry_run) total = std::min(total, std::max(config.workers, config.shards));
  // Steps that lack a ticket would never be made.
  return total - total % Schedule::of(config).group;
}

void check_against_data(const Config& config, const Dataset& dataset, std::int64_t total) {
  if (config.device != "cpu") {
    throw UsageError("expected --device cpu, got " + config.device +
                     ". This build trains on the CPU");
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
                    "fewer --workers, more --epochs or a smaller --batch-size",
                    total, config.workers));
  }
}

// The exit code of a run that ended by itself or by a signal.
int conclude(const Outcome& outcome, Progress& progress, Manifest& manifest, MetricsLog& metrics) {
  metrics.summary(outcome.summary);
  progress.summary(outcome.summary);
  if (!outcome.save_error.empty()) {
    const std::string reason = "the last checkpoint could not be saved: " + outcome.save_error;
    progress.warn(reason);
    manifest.finish(reason, 1);
    return 1;
  }
  const int code = outcome.stop_signal == 0 ? 0 : 128 + outcome.stop_signal;
  manifest.finish(code == 0 ? "done" : "stopped by a signal after saving", code);
  return code;
}

// One process at a time trains in a folder. The lock goes with the process,
// however it ends.
class FolderLock {
 public:
  explicit FolderLock(const RunFolder& folder)
      : fd_(open(folder.root().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (fd_ >= 0 && flock(fd_, LOCK_EX | LOCK_NB) == 0) return;
    if (fd_ >= 0) close(fd_);
    throw UsageError("expected " + folder.root().string() +
                     " to be free, but another process trains in it. Wait for its end");
  }
  ~FolderLock() { close(fd_); }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int fd_;
};

void check_tickets_left(std::int64_t first, std::int64_t total) {
  if (first < total) return;
  throw UsageError(fmt::format(
      "expected tickets left to train, but all {} are done. Raise --epochs or --max-tickets",
      total));
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

struct Start {
  std::int64_t ticket = 0;
  std::optional<Snapshot> snapshot;  // empty: fresh parameters
};

int train(const Config& config, const RunFolder& folder, Dataset& dataset, const BatchPlan& plan,
          Model& model, const Start& start, const std::vector<std::string>& argv) {
  at::set_num_threads(1);  // the workers have the cores
  const bool tty = isatty(STDERR_FILENO) != 0;
  Progress progress(STDERR_FILENO, tty, config.quiet);
  MetricsLog metrics(folder.metrics());
  if (start.snapshot) metrics.truncate_after(start.ticket);
  tensorboard::EventFile events(folder.root(),
                                start.snapshot ? std::optional(start.ticket) : std::nullopt);
  Manifest manifest(folder.manifest(), argv, config.seed, TORCH_VERSION);

  shm::Arena arena = shm::Arena::create("passel", TrainingMemory::capacity(config, model));
  TrainingMemory memory = TrainingMemory::create(arena, config, model);
  if (start.snapshot) restore_snapshot(*start.snapshot, memory);
  try {
    Coordinator coordinator({.config = config,
                             .folder = folder,
                             .arena = arena,
                             .memory = memory,
                             .dataset = dataset,
                             .metrics = metrics,
                             .events = events,
                             .progress = progress,
                             .tty = tty},
                            plan, start.ticket, ticket_count(config, plan));
    progress.note(fmt::format("run {}: {} tickets, {} workers, mode {}", folder.root().string(),
                              ticket_count(config, plan), config.workers, config.mode));
    if (start.ticket > 0) {
      progress.note(fmt::format("goes on from the checkpoint of ticket {}", start.ticket));
    }
    const std::string crowded = crowding(config.workers, cores_allowed());
    if (!crowded.empty()) progress.warn(crowded);
    coordinator.spawn_workers();
    dataset.load();
    return conclude(coordinator.run(), progress, manifest, metrics);
  } catch (const Interrupted& interrupted) {
    manifest.finish("stopped by a second signal, not saved", 128 + interrupted.signal);
    throw;
  } catch (const std::exception& error) {
    manifest.finish(error.what(), 1);
    throw;
  }
}

}  // namespace

int run_train(const Command& command, const std::vector<std::string>& argv) {
  const Config& config = command.config;
  if (command.print_config) {
    fmt::print("{}", to_toml(config));
    return 0;
  }
  const auto dataset = open_dataset(dataset_options(config));
  const BatchPlan plan(dataset->train_size(), config.batch_size, config.epochs, config.seed);
  check_against_data(config, *dataset, ticket_count(config, plan));
  Model model(dataset->shape(), config.hidden_size, config.seed);
  Start start;
  if (!config.resume.empty()) {
    const SavedRun saved = open_saved(config.resume);
    check_same_model(saved, config, dataset->shape());
    check_same_rule(saved, config);
    start.snapshot = read_snapshot(saved.file, saved.header, model, true);
    start.ticket = resume_ticket(saved, config, plan);
  }
  check_tickets_left(start.ticket, ticket_count(config, plan));
  const RunFolder folder = RunFolder::create(config);
  const FolderLock lock(folder);
  return train(config, folder, *dataset, plan, model, start, argv);
}

int run_resume(const Command& command, const std::vector<std::string>& argv) {
  const RunFolder folder = RunFolder::open(command.target);
  const FolderLock lock(folder);
  const Config config = with_overrides(folder.read_config(), command.overrides);
  const SavedRun saved = open_saved(command.target);
  const auto dataset = open_dataset(dataset_options(config));
  const BatchPlan plan(dataset->train_size(), config.batch_size, config.epochs, config.seed);
  check_against_data(config, *dataset, ticket_count(config, plan));
  check_same_model(saved, config, dataset->shape());
  Model model(dataset->shape(), config.hidden_size, config.seed);
  const Start start{.ticket = resume_ticket(saved, config, plan),
                    .snapshot = read_snapshot(saved.file, saved.header, model, true)};
  check_tickets_left(start.ticket, ticket_count(config, plan));
  folder.write_config(config);
  return train(config, folder, *dataset, plan, model, start, argv);
}

}  // namespace passel::train
