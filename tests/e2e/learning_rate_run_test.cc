// Learning-rate schedules, dropout and staleness options in whole runs.
#include <signal.h>

#include <cmath>
#include <map>

#include "small_run.h"

namespace passel::testing {
namespace {

using Options = std::vector<std::string>;

class Rates : public SmallRun {
 protected:
  /// ticket -> lr of a run's metrics
  std::map<std::int64_t, double> rates(const std::string& name = "run") const {
    std::map<std::int64_t, double> found;
    for (const auto& event : events(run(name), "train")) {
      found[event.at("ticket").get<std::int64_t>()] = event.at("lr").get<double>();
    }
    return found;
  }

  std::string hash(const std::string& name) const {
    return summary(name).at("param_hash").get<std::string>();
  }
};

TEST_F(Rates, AreInTheMetrics) {
  const Options options = {"--epochs",      "4",      "--log-interval", "10",  "--lr", "0.1",
                           "--lr-schedule", "cosine", "--lr-min",       "0.01"};
  ASSERT_EQ(run_passel(train(options)).code, 0);
  const auto found = rates();
  ASSERT_EQ(found.size(), 4U);
  for (const auto& [tickets, lr] : found) {
    // Of the newest ticket, the one before.
    const double angle = std::acos(-1.0) * static_cast<double>(tickets - 1) / 40;
    EXPECT_NEAR(lr, 0.01 + 0.09 * (1 + std::cos(angle)) / 2, 1e-12);
  }
}

TEST_F(Rates, ChangeTheResult) {
  const Options plain = {"--workers", "1", "--epochs", "4"};
  Options cosine = plain;
  cosine.insert(cosine.end(), {"--lr-schedule", "cosine"});
  ASSERT_EQ(run_passel(train(plain, "plain")).code, 0);
  ASSERT_EQ(run_passel(train(cosine, "cosine")).code, 0);
  EXPECT_NE(hash("plain"), hash("cosine"));
}

TEST_F(Rates, AreThoseOfTheWholeRunWhereItIsCutShortAndGoesOn) {
  const Options cosine = {"--mode", "ordered", "--epochs", "4", "--lr-schedule", "cosine"};
  Options cut = cosine;
  cut.insert(cut.end(), {"--max-tickets", "25"});
  ASSERT_EQ(run_passel(train(cosine, "whole")).code, 0);
  ASSERT_EQ(run_passel(train(cut, "cut")).code, 0);
  EXPECT_EQ(run_passel({"verify", run("cut")}).code, 0);
  ASSERT_EQ(run_passel({"resume", run("cut"), "--max-tickets", "40"}).code, 0);
  EXPECT_EQ(hash("cut"), hash("whole"));
}

TEST_F(Rates, AreNotChangedByAResumeWithOtherEpochs) {
  const Options cosine = {"--epochs", "4", "--lr-schedule", "cosine", "--max-tickets", "20"};
  ASSERT_EQ(run_passel(train(cosine)).code, 0);
  const Finished finished = run_passel({"resume", run(), "--epochs", "8"});
  EXPECT_EQ(finished.code, 2);
  EXPECT_NE(finished.text.find("epochs: expected 4 as before"), std::string::npos) << finished.text;
}

TEST_F(Rates, OfAWarmUpThatOutlastsTheRunAreRefused) {
  const Finished finished = run_passel(train({"--epochs", "2", "--lr-warmup", "20"}));
  EXPECT_EQ(finished.code, 2);
  EXPECT_NE(finished.text.find("--lr-warmup to be less than the 20 tickets"), std::string::npos)
      << finished.text;
  EXPECT_FALSE(std::filesystem::exists(run()));
}

using DropoutRun = Rates;

TEST_F(DropoutRun, ChangesTrainingAndNotTheNextEvaluation) {
  const Options plain = {"--workers", "1", "--epochs", "10"};
  Options dropout = plain;
  dropout.insert(dropout.end(), {"--dropout", "0.5"});
  ASSERT_EQ(run_passel(train(plain, "plain")).code, 0);
  ASSERT_EQ(run_passel(train(dropout, "dropout")).code, 0);
  EXPECT_NE(hash("plain"), hash("dropout"));
  const Finished once = run_passel({"eval", run("dropout")});
  EXPECT_EQ(once.code, 0) << once.text;
  EXPECT_EQ(run_passel({"eval", run("dropout")}).text, once.text);
}

using StalenessRun = Rates;

TEST_F(StalenessRun, OfOneHogwildWorkerIsNoneAndItsOptionsChangeNothing) {
  const Options plain = {"--workers", "1",          "--epochs", "5",    "--optimizer",
                         "sgd",       "--momentum", "0.9",      "--lr", "0.01"};
  Options with = plain;
  with.insert(with.end(), {"--staleness-lr", "1", "--momentum-correction"});
  ASSERT_EQ(run_passel(train(plain, "plain")).code, 0);
  ASSERT_EQ(run_passel(train(with, "with")).code, 0);
  EXPECT_EQ(hash("plain"), hash("with"));
}

TEST_F(StalenessRun, IsReportedByWorkerAndAsMomentum) {
  const Options options = {"--mode", "ordered", "--staleness", "1", "--epochs", "10"};
  ASSERT_EQ(run_passel(train(options)).code, 0);
  const auto all = summary();
  const auto by_worker = all.at("staleness_by_worker");
  ASSERT_EQ(by_worker.size(), 2U);
  std::vector<std::int64_t> sum(2);
  for (const auto& counts : by_worker) {
    for (std::size_t i = 0; i < counts.size(); ++i) sum.at(i) += counts[i].get<std::int64_t>();
  }
  EXPECT_EQ(nlohmann::json(sum), all.at("staleness_counts"));
  const double mean = all.at("staleness_mean").get<double>();
  EXPECT_NEAR(all.at("implied_momentum").get<double>(), mean / (1 + mean), 1e-12);
}

TEST_F(StalenessRun, OptionsEachChangeTheResultOfOrdered) {
  const Options plain = {"--mode",     "ordered", "--staleness", "3",    "--optimizer", "sgd",
                         "--momentum", "0.9",     "--lr",        "0.05", "--epochs",    "5"};
  ASSERT_EQ(run_passel(train(plain, "plain")).code, 0);
  for (const Options& option :
       {Options{"--staleness-lr", "1"}, Options{"--delay-compensation", "2"},
        Options{"--momentum-correction"}}) {
    Options with = plain;
    with.insert(with.end(), option.begin(), option.end());
    ASSERT_EQ(run_passel(train(with, option.front())).code, 0);
    EXPECT_NE(hash(option.front()), hash("plain")) << option.front();
  }
}

}  // namespace
}  // namespace passel::testing
