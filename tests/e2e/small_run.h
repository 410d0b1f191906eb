#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "data/idx_files.h"
#include "data/temporary_folder.h"
#include "passel_program.h"

namespace passel::testing {

/// A fixture with a data set of 200 + 50 images of 8 x 8 and a place for runs.
class SmallRun : public ::testing::Test {
 protected:
  void SetUp() override { ImageSet{}.write(data_.path()); }

  /// `train` on the small data set: 16 hidden units, batches of 20, 10 tickets
  /// an epoch, into run(name).
  std::vector<std::string> train(const std::vector<std::string>& more = {},
                                 const std::string& name = "run") const {
    std::vector<std::string> arguments{"train", "--data",       data_.path(),
                                       "--out", run(name),      "--hidden-size",
                                       "16",    "--batch-size", "20"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  /// A run that goes on until a test has done what it wants with it.
  std::vector<std::string> long_train(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = train({"--epochs", "20000", "--log-interval", "5"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  std::filesystem::path run(const std::string& name = "run") const { return folder_ / name; }
  std::filesystem::path text_file() const { return folder_ / "text"; }

  nlohmann::json summary(const std::string& name = "run") const {
    const auto all = events(run(name));
    if (all.empty() || all.back().at("event") != "summary") {
      ADD_FAILURE() << "the last event is no summary";
      return nlohmann::json::object();
    }
    return all.back();
  }

  /// Waits until `count` tickets were reported as done.
  bool trained(std::int64_t count) const {
    return eventually_in(run(), [&](const auto& all) {
      for (const auto& event : all) {
        if (event.at("event") == "train" && event.at("ticket") >= count) return true;
      }
      return false;
    });
  }

  TemporaryFolder data_;
  TemporaryFolder folder_;
};

}  // namespace passel::testing
