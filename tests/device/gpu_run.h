#pragma once

#include <cstdlib>
#include <string>
#include <vector>

#include "e2e/small_run.h"

namespace passel::testing {

using Options = std::vector<std::string>;

inline Options join(Options first, const Options& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

/// Sets a variable for the programs that are started meanwhile.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

/// Runs of the trainer on GPUs, over a CUDA runtime without one (fake_program.cc). What GPUs
/// compute is computed by the CPU there, so a run comes to the CPU's bits, if everything else is
/// right.
class GpuRun : public SmallRun {
 protected:
  Finished run_it(const Options& more, const std::string& name) {
    return run_passel(train(more, name), std::chrono::seconds(100));
  }

  /// The parameters' hash after a run that is to go well.
  std::string hash_of(const Options& more, const std::string& name) {
    const Finished finished = run_it(more, name);
    EXPECT_EQ(finished.code, 0) << finished.text;
    EXPECT_EQ(finished.text.find("fake CUDA"), std::string::npos) << finished.text;
    return finished.code == 0 ? summary(name).at("param_hash").get<std::string>() : "";
  }

  /// A run of 3000 tickets in mode hogwild, three of whose workers are killed.
  void expect_no_ticket_lost(const Options& more);
};

}  // namespace passel::testing
