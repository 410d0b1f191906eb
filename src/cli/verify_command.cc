#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "chaos.h"
#include "commands.h"
#include "passel/train/canary.h"
#include "passel/train/checkpoint_hashes.h"
#include "passel/train/errors.h"
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
        "verify: expected a run whose mode promises the same bits (--mode ordered or sync), got "
        "one of mode hogwild: {}",
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

}  // namespace

int run_verify(const Command& command, const std::vector<std::string>& argv) {
  const RunFolder original = RunFolder::open(command.target);
  const FolderLock lock(original);
  const Config config = repetition(original, command);
  const HashHistory expected = read_expected(original);

  Training training(config, config.resume);
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

  const auto difference = first_difference(expected, read_hashes(folder.metrics()));
  if (difference) {
    fmt::print("{}: NOT the same bits. {}. The repetition is in {}{}\n", original.root().string(),
               *difference, folder.root().string(), other_arithmetic(original));
    return 1;
  }
  fs::remove_all(folder.root());
  fmt::print("{}: bit-identical at {} checkpoints up to ticket {}, with {} workers{}\n",
             original.root().string(), expected.size(), expected.rbegin()->first, workers,
             command.chaos ? fmt::format(", killed and replaced {} times", outcome.summary.respawns)
                           : std::string());
  return 0;
}

}  // namespace passel::train
