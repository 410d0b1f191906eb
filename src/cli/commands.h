#pragma once

#include <string>
#include <vector>

#include "options.h"

namespace passel::train {

/// Each runs one subcommand and returns the program's exit code. They throw
/// UsageError, DataError and TrainingError (exit codes 2, 3, 1).
int run_train(const Command& command, const std::vector<std::string>& argv);
int run_resume(const Command& command, const std::vector<std::string>& argv);
int run_verify(const Command& command, const std::vector<std::string>& argv);
int run_replay(const Command& command, const std::vector<std::string>& argv);
int run_eval(const Command& command);
int run_inspect(const Command& command);
int run_export(const Command& command);

}  // namespace passel::train
