// Each call of the file layer fails in turn while a run folder is made, and while its configuration
// is replaced for a resume.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

#include "checkpoint/faulty_calls.h"
#include "data/temporary_folder.h"
#include "passel/train/errors.h"
#include "passel/train/run_folder.h"

namespace passel::train {
namespace {

using passel::testing::FaultyCalls;
using ::testing::AnyOf;
using ::testing::HasSubstr;

class FaultyRunFolder : public ::testing::Test {
 protected:
  Config config(std::int64_t workers) const {
    Config config;
    config.out = folder_ / "run";
    config.workers = workers;
    return config;
  }

  passel::testing::TemporaryFolder folder_;
};

TEST_F(FaultyRunFolder, CanBeMadeInTheSamePlaceOnceTheFaultIsGone) {
  for (const int error_number : {EIO, ENOSPC, EROFS}) {
    SCOPED_TRACE(std::strerror(error_number));
    int refused = 0;
    for (int at = 0, calls = 1; at <= calls; ++at) {
      SCOPED_TRACE(at);
      std::filesystem::remove_all(folder_ / "run");
      bool made = true;
      {
        FaultyCalls faults({.at = at, .error_number = error_number});
        try {
          RunFolder::create(config(3));
        } catch (const UsageError& error) {
          made = false;
          EXPECT_THAT(error.what(), HasSubstr((folder_ / "run").string()));
          EXPECT_THAT(error.what(), HasSubstr(std::strerror(error_number)));
        }
        calls = static_cast<int>(faults.calls().size());
      }
      refused += made ? 0 : 1;
      if (!made) RunFolder::create(config(3));
      EXPECT_EQ(RunFolder::open(folder_ / "run").read_config().workers, 3);
    }
    EXPECT_GT(refused, 5);
  }
}

TEST_F(FaultyRunFolder, KeepsItsConfigurationOrTakesTheNewOne) {
  for (const bool lasting : {false, true}) {
    int refused = 0;
    for (int at = 0, calls = 1; at <= calls; ++at) {
      SCOPED_TRACE(at);
      std::filesystem::remove_all(folder_ / "run");
      const RunFolder run = RunFolder::create(config(3));
      bool written = true;
      {
        FaultyCalls faults({.at = at, .error_number = EROFS, .lasting = lasting});
        try {
          run.write_config(config(4));
        } catch (const UsageError& error) {
          written = false;
          EXPECT_THAT(error.what(), HasSubstr(run.config().string()));
          EXPECT_THAT(error.what(), HasSubstr("Read-only file system"));
        }
        calls = static_cast<int>(faults.calls().size());
      }
      refused += written ? 0 : 1;
      if (written) {
        EXPECT_EQ(run.read_config().workers, 4);
      } else {
        EXPECT_THAT(run.read_config().workers, AnyOf(3, 4));
      }
    }
    EXPECT_GT(refused, 4);
  }
}

}  // namespace
}  // namespace passel::train
