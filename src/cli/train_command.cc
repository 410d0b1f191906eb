#include <fmt/format.h>

#include "commands.h"
#include "training.h"

namespace passel::train {

int run_train(const Command& command, const std::vector<std::string>& argv) {
  if (command.print_config) {
    fmt::print("{}", to_toml(command.config));
    return 0;
  }
  if (command.simulate) check_simulation(command.config);
  Training training(command.config, command.config.resume);
  training.simulated = command.simulate;
  const RunFolder folder = RunFolder::create(command.config);
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
  folder.write_config(training.config);
  return run_training(training, folder, argv).exit_code();
}

}  // namespace passel::train
