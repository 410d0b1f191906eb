#include <fmt/format.h>

#include "commands.h"
#include "passel/train/update_log.h"
#include "training.h"

namespace passel::train {

namespace {

// The run folder may be used from other folders than that of the command line.
Config from_anywhere(Config config) {
  for (auto* const path : {&config.data, &config.resume}) {
    if (!path->empty()) *path = std::filesystem::absolute(*path).lexically_normal();
  }
  return config;
}

}  // namespace

int run_train(const Command& command, const std::vector<std::string>& argv) {
  if (command.print_config) {
    fmt::print("{}", to_toml(command.config));
    return 0;
  }
  if (command.simulate) check_simulation(command.config);
  const Config config = from_anywhere(command.config);
  Training training(config, config.resume);
  training.simulated = command.simulate;
  const RunFolder folder = RunFolder::create(config);
  const FolderLock lock(folder);
  return run_training(training, folder, argv).exit_code();
}

int run_resume(const Command& command, const std::vector<std::string>& argv) {
  const RunFolder folder = RunFolder::open(command.target);
  const FolderLock lock(folder);
  const Config config = with_overrides(folder.read_config(), command.overrides);
  if (command.simulate) check_simulation(config);
  Training training(config, command.target);
  training.simulated = command.simulate;
  if (config.mode == "recorded" && training.start.snapshot) {
    const auto gap =
        missing_updates(folder.updates(), training.start.snapshot->version, config.resume.empty());
    if (gap) training.start.warnings.push_back(*gap);
  }
  folder.write_config(training.config);
  return run_training(training, folder, argv).exit_code();
}

}  // namespace passel::train
