// A machine whose limit of processes and threads is reached, at the start of a run and within it.
#include <gmock/gmock.h>
#include <signal.h>

#include <cstdlib>

#include "small_run.h"

namespace passel::testing {
namespace {

using ::testing::HasSubstr;

class FewProcesses : public SmallRun {
 protected:
  void SetUp() override {
    SmallRun::SetUp();
    setenv("LD_PRELOAD", PASSEL_FEW_PROCESSES, 1);
  }
  void TearDown() override {
    for (const char* variable : {"LD_PRELOAD", "PASSEL_FAILED_SPAWNS", "PASSEL_FAILED_THREADS"}) {
      unsetenv(variable);
    }
  }
  static void fail_spawns(const char* range) { setenv("PASSEL_FAILED_SPAWNS", range, 1); }
  static void fail_threads(const char* range) { setenv("PASSEL_FAILED_THREADS", range, 1); }
};

TEST_F(FewProcesses, AtTheStartAreSaidWithTheWorkerAndTheLimit) {
  fail_spawns("2-2");
  const Finished finished = run_passel(train());
  EXPECT_EQ(finished.code, 1);
  EXPECT_THAT(finished.text, HasSubstr("spawn worker 1"));
  EXPECT_THAT(finished.text, HasSubstr("ulimit -u"));
}

TEST_F(FewProcesses, OrThreadsAtTheStartAreSaidWithTheLimit) {
  fail_threads("1-1");
  const Finished finished = run_passel(train());
  EXPECT_EQ(finished.code, 1);
  EXPECT_THAT(finished.text, HasSubstr("thread"));
  EXPECT_THAT(finished.text, HasSubstr("ulimit -u"));
}

TEST_F(FewProcesses, LaterLeaveARunWithFewerWorkersUntilThereAreMore) {
  fail_spawns("3-4");
  PasselProgram program(long_train(), text_file());
  ASSERT_TRUE(trained(20)) << program.text();
  const auto workers = program.workers();
  ASSERT_EQ(workers.size(), 2U);
  kill(workers[0], SIGKILL);
  const auto replaced = [](const auto& all) {
    return std::ranges::any_of(all, [](const auto& event) {
      return event.at("event") == "worker" && event.at("state") == "training" &&
             event.at("incarnation") == 2;
    });
  };
  ASSERT_TRUE(eventually_in(run(), replaced)) << program.text();
  program.signal(SIGINT);
  const Finished finished = program.wait();
  EXPECT_THAT(finished.text, HasSubstr("ulimit -u"));
  EXPECT_EQ(summary().at("respawns"), 1);
}

TEST_F(FewProcesses, LaterDoNotEndARunWhoseOnlyWorkerDied) {
  fail_spawns("2-3");
  PasselProgram program(long_train({"--workers", "1", "--max-tickets", "2000"}), text_file());
  ASSERT_TRUE(trained(20)) << program.text();
  const auto workers = program.workers();
  ASSERT_EQ(workers.size(), 1U);
  kill(workers[0], SIGKILL);
  const Finished finished = program.wait();
  EXPECT_EQ(finished.code, 0) << finished.text;
  EXPECT_EQ(summary().at("tickets"), 2000);
}

TEST_F(FewProcesses, WithoutAThreadTheCoordinatorItselfEvaluatesAndSaves) {
  fail_threads("2-1000");
  const Finished finished = run_passel(train({"--epochs", "3"}));
  EXPECT_EQ(finished.code, 0) << finished.text;
  EXPECT_EQ(events(run(), "checkpoint").size(), 3U);
  EXPECT_TRUE(summary().contains("test_accuracy"));
}

}  // namespace
}  // namespace passel::testing
