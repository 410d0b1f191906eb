#include "passel/train/metrics_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

#include "passel/train/errors.h"
#include "temp_dir.h"

namespace passel::train {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<json> lines_of(const std::filesystem::path& file) {
  std::vector<json> lines;
  std::istringstream text(test::read_file(file));
  for (std::string line; std::getline(text, line);) lines.push_back(json::parse(line));
  return lines;
}

std::vector<std::string> events_of(const std::filesystem::path& file) {
  std::vector<std::string> events;
  for (const json& line : lines_of(file)) {
    events.push_back(line.at("event").get<std::string>() +
                     (line.contains("ticket") ? line["ticket"].dump() : ""));
  }
  return events;
}

class MetricsLogTest : public testing::Test {
 protected:
  test::TempDir dir_;
  std::filesystem::path file_ = dir_.path() / "metrics.jsonl";
};

TEST_F(MetricsLogTest, WritesOneObjectALineWithEventAndTime) {
  MetricsLog sut(file_);
  sut.train({.ticket = 50,
             .epoch = 1,
             .loss = 0.5,
             .lr = 0.002,
             .samples_per_second = 1e4,
             .staleness_mean = 1.5,
             .staleness_max = 3,
             .workers = 2});
  sut.eval({.ticket = 50, .epoch = 1, .test_accuracy = 0.75, .test_loss = {}});
  sut.checkpoint({.ticket = 50,
                  .epoch = 1,
                  .file = "c/1",
                  .seconds = 0.25,
                  .best = true,
                  .version = 40,
                  .param_hash = "a",
                  .tensors = {{"w", "b"}}});
  const auto lines = lines_of(file_);
  ASSERT_EQ(lines.size(), 3u);
  for (const json& line : lines) EXPECT_GT(line.at("time").get<double>(), 1.6e9);
  const auto without_time = [](json line) {
    line.erase("time");
    return line;
  };
  EXPECT_EQ(without_time(lines[0]), json::parse(R"({"event":"train","ticket":50,"epoch":1,
      "loss":0.5,"lr":0.002,"samples_per_second":10000.0,"staleness_mean":1.5,
      "staleness_max":3,"workers":2})"));
  EXPECT_EQ(without_time(lines[1]),
            json::parse(R"({"event":"eval","ticket":50,"epoch":1,"test_accuracy":0.75})"));
  EXPECT_EQ(without_time(lines[2]), json::parse(R"({"event":"checkpoint","ticket":50,"epoch":1,
      "file":"c/1","seconds":0.25,"best":true,"version":40,"param_hash":"a",
      "tensors":{"w":"b"}})"));
}

TEST_F(MetricsLogTest, WritesOnlyWhatIsKnownOfAWorker) {
  MetricsLog sut(file_);
  sut.worker(
      {.slot = 1, .incarnation = 2, .state = "killed", .signal = 9, .exit_code = {}, .text = ""});
  sut.worker({.slot = 0,
              .incarnation = 0,
              .state = "failed",
              .signal = {},
              .exit_code = 1,
              .text = "no\nmemory \xff"});
  const auto lines = lines_of(file_);
  EXPECT_EQ(lines[0].at("signal"), 9);
  EXPECT_FALSE(lines[0].contains("exit_code"));
  EXPECT_FALSE(lines[0].contains("text"));
  EXPECT_EQ(lines[1].at("exit_code"), 1);
  EXPECT_FALSE(lines[1].contains("signal"));
  EXPECT_THAT(lines[1].at("text").get<std::string>(), HasSubstr("no\nmemory "));
}

TEST_F(MetricsLogTest, SummaryHoldsAllItsFields) {
  SummaryRecord record{.tickets = 10,
                       .samples = 640,
                       .seconds = 2,
                       .samples_per_second = 320,
                       .test_accuracy = 0.9,
                       .test_loss = {},
                       .param_hash = "0123456789abcdef",
                       .mode = "hogwild",
                       .workers = 2,
                       .respawns = 1,
                       .redone = 3,
                       .rejected = 4,
                       .staleness = {},
                       .checkpoint = "c/10"};
  record.staleness.add(0);
  record.staleness.add(2);
  record.worker_staleness.resize(2);
  record.worker_staleness[1] = record.staleness;
  MetricsLog sut(file_);
  sut.summary(record);
  json line = lines_of(file_).at(0);
  line.erase("time");
  EXPECT_EQ(line, json::parse(R"({"event":"summary","tickets":10,"samples":640,"seconds":2.0,
      "samples_per_second":320.0,"test_accuracy":0.9,"param_hash":"0123456789abcdef",
      "mode":"hogwild","workers":2,"respawns":1,"redone":3,"rejected":4,"staleness_mean":1.0,
      "staleness_max":2,"staleness_counts":[1,0,1],
      "staleness_by_worker":[[],[1,0,1]],"implied_momentum":0.5,"checkpoint":"c/10"})"));
}

TEST_F(MetricsLogTest, WritesNullForWhatIsNotFinite) {
  MetricsLog sut(file_);
  sut.train({.loss = std::nan(""), .lr = INFINITY, .samples_per_second = -INFINITY});
  const json line = lines_of(file_).at(0);
  EXPECT_TRUE(line.at("loss").is_null());
  EXPECT_TRUE(line.at("lr").is_null());
  EXPECT_TRUE(line.at("samples_per_second").is_null());
}

TEST_F(MetricsLogTest, AppendsToWhatIsThere) {
  MetricsLog(file_).eval({.ticket = 1});
  MetricsLog(file_).eval({.ticket = 2});
  EXPECT_THAT(events_of(file_), ElementsAre("eval1", "eval2"));
}

TEST_F(MetricsLogTest, CutsATornLastLine) {
  const std::string whole = "{\"event\":\"eval\",\"ticket\":1}\n";
  for (const std::size_t torn : {0, 1, 4095, 4096, 4097, 20000}) {
    test::write_file(file_, whole + std::string(torn, 'x'));
    MetricsLog(file_).eval({.ticket = 2});
    EXPECT_THAT(events_of(file_), ElementsAre("eval1", "eval2")) << torn;
  }
}

TEST_F(MetricsLogTest, CutsAFileThatIsOneTornLine) {
  test::write_file(file_, std::string(5000, 'x'));
  MetricsLog(file_).eval({.ticket = 2});
  EXPECT_THAT(events_of(file_), ElementsAre("eval2"));
}

TEST_F(MetricsLogTest, ForgetsTheFutureOfACheckpointOnResume) {
  MetricsLog sut(file_);
  sut.train({.ticket = 50});
  sut.worker({.slot = 0, .incarnation = 0, .state = "started"});
  sut.eval({.ticket = 100});
  sut.checkpoint({.ticket = 100});
  sut.train({.ticket = 101});
  sut.eval({.ticket = 200});
  sut.checkpoint({.ticket = 200});
  sut.worker({.slot = 0, .incarnation = 0, .state = "exited"});
  sut.summary({.tickets = 200});
  sut.truncate_after(100);
  EXPECT_THAT(events_of(file_),
              ElementsAre("train50", "worker", "eval100", "checkpoint100", "worker"));
  sut.train({.ticket = 120});
  EXPECT_EQ(events_of(file_).back(), "train120");
}

TEST_F(MetricsLogTest, ForgetsLinesThatAreNoEventsOnResume) {
  test::write_file(file_,
                   "{\"event\":\"eval\",\"ticket\":1}\nnot json\n[]\n{}\n\n"
                   "{\"event\":\"train\"}\n{\"event\":\"train\",\"ticket\":\"1\"}\n{\"eve");
  MetricsLog sut(file_);
  sut.truncate_after(10);
  EXPECT_THAT(events_of(file_), ElementsAre("eval1"));
}

TEST_F(MetricsLogTest, KeepsLinesWholeWhenManyThreadsWrite) {
  MetricsLog sut(file_);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) sut.worker({.state = "ready", .text = std::string(i, 'x')});
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(lines_of(file_).size(), 800u);
}

TEST_F(MetricsLogTest, ReportsAFullDiskOnceAndGoesOn) {
  MetricsLog sut("/dev/full");
  EXPECT_FALSE(sut.take_error());
  sut.train({});
  sut.train({});
  EXPECT_THAT(sut.take_error().value_or(""), HasSubstr("No space left on device"));
  sut.train({});
  EXPECT_FALSE(sut.take_error());
}

// A limit on the size of files makes write() stop in the middle of a line.
TEST_F(MetricsLogTest, TakesPartOfALineBack) {
  MetricsLog sut(file_);
  sut.eval({.ticket = 1});
  const auto size = std::filesystem::file_size(file_);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {.rlim_cur = size + 10, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  sut.eval({.ticket = 2});
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, handler);
  EXPECT_TRUE(sut.take_error());
  sut.eval({.ticket = 3});
  EXPECT_THAT(events_of(file_), ElementsAre("eval1", "eval3"));
}

TEST_F(MetricsLogTest, NamesAFileThatCannotBeOpened) {
  EXPECT_THAT(test::error_of<UsageError>([&] { MetricsLog(dir_.path() / "none" / "m.jsonl"); }),
              HasSubstr("No such file or directory"));
}

}  // namespace
}  // namespace passel::train
