#include <signal.h>
#include <sys/resource.h>

#include <chrono>

#include "small_run.h"
#include "support/stress.h"

namespace passel::testing {
namespace {

using Death = SmallRun;

std::int64_t files_in(const std::filesystem::path& folder) {
  return std::distance(std::filesystem::directory_iterator(folder), {});
}

TEST_F(Death, OfAWorkerCostsOnlyWhatItHeld) {
  PasselProgram program(long_train({"--max-tickets", "3000"}), text_file());
  ASSERT_TRUE(trained(20)) << program.text();
  const auto workers = program.workers();
  ASSERT_EQ(workers.size(), 2U);
  kill(workers[0], SIGKILL);
  const Finished finished = program.wait();
  ASSERT_EQ(finished.code, 0) << finished.text;
  const auto last = summary();
  EXPECT_EQ(last.at("respawns"), 1);
  EXPECT_LE(last.at("redone"), 2);
  EXPECT_EQ(last.at("tickets"), 3000);
  EXPECT_EQ(last.at("samples"), 3000 * 20);
  EXPECT_NE(finished.text.find("worker"), std::string::npos);
}

TEST_F(Death, OfManyWorkersLosesNoTicket) {
  const int wanted_kills = stress_size(12, 150);
  const int tickets = 500 * wanted_kills + 10000;
  PasselProgram program(long_train({"--max-tickets", std::to_string(tickets), "--workers", "3",
                                    "--max-respawns", "100000"}),
                        text_file());
  int kills = 0;
  while (kills < wanted_kills) {
    ASSERT_TRUE(trained(20 + 100 * kills)) << program.text();
    const auto workers = program.workers();
    if (workers.empty()) continue;
    kill(workers[static_cast<std::size_t>(kills) % workers.size()], SIGKILL);
    ++kills;
  }
  const Finished finished = program.wait(std::chrono::seconds(stress_size(100, 500)));
  ASSERT_EQ(finished.code, 0) << finished.text;
  EXPECT_EQ(summary().at("tickets"), tickets);
  EXPECT_EQ(summary().at("samples"), tickets * 20);
  EXPECT_GE(summary().at("respawns"), 1);
  EXPECT_LE(summary().at("respawns"), wanted_kills);
}

TEST_F(Death, OfTheParentLeavesNothingBehindAndItsCheckpointResumes) {
  const auto shm_before = files_in("/dev/shm");
  std::vector<pid_t> workers;
  {
    PasselProgram program(long_train({"--checkpoint-interval", "10"}), text_file());
    ASSERT_TRUE(eventually_in(run(), [](const auto& all) {
      return std::ranges::any_of(all,
                                 [](const auto& event) { return event["event"] == "checkpoint"; });
    })) << program.text();
    workers = program.workers();
    ASSERT_EQ(workers.size(), 2U);
    program.signal(SIGKILL);
    program.wait();
  }
  for (const pid_t worker : workers) {
    EXPECT_TRUE(eventually([&] { return !process_exists(worker); }, std::chrono::seconds(1)));
  }
  EXPECT_EQ(files_in("/dev/shm"), shm_before);
  const auto saved = events(run(), "checkpoint").back().at("ticket").get<std::int64_t>();
  const Finished resumed =
      run_passel({"resume", run(), "--max-tickets", std::to_string(saved + 100)});
  ASSERT_EQ(resumed.code, 0) << resumed.text;
  EXPECT_EQ(summary().at("tickets"), saved + 100);
}

TEST_F(Death, OfAStoppedWorkerComesAfterItsTimeoutWhileTheOthersGoOn) {
  PasselProgram program(long_train({"--worker-timeout", "4"}), text_file());
  ASSERT_TRUE(trained(20)) << program.text();
  const auto workers = program.workers();
  ASSERT_EQ(workers.size(), 2U);
  kill(workers[0], SIGSTOP);
  const auto tickets = [&] {
    const auto trained = events(run(), "train");
    return trained.back().at("ticket").get<std::int64_t>();
  };
  // More than an epoch: the border does not hold the others up for long.
  const std::int64_t before = tickets();
  EXPECT_TRUE(eventually([&] { return tickets() > before + 30; }));
  EXPECT_TRUE(process_exists(workers[0])) << "the others went on before it was killed";
  EXPECT_TRUE(eventually_in(run(), [](const auto& all) {
    return std::ranges::any_of(all, [](const auto& event) {
      return event["event"] == "worker" && event["state"] == "hung";
    });
  }));
  EXPECT_TRUE(eventually([&] { return program.workers().size() == 2; }));
  EXPECT_NE(program.text().find("made no progress"), std::string::npos);
  program.signal(SIGINT);
  EXPECT_EQ(program.wait().code, 130);
  EXPECT_EQ(summary().at("respawns"), 1);
}

void pass(std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  EXPECT_TRUE(eventually([&] { return std::chrono::steady_clock::now() >= end; }));
}

// As a container that is frozen, or a machine that is suspended.
TEST_F(Death, IsNotWhatWorkersGetForTimeInWhichEverythingStoodStill) {
  PasselProgram program(long_train({"--worker-timeout", "3"}), text_file());
  ASSERT_TRUE(trained(20)) << program.text();
  const auto workers = program.workers();
  program.signal(SIGSTOP);
  for (const pid_t worker : workers) kill(worker, SIGSTOP);
  const auto tickets = events(run(), "train").back().at("ticket").get<std::int64_t>();
  pass(std::chrono::seconds(4));  // what it is about
  program.signal(SIGCONT);
  pass(std::chrono::milliseconds(200));  // in which it looks at its workers
  for (const pid_t worker : workers) kill(worker, SIGCONT);
  ASSERT_TRUE(trained(tickets + 30)) << program.text();
  program.signal(SIGINT);
  EXPECT_EQ(program.wait().code, 130);
  EXPECT_EQ(summary().at("respawns"), 0) << program.text();
}

TEST_F(Death, IsFollowedByAReplacementThoughTheFolderOfTheStartWasRemoved) {
  const auto before = std::filesystem::current_path();
  std::filesystem::create_directory(run("gone"));
  std::filesystem::current_path(run("gone"));
  PasselProgram program(long_train({}), text_file());
  std::filesystem::current_path(before);
  ASSERT_TRUE(trained(20)) << program.text();
  std::filesystem::remove(run("gone"));
  const auto workers = program.workers();
  ASSERT_EQ(workers.size(), 2U);
  for (const pid_t worker : workers) kill(worker, SIGKILL);
  EXPECT_TRUE(eventually_in(run(), [](const auto& all) {
    return std::ranges::count_if(all, [](const auto& event) {
             return event["event"] == "worker" && event["state"] == "training" &&
                    event["incarnation"] == 2;
           }) == 2;
  })) << program.text();
  program.signal(SIGINT);
  EXPECT_EQ(program.wait().code, 130) << program.text();
}

TEST_F(Death, OfEveryReplacementEndsTheRunWithItsReason) {
  PasselProgram program(long_train({"--max-respawns", "1"}), text_file());
  ASSERT_TRUE(trained(20)) << program.text();
  for (const pid_t worker : program.workers()) kill(worker, SIGKILL);
  const Finished finished = program.wait();
  EXPECT_EQ(finished.code, 1);
  EXPECT_NE(finished.text.find("--max-respawns"), std::string::npos) << finished.text;
}

TEST_F(Death, OfADivergingRunIsNamedAndKeepsItsCheckpoints) {
  const Finished finished =
      run_passel({"train", "--dataset", "adding", "--adding-steps", "8", "--hidden-size", "16",
                  "--out", run(), "--optimizer", "sgd", "--lr", "1000", "--clip-norm", "0"});
  EXPECT_EQ(finished.code, 1) << finished.text;
  EXPECT_NE(finished.text.find("--lr"), std::string::npos) << finished.text;
}

TEST_F(Death, OfASaveIsReportedAndTheNextSaveIsTried) {
  PasselProgram program(long_train({"--checkpoint-interval", "10"}), text_file());
  ASSERT_TRUE(trained(20)) << program.text();
  // A limit on file sizes stands for a full disk: a checkpoint is larger, what
  // the program says is not.
  const rlimit none{4096, RLIM_INFINITY}, all{RLIM_INFINITY, RLIM_INFINITY};
  ASSERT_EQ(prlimit(program.pid(), RLIMIT_FSIZE, &none, nullptr), 0);
  ASSERT_TRUE(eventually([&] { return program.text().find("was not saved") != std::string::npos; }))
      << program.text();
  ASSERT_EQ(prlimit(program.pid(), RLIMIT_FSIZE, &all, nullptr), 0);
  const auto saved = events(run(), "checkpoint").size();
  EXPECT_TRUE(eventually([&] { return events(run(), "checkpoint").size() > saved; }))
      << program.text();
  program.signal(SIGINT);
  EXPECT_EQ(program.wait().code, 130);
}

TEST_F(Death, OfATerminalDoesNotEndARunUnderNohup) {
  signal(SIGHUP, SIG_IGN);  // inherited, as from nohup
  PasselProgram program(long_train(), text_file());
  signal(SIGHUP, SIG_DFL);
  ASSERT_TRUE(trained(20)) << program.text();
  program.signal(SIGHUP);
  const auto before = events(run(), "train").size();
  EXPECT_TRUE(eventually([&] { return events(run(), "train").size() > before + 20; }));
  program.signal(SIGINT);
  EXPECT_EQ(program.wait().code, 130);
}

TEST_F(Death, OfTheLastSaveMakesTheRunFail) {
  PasselProgram program(long_train(), text_file());
  ASSERT_TRUE(trained(20)) << program.text();
  const rlimit none{4096, RLIM_INFINITY};
  ASSERT_EQ(prlimit(program.pid(), RLIMIT_FSIZE, &none, nullptr), 0);
  program.signal(SIGINT);
  const Finished finished = program.wait();
  EXPECT_EQ(finished.code, 1) << finished.text;
}

}  // namespace
}  // namespace passel::testing
