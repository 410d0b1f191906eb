#include "passel/train/update_log.h"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "passel/train/errors.h"
#include "resource_limit.h"
#include "temp_dir.h"

namespace passel::train {
namespace {

class UpdateLogTest : public ::testing::Test {
 protected:
  static UpdateRecord record(std::uint32_t version) {
    return {.ticket = version + 10, .base = version / 2, .version = version, .loss = 0.5F};
  }

  test::TempDir dir_;
  std::filesystem::path file_ = dir_.path() / "updates.log";
};

TEST_F(UpdateLogTest, GivesTheUpdatesByVersionWhateverTheirOrder) {
  {
    UpdateLog log(file_, 0);
    for (const std::uint32_t version : {1U, 0U, 3U, 2U}) log.add(record(version));
    EXPECT_EQ(log.take_error(), std::nullopt);
  }
  const auto records = read_updates(file_);
  ASSERT_EQ(records.size(), 4U);
  for (std::uint32_t v = 0; v < 4; ++v) EXPECT_EQ(records[v], record(v));
}

TEST_F(UpdateLogTest, DropsWhatAResumedRunWillDoAgainAndATornRecord) {
  {
    UpdateLog log(file_, 0);
    for (std::uint32_t v = 0; v < 6; ++v) log.add(record(v));
  }
  std::ofstream(file_, std::ios::app) << "torn";
  {
    UpdateLog log(file_, 3);
    log.add(record(3));
  }
  EXPECT_EQ(read_updates(file_).size(), 4U);
}

TEST_F(UpdateLogTest, MissesUpdatesBeforeAResume) {
  EXPECT_TRUE(missing_updates(file_, 1, true)) << "there is no record";
  { UpdateLog log(file_, 0); }
  EXPECT_TRUE(missing_updates(file_, 1, true));
  EXPECT_FALSE(missing_updates(file_, 1, false)) << "the run may begin there";
  {
    UpdateLog log(file_, 0);
    for (const std::uint32_t version : {2U, 4U, 3U, 6U}) log.add(record(version));
  }
  EXPECT_FALSE(missing_updates(file_, 5, false));
  EXPECT_TRUE(missing_updates(file_, 5, true)) << "0 and 1";
  const auto warning = missing_updates(file_, 7, false);
  ASSERT_TRUE(warning);
  EXPECT_NE(warning->find("up to 6"), std::string::npos) << *warning;
  EXPECT_NE(warning->find("from 5 on"), std::string::npos) << *warning;
}

TEST_F(UpdateLogTest, RefusesAGapAndAnUpdateFromTheFuture) {
  {
    UpdateLog log(file_, 0);
    log.add(record(0));
    log.add(record(2));
  }
  EXPECT_THROW(read_updates(file_), DataError);
  {
    UpdateLog log(file_, 0);
    log.add({.ticket = 0, .base = 1, .version = 0, .loss = 0});
  }
  EXPECT_THROW(read_updates(file_), DataError);
}

TEST_F(UpdateLogTest, RefusesAnotherFile) {
  std::ofstream(file_) << "something else that is long enough";
  EXPECT_THROW(read_updates(file_), DataError);
  EXPECT_THROW(UpdateLog(file_, 0), DataError);
  EXPECT_THROW(read_updates(dir_.path() / "none"), DataError);
}

TEST_F(UpdateLogTest, TellsOnceThatUpdatesAreMissingFromHereOn) {
  std::signal(SIGXFSZ, SIG_IGN);
  UpdateLog log(file_, 0);
  {
    const test::ResourceLimit limit(RLIMIT_FSIZE, 16 * 3);
    for (std::uint32_t v = 0; v < 5; ++v) log.add(record(v));
  }
  log.add(record(5));
  const auto error = log.take_error();
  ASSERT_TRUE(error);
  EXPECT_NE(error->find("cannot be replayed"), std::string::npos) << *error;
  EXPECT_EQ(log.take_error(), std::nullopt);
  EXPECT_EQ(read_updates(file_).size(), 2U) << "what is there has no gap";
}

}  // namespace
}  // namespace passel::train
