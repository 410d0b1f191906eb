// Each call of the file layer fails in turn while lines are added to metrics.jsonl, and while it is
// cut for a resume.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>

#include "checkpoint/faulty_calls.h"
#include "checkpoint/file_bytes.h"
#include "data/temporary_folder.h"
#include "passel/train/errors.h"
#include "passel/train/metrics_log.h"

namespace passel::train {
namespace {

using nlohmann::json;
using passel::testing::FaultyCalls;
using passel::testing::read_text;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FaultyMetrics : public ::testing::Test {
 protected:
  /// The tickets of the lines that are JSON; all but one must be.
  std::vector<std::int64_t> tickets() const {
    std::vector<std::int64_t> found;
    int torn = 0;
    std::istringstream text(read_text(file_));
    for (std::string line; std::getline(text, line);) {
      const json event = json::parse(line, nullptr, false);
      if (event.is_discarded()) {
        ++torn;
      } else {
        found.push_back(event.at("ticket"));
      }
    }
    EXPECT_LE(torn, 1);
    return found;
  }

  void begin() {
    std::filesystem::remove(file_);
    MetricsLog log(file_);
    log.eval({.ticket = 1});
    log.eval({.ticket = 2});
  }

  passel::testing::TemporaryFolder folder_;
  std::filesystem::path file_ = folder_ / "metrics.jsonl";
};

TEST_F(FaultyMetrics, LoseAtMostTheLineWhoseWriteFailsAndSaySo) {
  for (const bool lasting : {false, true}) {
    for (int at = 0, calls = 1; at <= calls; ++at) {
      SCOPED_TRACE(at);
      begin();
      MetricsLog log(file_);
      {
        FaultyCalls faults({.at = at, .error_number = ENOSPC, .lasting = lasting});
        log.eval({.ticket = 3});
        calls = static_cast<int>(faults.calls().size());
      }
      log.eval({.ticket = 4});
      const auto error = log.take_error();
      if (error) {
        EXPECT_THAT(*error, HasSubstr(file_.string()));
        EXPECT_THAT(*error, HasSubstr(std::strerror(ENOSPC)));
        EXPECT_THAT(tickets(), ElementsAre(1, 2, 4));
      } else {
        EXPECT_THAT(tickets(), ElementsAre(1, 2, 3, 4));
      }
    }
  }
}

TEST_F(FaultyMetrics, AreWholeWhereAWriteIsShortOrInterrupted) {
  begin();
  MetricsLog log(file_);
  for (int at = 0; at < 3; ++at) {
    {
      FaultyCalls faults({.short_write_at = at});
      log.eval({.ticket = 3});
    }
    FaultyCalls faults({.at = at, .error_number = EINTR});
    log.eval({.ticket = 4});
  }
  EXPECT_FALSE(log.take_error());
  EXPECT_THAT(tickets(), ElementsAre(1, 2, 3, 4, 3, 4, 3, 4));
}

// The part of a line that got onto the disk cannot be cut off either.
TEST_F(FaultyMetrics, KeepTheNextLineApartFromATornOne) {
  begin();
  MetricsLog log(file_);
  {
    FaultyCalls faults({.at = 2, .error_number = EIO, .lasting = true, .short_write_at = 1});
    log.eval({.ticket = 3});
    ASSERT_THAT(faults.calls(), ElementsAre("fstat", "write", "write", "ftruncate"));
  }
  EXPECT_TRUE(log.take_error());
  log.eval({.ticket = 4});
  log.eval({.ticket = 5});
  EXPECT_THAT(tickets(), ElementsAre(1, 2, 4, 5));
}

TEST_F(FaultyMetrics, AreAsTheyWereOrCutWhicheverCallOfACutFails) {
  for (const int error_number : {EIO, ENOSPC, EACCES}) {
    SCOPED_TRACE(std::strerror(error_number));
    for (int at = 0, calls = 1; at <= calls; ++at) {
      SCOPED_TRACE(at);
      begin();
      MetricsLog log(file_);
      bool cut = true;
      {
        FaultyCalls faults({.at = at, .error_number = error_number});
        try {
          log.truncate_after(1);
        } catch (const std::runtime_error& error) {
          cut = false;
          EXPECT_THAT(error.what(), HasSubstr(file_.string()));
        }
        calls = static_cast<int>(faults.calls().size());
      }
      if (cut) {
        EXPECT_THAT(tickets(), ElementsAre(1));
      } else {
        EXPECT_THAT(tickets(), AnyOf(ElementsAre(1, 2), ElementsAre(1)));
      }
    }
  }
}

TEST_F(FaultyMetrics, GoOnInANewFileWhenTheirFolderWasRemovedAndMadeAgain) {
  const std::filesystem::path run = folder_ / "run";
  std::filesystem::create_directory(run);
  file_ = run / "metrics.jsonl";
  MetricsLog log(file_);
  log.eval({.ticket = 1});
  std::filesystem::remove_all(run);
  log.eval({.ticket = 2});
  EXPECT_THAT(log.take_error().value_or(""), HasSubstr("removed"));
  std::filesystem::create_directory(run);
  log.eval({.ticket = 3});
  log.eval({.ticket = 4});
  EXPECT_THAT(tickets(), ElementsAre(3, 4));
}

}  // namespace
}  // namespace passel::train
