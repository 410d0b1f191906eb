#include <signal.h>

#include <algorithm>
#include <fstream>

#include "small_run.h"

namespace passel::testing {
namespace {

using TrainingRun = SmallRun;

TEST_F(TrainingRun, LearnsAndEndsByNamingItsResults) {
  const Finished finished =
      run_passel(train({"--epochs", "30", "--lr", "0.01", "--lr-schedule", "cosine"}));
  ASSERT_EQ(finished.code, 0) << finished.text;
  const auto last = summary();
  EXPECT_EQ(last.at("tickets"), 300);
  EXPECT_EQ(last.at("samples"), 6000);
  EXPECT_EQ(last.at("workers"), 2);
  EXPECT_EQ(last.at("respawns"), 0);
  EXPECT_EQ(last.at("redone"), 0);
  EXPECT_EQ(last.at("mode"), "hogwild");
  EXPECT_GT(last.at("test_accuracy"), 0.8);
  EXPECT_EQ(last.at("param_hash").get<std::string>().size(), 16U);
  for (const char* word : {"accuracy", "samples/s", "staleness", "checkpoint-"}) {
    EXPECT_NE(finished.text.find(word), std::string::npos) << word << " in:\n" << finished.text;
  }
}

TEST_F(TrainingRun, EvaluatesAtEveryEndOfAnEpoch) {
  ASSERT_EQ(run_passel(train({"--epochs", "3"})).code, 0);
  std::vector<std::int64_t> tickets;
  for (const auto& event : events(run(), "eval")) tickets.push_back(event.at("ticket"));
  EXPECT_EQ(tickets, (std::vector<std::int64_t>{10, 20, 30}));
}

TEST_F(TrainingRun, CountsTheStalenessOfEveryUpdate) {
  ASSERT_EQ(run_passel(train({"--epochs", "5"})).code, 0);
  const auto last = summary();
  std::int64_t counted = 0;
  for (const auto& count : last.at("staleness_counts")) counted += count.get<std::int64_t>();
  EXPECT_EQ(counted, 50) << last.dump();
}

TEST_F(TrainingRun, OfOneWorkerIsNeverStaleAndRepeatsItself) {
  ASSERT_EQ(run_passel(train({"--workers", "1", "--epochs", "3"}, "a")).code, 0);
  ASSERT_EQ(run_passel(train({"--workers", "1", "--epochs", "3"}, "b")).code, 0);
  EXPECT_EQ(summary("a").at("staleness_max"), 0);
  EXPECT_EQ(summary("a").at("param_hash"), summary("b").at("param_hash"));
}

TEST_F(TrainingRun, OfOneWorkerGoesOnAfterAResumeAsIfItHadNotStopped) {
  ASSERT_EQ(run_passel(train({"--workers", "1", "--epochs", "4"}, "whole")).code, 0);
  ASSERT_EQ(run_passel(train({"--workers", "1", "--epochs", "2"}, "half")).code, 0);
  const Finished resumed = run_passel({"resume", run("half"), "--epochs", "4"});
  ASSERT_EQ(resumed.code, 0) << resumed.text;
  EXPECT_EQ(summary("half").at("tickets"), 40);
  EXPECT_EQ(summary("half").at("param_hash"), summary("whole").at("param_hash"));
}

TEST_F(TrainingRun, EvalSaysWhatTheRunSaid) {
  ASSERT_EQ(run_passel(train({"--epochs", "2"})).code, 0);
  const Finished evaluated = run_passel({"eval", run()});
  ASSERT_EQ(evaluated.code, 0) << evaluated.text;
  char expected[64];
  std::snprintf(expected, sizeof expected, "test_accuracy %.4f\n",
                summary().at("test_accuracy").get<double>());
  EXPECT_EQ(evaluated.text, expected);
}

TEST_F(TrainingRun, KeepsTheLastCheckpointsAndTheBest) {
  ASSERT_EQ(run_passel(train({"--epochs", "6", "--keep-checkpoints", "2"})).code, 0);
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(run() / "checkpoints")) {
    names.push_back(entry.path().filename());
  }
  std::ranges::sort(names);
  EXPECT_EQ(names, (std::vector<std::string>{"best.safetensors", "checkpoint-000000050.safetensors",
                                             "checkpoint-000000060.safetensors"}));
}

TEST_F(TrainingRun, TrainsARegressorOnTheAddingProblem) {
  // In order, so that the loss is the same one everywhere: where a worker is
  // held up for long, its late gradient can spoil so short a hogwild run.
  const Finished finished =
      run_passel({"train", "--dataset", "adding", "--adding-steps", "6", "--epochs", "1", "--out",
                  run(), "--hidden-size", "16", "--lr", "0.01", "--mode", "ordered"});
  ASSERT_EQ(finished.code, 0) << finished.text;
  // Predicting the mean gives 1/6.
  EXPECT_LT(summary().at("test_loss"), 0.1);
}

TEST_F(TrainingRun, WorksWithEveryOptimizer) {
  for (const std::string optimizer : {"sgd", "rmsprop", "adagrad", "adam", "adamw"}) {
    const Finished finished =
        run_passel(train({"--optimizer", optimizer, "--epochs", "2"}, optimizer));
    EXPECT_EQ(finished.code, 0) << finished.text;
    EXPECT_EQ(run_passel({"resume", run(optimizer), "--epochs", "3"}).code, 0) << optimizer;
    EXPECT_EQ(summary(optimizer).at("tickets"), 30);
  }
}

TEST_F(TrainingRun, ExportsBesideTheCheckpointUnlessToldOtherwise) {
  ASSERT_EQ(run_passel(train({"--epochs", "1"})).code, 0);
  const Finished finished = run_passel({"export", run()});
  ASSERT_EQ(finished.code, 0) << finished.text;
  EXPECT_TRUE(std::filesystem::exists(run() / "checkpoints" / "checkpoint-000000010.pt"))
      << finished.text;
}

TEST_F(TrainingRun, ReadsBackTheConfigurationItWrote) {
  ASSERT_EQ(run_passel(train({"--epochs", "1"}, "first")).code, 0);
  const Finished again =
      run_passel({"train", "--config", run("first") / "config.toml", "--out", run("second")});
  ASSERT_EQ(again.code, 0) << again.text;
  EXPECT_EQ(summary("second").at("tickets"), 10);
}

TEST_F(TrainingRun, StopsAtATicketBorderOnCtrlCAndResumes) {
  PasselProgram program(long_train(), text_file());
  ASSERT_TRUE(trained(20)) << program.text();
  program.signal(SIGINT);
  const Finished finished = program.wait();
  ASSERT_EQ(finished.code, 130) << finished.text;
  const std::int64_t stopped_at = summary().at("tickets");
  EXPECT_GE(stopped_at, 20);
  const std::string total = std::to_string(stopped_at + 15);
  const Finished resumed = run_passel({"resume", run(), "--max-tickets", total});
  ASSERT_EQ(resumed.code, 0) << resumed.text;
  EXPECT_EQ(summary().at("tickets"), stopped_at + 15);
  EXPECT_EQ(summary().at("samples"), 15 * 20);
}

TEST_F(TrainingRun, StopsAtATicketBorderOnSigterm) {
  PasselProgram program(long_train(), text_file());
  ASSERT_TRUE(trained(20)) << program.text();
  program.signal(SIGTERM);
  EXPECT_EQ(program.wait().code, 143);
  EXPECT_EQ(run_passel({"eval", run()}).code, 0);
}

TEST_F(TrainingRun, IsDoneWhenASignalComesAfterItsLastTicket) {
  ImageSet{.test = 20000}.write(data_.path());  // evaluated after the last ticket
  PasselProgram program(
      train({"--epochs", "1", "--log-interval", "1", "--hidden-size", "256", "--workers", "1"}),
      text_file());
  ASSERT_TRUE(trained(10)) << program.text();
  program.signal(SIGTERM);
  const Finished finished = program.wait();
  EXPECT_EQ(finished.code, 0) << finished.text;
  EXPECT_EQ(summary().at("tickets"), 10);
  EXPECT_TRUE(summary().contains("test_accuracy"));
  std::ifstream manifest(run() / "manifest.json");
  EXPECT_EQ(nlohmann::json::parse(manifest).at("exit").at("reason"), "done");
}

TEST_F(TrainingRun, OfFilesThatWereNamedRelativelyGoesOnFromAnotherFolder) {
  const auto before = std::filesystem::current_path();
  ASSERT_EQ(run_passel(train({"--mode", "ordered", "--epochs", "1"}, "first")).code, 0);
  std::filesystem::current_path(run("first"));
  const Finished second = run_passel(
      train({"--mode", "ordered", "--epochs", "2", "--resume", "checkpoints/best.safetensors",
             "--data", std::filesystem::relative(data_.path())},
            "second"));
  std::filesystem::current_path("/");
  const Finished verified = run_passel({"verify", run("second")});
  const Finished resumed = run_passel({"resume", run("second"), "--epochs", "3"});
  std::filesystem::current_path(before);
  EXPECT_EQ(second.code, 0) << second.text;
  EXPECT_EQ(verified.code, 0) << verified.text;
  EXPECT_EQ(resumed.code, 0) << resumed.text;
}

TEST_F(TrainingRun, LeavesAtOnceOnASecondCtrlC) {
  PasselProgram program(long_train({"--worker-timeout", "600"}), text_file());
  ASSERT_TRUE(trained(20)) << program.text();
  // Stopped workers keep the run from reaching its border.
  for (const pid_t worker : program.workers()) kill(worker, SIGSTOP);
  program.signal(SIGINT);
  ASSERT_TRUE(eventually([&] { return program.text().find("once more") != std::string::npos; }));
  program.signal(SIGINT);
  EXPECT_EQ(program.wait(std::chrono::seconds(8)).code, 130);
}

}  // namespace
}  // namespace passel::testing
