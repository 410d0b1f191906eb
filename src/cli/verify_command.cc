#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "chaos.h"
#include "commands.h"
#include "passel/train/canary.h"
#include "passel/train/checkpoint_hashes.h"
#include "passel/train/errors.h"
#include "passel/train/update_log.h"
#include "training.h"

namespace passel::train {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kNoLimit = 1'000'000;

// What is repeated: the run as it was configured, up to its last checkpoint, by other workers and
// in a folder of its own.
Config repetition(const RunFolder& folder, const Command& command) {
  Config config = folder.read_config();
  if (config.mode == "hogwild") {
    throw UsageError(fmt::format(
        "{}: expected a run whose mode promises the same bits (--mode ordered, sync or recorded), "
        "got one of mode hogwild",
        folder.root().string()));
  }
  config.workers = command.overrides.workers.value_or(config.workers + 1);
  if (command.overrides.data) config.data = *command.overrides.data;
  config.out = folder.root() / "verify";
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
std::string other_arithmetic(const RunFolder& original) {
  std::ifstream in(original.manifest());
  const auto manifest = nlohmann::json::parse(in, nullptr, false);
  const auto canary = manifest.is_object() ? manifest.value("canary", nlohmann::json()) : nullptr;
  if (!canary.is_string() || canary == canary_hash()) return {};
  return fmt::format(
      ". This machine or build computes other bits than that of the run: canary {} instead of {}",
      canary_hash(), canary.get<std::string>());
}

// A run whose updates are those that were recorded, in their order, each from the version it was
// computed from then; and what becomes of the comparison.
class Recording {
 public:
  explicit Recording(const RunFolder& folder) : records_(read_updates(folder.updates())) {
    if (!records_.empty()) return;
    throw DataError(
        fmt::format("{}: expected updates, and there is none yet", folder.updates().string()));
  }

  /// Turns the training into a repetition of the recorded one.
  void prepare(Training& training) {
    Replay& replay = training.replay;
    replay.first = records_[0].version;
    std::int64_t staleness = 0;
    for (const UpdateRecord& record : records_) {
      replay.bases.push_back(record.base);
      replay.batches.push_back(record.ticket);
      staleness = std::max<std::int64_t>(staleness, record.version - record.base);
    }
    training.config.mode = "ordered";
    training.config.staleness = staleness;
    training.start.ticket = replay.first;
    if (training.start.snapshot) training.start.snapshot->ticket = replay.first;
    training.total = replay.first + std::ssize(records_);
    training.observer = [this](const Done& done) { compare(done); };
  }

  /// The history by updates instead of tickets: all tickets before a checkpoint's were done then.
  HashHistory by_updates(const HashHistory& history) const {
    HashHistory result;
    for (const auto& [ticket, hashes] : history) {
      const auto before = std::ranges::count_if(
          records_, [&](const UpdateRecord& record) { return record.ticket < ticket; });
      result[records_[0].version + before] = hashes;
    }
    return result;
  }

  /// Where a loss first differed from the recorded one.
  std::optional<std::string> difference() const {
    if (!differs_) return std::nullopt;
    const UpdateRecord& record =
        records_[static_cast<std::size_t>(*differs_ - records_[0].version)];
    return fmt::format("update {} (ticket {}): its loss is {} instead of {}", *differs_,
                       record.ticket, loss_, record.loss);
  }

 private:
  void compare(const Done& done) {
    const float expected =
        records_[static_cast<std::size_t>(done.ticket - records_[0].version)].loss;
    if (std::bit_cast<std::uint32_t>(expected) == std::bit_cast<std::uint32_t>(done.loss)) return;
    if (differs_ && *differs_ <= done.ticket) return;
    differs_ = done.ticket;
    loss_ = done.loss;
  }

  std::vector<UpdateRecord> records_;  // by version
  std::optional<std::int64_t> differs_;
  float loss_ = 0;
};

}  // namespace

int run_verify(const Command& command, const std::vector<std::string>& argv) {
  const RunFolder original = RunFolder::open(command.target);
  const FolderLock lock(original);
  const Config config = repetition(original, command);
  HashHistory expected = read_expected(original);
  Training training(config, config.resume);
  std::optional<Recording> recording;
  if (config.mode == "recorded") {
    recording.emplace(original);
    recording->prepare(training);
    expected = recording->by_updates(expected);
  }
  training.total = std::min(training.total, expected.rbegin()->first);
  for (const auto& [ticket, hashes] : expected) training.borders.insert(ticket);
  fs::remove_all(config.out);
  const RunFolder folder = RunFolder::create(config);
  const auto workers = static_cast<std::uint32_t>(config.workers);
  const Outcome outcome =
      run_training(training, folder, argv, [&](Coordinator& coordinator) -> std::shared_ptr<void> {
        if (!command.chaos) return nullptr;
        return std::make_shared<Chaos>(coordinator, workers);
      });
  if (outcome.exit_code() != 0) return outcome.exit_code();

  const char* const unit = recording ? "update" : "ticket";
  auto difference = recording ? recording->difference() : std::nullopt;
  if (!difference) difference = first_difference(expected, read_hashes(folder.metrics()), unit);
  if (difference) {
    fmt::print("{}: NOT the same bits. {}. The repetition is in {}{}\n", original.root().string(),
               *difference, folder.root().string(), other_arithmetic(original));
    return 1;
  }
  fs::remove_all(folder.root());
  fmt::print("{}: bit-identical at {} checkpoints up to {} {}, with {} workers{}\n",
             original.root().string(), expected.size(), unit, expected.rbegin()->first, workers,
             command.chaos ? fmt::format(", killed and replaced {} times", outcome.summary.respawns)
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
