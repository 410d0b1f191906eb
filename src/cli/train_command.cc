#include <fmt/format.h>

#include "commands.h"
#include "training.h"

namespace passel::train {

int run_train(const Command& command, const std::vector<std::string>& argv) {
  if (command.print_config) {
    fmt::print("{}", to_toml(command.config));
    return 0;
  }
  Training training(command.config, command.config.resume);
  const RunFolder folder = RunFolder::create(command.config);
  const FolderLock lock(folder);
  return run_training(training, folder, argv).exit_code();
}

int run_resume(const Command& command, const std::vector<std::string>& argv) {
  const RunFolder folder = RunFolder::open(command.target);
  const FolderLock lock(folder);
  Training training(with_overrides(folder.read_config(), command.overrides), command.target);
  folder.write_config(training.config);
  return run_training(training, folder, argv).exit_code();
}

}  // namespace passel::train
