#include <fmt/format.h>
#include <fmt/ranges.h>
#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "chaos.h"
#include "commands.h"
#include "complain.h"
#include "passel/train/canary.h"
#include "passel/train/checkpoint_hashes.h"
#include "passel/train/checkpoint_store.h"
#include "passel/train/config_fields.h"
#include "passel/train/errors.h"
#include "passel/train/manifest.h"
#include "passel/train/update_log.h"
#include "passel/train/wording.h"
#include "saved_run.h"
#include "training.h"

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

// A new folder in the run's for its repetition, removed at the end unless it is kept. Only one
// process at a time, which has the lock of the run's folder, has one there: others of that name
// were left by a kill.
class Workplace {
 public:
  explicit Workplace(const RunFolder& folder) {
    sweep(folder.root());
    std::string name = folder.root() / (std::string(kPrefix) + "XXXXXX");
    if (mkdtemp(name.data()) == nullptr) {
      throw UsageError(
          fmt::format("{}: expected room for a repetition of the run, got: {}. Make room there, or "
                      "copy the run to where it can be written",
                      folder.root().string(), std::strerror(errno)));
    }
    path_ = name;
  }
  ~Workplace() {
    std::error_code ignored;
    if (!kept_) fs::remove_all(path_, ignored);
  }
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;

  const fs::path& path() const { return path_; }
  /// Under another name, without the dot.
  void keep() {
    kept_ = true;
    const fs::path name = path_.parent_path() / path_.filename().string().substr(1);
    std::error_code error;
    fs::rename(path_, name, error);
    if (!error) path_ = name;
  }

 private:
  static constexpr std::string_view kPrefix = ".verify-";

  static void sweep(const fs::path& root) {
    std::error_code error;
    for (fs::directory_iterator entry(root, error), end; !error && entry != end;
         entry.increment(error)) {
      std::error_code ignored;
      if (entry->path().filename().string().starts_with(kPrefix)) {
        fs::remove_all(entry->path(), ignored);
      }
    }
  }

  fs::path path_;
  bool kept_ = false;
};

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

// A run whose updates are those that were recorded, in their order, each from the version it was
// computed from then; and what becomes of the comparison.
class Recording {
 public:
  explicit Recording(const RunFolder& folder)
      : file_(folder.updates()), records_(read_updates(file_)) {
    if (!records_.empty()) return;
    throw DataError(
        fmt::format("{}: expected updates, and there is none yet", folder.updates().string()));
  }

  /// Turns the training into a repetition of the recorded one.
  void prepare(Training& training) {
    const std::int64_t begin = training.start.snapshot ? training.start.snapshot->version : 0;
    if (records_[0].version != begin) {
      throw DataError(fmt::format(
          "{}: expected updates from {} on, where the run began, got the first one at {}: what is "
          "before cannot be repeated",
          file_.string(), begin, records_[0].version));
    }
    Replay& replay = training.replay;
    replay.first = records_[0].version;
    replay.first_batch = training.start.ticket;
    std::int64_t staleness = 0;
    for (const UpdateRecord& record : records_) {
      check(record, begin, training.plan);
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

  /// The history by updates instead of tickets.
  HashHistory by_updates(const HashHistory& history) const {
    const std::int64_t end = records_[0].version + std::ssize(records_);
    HashHistory result;
    for (const auto& [ticket, hashes] : history) {
      if (hashes.version > end) {
        throw DataError(
            fmt::format("{}: expected {} updates before the checkpoint of ticket {}, got only {}: "
                        "the last ones "
                        "are missing",
                        file_.string(), hashes.version, ticket, end));
      }
      result[hashes.version] = hashes;
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
  void check(const UpdateRecord& record, std::int64_t begin, const BatchPlan& plan) const {
    // As many versions as are kept, which no run exceeds.
    static const auto most = static_cast<std::int64_t>(find_field("staleness")->range.high);
    const std::int64_t oldest = std::max(begin, record.version - most);
    if (record.base < oldest) {
      throw DataError(
          fmt::format("{}: expected update {} computed from version {} or a later one, got {}",
                      file_.string(), record.version, oldest, record.base));
    }
    if (record.ticket >= plan.tickets()) {
      throw DataError(fmt::format("{}: expected tickets below {}, got {} in update {}",
                                  file_.string(), plan.tickets(), record.ticket, record.version));
    }
  }

  void compare(const Done& done) {
    const float expected =
        records_[static_cast<std::size_t>(done.ticket - records_[0].version)].loss;
    if (std::bit_cast<std::uint32_t>(expected) == std::bit_cast<std::uint32_t>(done.loss)) return;
    if (differs_ && *differs_ <= done.ticket) return;
    differs_ = done.ticket;
    loss_ = done.loss;
  }

  fs::path file_;
  std::vector<UpdateRecord> records_;  // by version
  std::optional<std::int64_t> differs_;
  float loss_ = 0;
};

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
