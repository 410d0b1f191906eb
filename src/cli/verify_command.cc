#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>

#include "chaos.h"
#include "commands.h"
#include "complain.h"
#include "passel/train/canary.h"
#include "passel/train/checkpoint_hashes.h"
#include "passel/train/checkpoint_store.h"
#include "passel/train/errors.h"
#include "passel/train/manifest.h"
#include "passel/train/wording.h"
#include "recording.h"
#include "saved_run.h"
#include "training.h"
#include "workplace.h"

namespace passel::train {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kNoLimit = 1'000'000;

// What is repeated: the run as it was configured, up to its last checkpoint, by other workers.
Config repetition(const RunFolder& folder, const Command& command, std::int64_t last_ticket) {
  Config config = folder.read_config();
  if (config.mode == "hogwild") {
    throw UsageError(fmt::format(
        "{}: expected a run whose mode promises the same bits (--mode ordered, sync or recorded), "
        "got one of mode hogwild",
        folder.root().string()));
  }
  const std::int64_t others = std::clamp<std::int64_t>(config.workers + 1, 1, last_ticket);
  config.workers = command.overrides.workers.value_or(others);
  config.workers_per_device = 0;
  if (command.overrides.data) config.data = *command.overrides.data;
  config.quiet = true;
  if (command.chaos) config.max_respawns = kNoLimit;
  validate(config);
  return config;
}

HashHistory read_expected(const RunFolder& folder) {
  HashHistory history = read_hashes(folder.metrics());
  if (!history.empty()) return history;
  throw DataError(fmt::format("{}: expected checkpoints to compare with, and there is none yet",
                              folder.metrics().string()));
}

// Why the bits can hardly be the same, if that is known.
std::string other_data(const RunFolder& original, const Training& training) {
  try {
    const std::string data = open_saved(original.root()).header.data;
    if (data.empty() || data == training.dataset->fingerprint()) return {};
  } catch (const DataError&) {
    return {};
  }
  return fmt::format(". The data in {} are not those of the run", training.config.data.string());
}

std::string other_arithmetic(const RunFolder& original) {
  std::set<std::string> others = canaries_in(original.manifest());
  others.erase(canary_hash());
  if (others.empty()) return {};
  return fmt::format(
      ". This machine or build computes other bits than that of the run: canary {} instead of {}",
      canary_hash(), fmt::join(others, " and "));
}

// Checkpoints that hold other parameters than the run noted: those of another run or another
// ticket, or changed ones.
std::optional<std::string> other_files(const RunFolder& folder, const HashHistory& noted,
                                       const Model& model) {
  for (const auto& [ticket, path] : CheckpointStore(folder.checkpoints(), 1).files()) {
    try {
      const SafetensorsFile file = open_checkpoint(path);
      const CheckpointHeader header = read_header(file);
      if (header.ticket != ticket) {
        return fmt::format("ticket {}: {} holds the checkpoint of ticket {}", ticket, path.string(),
                           header.ticket);
      }
      const auto found = noted.find(ticket);
      if (found == noted.end()) continue;
      const std::string hash = param_hash(read_snapshot(file, header, model, false));
      if (hash == found->second.parameters) continue;
      return fmt::format("ticket {}: {} holds the parameters {} instead of {}, which the run noted",
                         ticket, path.string(), hash, found->second.parameters);
    } catch (const DataError& error) {
      complain(fmt::format("{}; it is left out of the comparison", error.what()));
    }
  }
  return std::nullopt;
}

}  // namespace

int run_verify(const Command& command, const std::vector<std::string>& argv) {
  const RunFolder original = RunFolder::open(command.target);
  const FolderLock lock(original);
  HashHistory expected = read_expected(original);
  const Config config = repetition(original, command, expected.rbegin()->first);
  if (command.simulate) check_simulated_device(config);
  Training training(config, config.resume);
  training.simulated = command.simulate;
  // Those are where the run began, not what it came to.
  expected.erase(expected.begin(), expected.upper_bound(training.start.ticket));
  if (expected.empty()) {
    throw DataError(
        fmt::format("{}: expected checkpoints after the start of the run at ticket {}, "
                    "got none",
                    original.metrics().string(), training.start.ticket));
  }
  if (const auto other = other_files(original, expected, training.model)) {
    fmt::print("{}: NOT the same bits. {}\n", original.root().string(), *other);
    return 1;
  }
  std::optional<Recording> recording;
  const char* const unit = config.mode == "recorded" ? "update" : "ticket";
  if (config.mode == "recorded") {
    recording.emplace(original);
    recording->prepare(training);
    expected = recording->by_updates(expected);
  }
  if (training.total < expected.rbegin()->first) {
    throw DataError(
        fmt::format("{}: expected a configuration of {} {}s, of which there are checkpoints, got "
                    "one of {}: it was "
                    "changed since",
                    original.root().string(), expected.rbegin()->first, unit, training.total));
  }
  training.total = expected.rbegin()->first;
  for (const auto& [ticket, hashes] : expected) training.borders.insert(ticket);
  Workplace workplace(original);
  training.config.out.clear();
  const RunFolder folder = RunFolder::create(training.config, workplace.path());
  const auto workers = static_cast<std::uint32_t>(config.workers);
  std::atomic<std::int64_t> done = 0;
  training.observer = [&, compare = training.observer](const Done& ticket) {
    ++done;
    if (compare) compare(ticket);
  };
  const Outcome outcome =
      run_training(training, folder, argv, [&](Coordinator& coordinator) -> std::shared_ptr<void> {
        if (!command.chaos) return nullptr;
        return std::make_shared<Chaos>(coordinator, workers, done);
      });
  if (outcome.exit_code() != 0) return outcome.exit_code();

  auto difference = recording ? recording->difference() : std::nullopt;
  if (!difference) difference = first_difference(expected, read_hashes(folder.metrics()), unit);
  if (difference) {
    workplace.keep();
    fmt::print("{}: NOT the same bits. {}. The repetition is in {}{}\n", original.root().string(),
               *difference, workplace.path().string(),
               other_data(original, training) + other_arithmetic(original));
    return 1;
  }
  fmt::print("{}: bit-identical at {} up to {} {}, with {}{}\n", original.root().string(),
             counted(static_cast<std::int64_t>(expected.size()), "checkpoint"), unit,
             expected.rbegin()->first,
             counted(workers, command.simulate ? "simulated worker" : "worker"),
             command.chaos ? ", killed and replaced " + counted(outcome.summary.respawns, "time")
                           : std::string());
  return 0;
}

int run_replay(const Command& command, const std::vector<std::string>& argv) {
  const RunFolder folder = RunFolder::open(command.target);
  if (const std::string mode = folder.read_config().mode; mode != "recorded") {
    throw UsageError(fmt::format("{}: expected a run of --mode recorded, got one of mode {}",
                                 folder.root().string(), mode));
  }
  return run_verify(command, argv);
}

}  // namespace passel::train
