#include "passel/tensorboard/event_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <system_error>

#include "event_reader.h"

namespace passel::tensorboard {
namespace {

using passel::testing::read_events;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Pair;
using train::test::write_file;

class EventFileTest : public ::testing::Test {
 protected:
  std::string name_of(const EventFile& file) const { return file.path().filename().string(); }
  std::vector<std::int64_t> steps_of(const EventFile& file) const {
    std::vector<std::int64_t> steps;
    for (const auto& event : read_events(file.path())) steps.push_back(event.step);
    return steps;
  }

  train::test::TempDir dir_;
};

TEST_F(EventFileTest, BeginsWithTheVersionOfTheFormat) {
  const double before = static_cast<double>(std::time(nullptr));
  const EventFile sut(dir_.path());
  const auto events = read_events(sut.path());
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].file_version, "brain.Event:2");
  EXPECT_FALSE(events[0].session_start);
  EXPECT_GE(events[0].wall_time, before);
  EXPECT_LT(events[0].wall_time, before + 60);
}

TEST_F(EventFileTest, HoldsEachPointUnderItsTagAndStep) {
  EventFile sut(dir_.path());
  sut.scalars(50, {{"train/loss", 0.5}, {"lr", 0.001}});
  sut.scalars(std::int64_t{1} << 40, {{"eval/accuracy", 0}});
  const auto events = read_events(sut.path());
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[1].step, 50);
  EXPECT_THAT(events[1].points, ElementsAre(Pair("lr", 0.001F), Pair("train/loss", 0.5F)));
  EXPECT_EQ(events[2].step, std::int64_t{1} << 40);
  EXPECT_THAT(events[2].points, ElementsAre(Pair("eval/accuracy", 0.0F)));
}

TEST_F(EventFileTest, KeepsValuesThatAreNotFinite) {
  EventFile sut(dir_.path());
  sut.scalars(1, {{"nan", std::nan("")}, {"inf", INFINITY}});
  const auto points = read_events(sut.path()).at(1).points;
  EXPECT_TRUE(std::isnan(points.at("nan")));
  EXPECT_EQ(points.at("inf"), INFINITY);
}

TEST_F(EventFileTest, CanBeReadAfterEveryPoint) {
  EventFile sut(dir_.path());
  for (std::size_t i = 1; i < 100; ++i) {
    sut.scalars(static_cast<std::int64_t>(i), {{"loss", 1}});
    EXPECT_EQ(read_events(sut.path()).size(), i + 1);
  }
}

TEST_F(EventFileTest, VoidsTheStepsAfterTheOneItResumesAt) {
  const EventFile sut(dir_.path(), 100);
  const auto events = read_events(sut.path());
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].file_version, "brain.Event:2");
  EXPECT_TRUE(events[1].session_start);
  EXPECT_EQ(events[1].step, 101);
}

TEST_F(EventFileTest, IsNamedByTimeHostProcessAndPlace) {
  const EventFile first(dir_.path());
  const EventFile second(dir_.path(), 1);
  const std::string pid = std::to_string(::getpid());
  EXPECT_THAT(name_of(first),
              MatchesRegex(R"(events\.out\.tfevents\.[0-9]{10}\..+\.)" + pid + R"(\.0)"));
  EXPECT_THAT(name_of(second),
              MatchesRegex(R"(events\.out\.tfevents\.[0-9]{10}\..+\.)" + pid + R"(\.1)"));
}

TEST_F(EventFileTest, SortsBehindTheFilesBeforeItWithinASecondAndAfterAClockSetBack) {
  const EventFile first(dir_.path());
  const EventFile second(dir_.path());
  EXPECT_LT(name_of(first), name_of(second));
  const std::string future = "events.out.tfevents.4000000000.zzz.99999.0";
  write_file(dir_.path() / future, "");
  const EventFile third(dir_.path());
  EXPECT_LT(future, name_of(third));
}

TEST_F(EventFileTest, PassesOverOtherFilesAndNamesWithoutATime) {
  for (const char* name : {"events.out.tfevents.", "events.out.tfevents.x", "metrics.jsonl",
                           "events.out.tfevents.99999999999999999999.a.1.0",
                           "events.out.tfevents.9223372036854775807.a.1.0"})
    write_file(dir_.path() / name, "");
  const EventFile sut(dir_.path());
  EXPECT_THAT(name_of(sut), MatchesRegex(R"(events\.out\.tfevents\.[0-9]{10}\..+)"));
}

TEST_F(EventFileTest, LeavesEarlierFilesAsTheyAre) {
  EventFile first(dir_.path());
  first.scalars(5, {{"loss", 1}});
  const EventFile second(dir_.path(), 3);
  EXPECT_THAT(steps_of(first), ElementsAre(0, 5));
}

// A limit on the size of files makes write() stop in the middle of a record, as
// a full disk does.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(::signal(SIGXFSZ, SIG_IGN)) {
    EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &before_), 0);
    const rlimit small = {.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }

 private:
  sighandler_t handler_;
  rlimit before_{};
};

TEST_F(EventFileTest, ReportsAFailedWriteOnceAndGoesOn) {
  EventFile sut(dir_.path());
  EXPECT_FALSE(sut.take_error());
  {
    const FileSizeLimit full(std::filesystem::file_size(sut.path()));
    sut.scalars(1, {{"loss", 1}});
    sut.scalars(2, {{"loss", 1}});
    const std::string error = sut.take_error().value_or("");
    EXPECT_THAT(error, HasSubstr(sut.path().string()));
    EXPECT_THAT(error, HasSubstr("File too large"));
    sut.scalars(3, {{"loss", 1}});
    EXPECT_FALSE(sut.take_error());
  }
  sut.scalars(4, {{"loss", 1}});
  EXPECT_THAT(steps_of(sut), ElementsAre(0, 4));
}

TEST_F(EventFileTest, TakesPartOfARecordBack) {
  EventFile sut(dir_.path());
  for (rlim_t part = 1; part < 20; ++part) {
    const FileSizeLimit full(std::filesystem::file_size(sut.path()) + part);
    sut.scalars(1, {{"loss", 1}});
  }
  EXPECT_TRUE(sut.take_error());
  sut.scalars(2, {{"loss", 1}});
  EXPECT_THAT(steps_of(sut), ElementsAre(0, 2));
}

TEST_F(EventFileTest, NamesAFolderThatIsNotThere) {
  const auto error =
      train::test::error_of<std::system_error>([&] { EventFile(dir_.path() / "none"); });
  EXPECT_THAT(error, HasSubstr("none"));
  EXPECT_THAT(error, HasSubstr("No such file or directory"));
}

}  // namespace
}  // namespace passel::tensorboard
