// Asynchronous runs whose result depends on nothing but their configuration.
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <random>
#include <set>

#include "passel/kernels/isa.h"
#include "small_run.h"
#include "support/stress.h"

namespace passel::testing {
namespace {

using Options = std::vector<std::string>;

/// A mode that promises the same bits.
struct Rule {
  const char* name;
  Options options;
};

// GoogleTest looks for this name.
// NOLINTNEXTLINE(readability-identifier-naming)
void PrintTo(const Rule& rule, std::ostream* out) {
  *out << rule.name;
}

std::chrono::seconds long_run() {
  return std::chrono::seconds(stress_size(100, 600));
}

class SameBits : public SmallRun, public ::testing::WithParamInterface<Rule> {
 protected:
  Options with_rule(Options more) const {
    more.insert(more.end(), GetParam().options.begin(), GetParam().options.end());
    return more;
  }

  std::string hash(const std::string& name = "run") const {
    return summary(name).at("param_hash").get<std::string>();
  }

  /// The hash after `tickets` tickets by one worker whom nobody disturbs.
  std::string undisturbed(std::int64_t tickets) {
    const Finished finished =
        run_passel(train(with_rule({"--workers", "1", "--epochs", "20000", "--max-tickets",
                                    std::to_string(tickets)}),
                         "undisturbed"),
                   long_run());
    EXPECT_EQ(finished.code, 0) << finished.text;
    return hash("undisturbed");
  }
};

TEST_P(SameBits, ComeOfAnyNumberOfWorkers) {
  std::set<std::string> hashes;
  for (const char* workers : {"1", "2", "3", "4"}) {
    const Finished finished =
        run_passel(train(with_rule({"--workers", workers, "--epochs", "30"}), workers));
    ASSERT_EQ(finished.code, 0) << finished.text;
    EXPECT_EQ(summary(workers).at("tickets"), 300);
    hashes.insert(hash(workers));
  }
  EXPECT_EQ(hashes.size(), 1U);
}

TEST_P(SameBits, ComeOfEveryInstructionSetOfTheMachine) {
  const auto available = kernels::available_isas();
  std::set<std::string> hashes, canaries;
  for (const std::string isa : {"avx512", "avx2", "neon", "scalar"}) {
    if (std::ranges::count(available, isa) == 0) {
      continue;
    }
    setenv("PASSEL_ISA", isa.c_str(), 1);
    const Finished finished = run_passel(train(with_rule({"--epochs", "3"}), isa));
    unsetenv("PASSEL_ISA");
    ASSERT_EQ(finished.code, 0) << finished.text;
    hashes.insert(hash(isa));
    std::ifstream in(run(isa) / "manifest.json");
    const auto manifest = nlohmann::json::parse(in);
    EXPECT_EQ(manifest.at("isa"), isa) << "it was used";
    canaries.insert(manifest.at("canary"));
  }
  EXPECT_EQ(hashes.size(), 1U);
  EXPECT_EQ(canaries.size(), 1U);
}

TEST_P(SameBits, ComeOfARunWhoseWorkersAreKilled) {
  const int wanted_kills = stress_size(4, 40);
  const std::int64_t tickets = 900 * wanted_kills;
  PasselProgram program(long_train(with_rule({"--max-tickets", std::to_string(tickets), "--workers",
                                              "3", "--max-respawns", "100000"})),
                        text_file());
  std::mt19937 random(7);
  std::int64_t reached = 0;
  for (int kills = 0; kills < wanted_kills; ++kills) {
    reached += std::uniform_int_distribution(20, 200)(random);
    ASSERT_TRUE(trained(reached)) << program.text();
    const auto workers = program.workers();
    if (!workers.empty()) kill(workers[random() % workers.size()], SIGKILL);
  }
  const Finished finished = program.wait(long_run());
  ASSERT_EQ(finished.code, 0) << finished.text;
  EXPECT_GE(summary().at("respawns"), 1);
  EXPECT_EQ(summary().at("tickets"), tickets);
  EXPECT_EQ(hash(), undisturbed(tickets));
}

TEST_P(SameBits, ComeOfARunOneOfWhoseWorkersStoodStill) {
  PasselProgram program(long_train(with_rule({"--max-tickets", "1800"})), text_file());
  ASSERT_TRUE(trained(20)) << program.text();
  const auto workers = program.workers();
  ASSERT_EQ(workers.size(), 2U);
  kill(workers[0], SIGSTOP);
  // All wait for it, and nobody is killed for that.
  EXPECT_FALSE(eventually([&] { return !process_exists(program.pid()); }, std::chrono::seconds(1)));
  kill(workers[0], SIGCONT);
  const Finished finished = program.wait();
  ASSERT_EQ(finished.code, 0) << finished.text;
  EXPECT_EQ(summary().at("respawns"), 0);
  EXPECT_EQ(hash(), undisturbed(1800));
}

TEST_P(SameBits, ComeOfARunThatWasStoppedAndResumedWithOtherWorkers) {
  PasselProgram program(long_train(with_rule({"--max-tickets", "2400"})), text_file());
  ASSERT_TRUE(trained(100)) << program.text();
  program.signal(SIGTERM);
  ASSERT_EQ(program.wait().code, 143);
  const std::int64_t stopped_at = summary().at("tickets");
  ASSERT_LT(stopped_at, 2400) << "it was to be stopped in the middle";
  const Finished resumed = run_passel({"resume", run(), "--workers", "3"});
  ASSERT_EQ(resumed.code, 0) << resumed.text;
  EXPECT_EQ(summary().at("tickets"), 2400);
  EXPECT_EQ(hash(), undisturbed(2400));
}

INSTANTIATE_TEST_SUITE_P(
    Of, SameBits,
    ::testing::Values(Rule{"OrderedAdam", {"--mode", "ordered"}},
                      Rule{"OrderedMomentum",
                           {"--mode", "ordered", "--staleness", "3", "--optimizer", "sgd",
                            "--momentum", "0.9", "--lr", "0.01"}},
                      Rule{"OrderedStalenessOptions",
                           {"--mode", "ordered", "--staleness", "3", "--optimizer", "sgd",
                            "--momentum", "0.9", "--lr", "0.01", "--staleness-lr", "0.5",
                            "--delay-compensation", "1", "--momentum-correction"}},
                      Rule{"OrderedDropoutCosine",
                           {"--mode", "ordered", "--dropout", "0.3", "--lr-schedule", "cosine",
                            "--lr-warmup", "20"}},
                      Rule{"SyncAdam", {"--mode", "sync", "--shards", "3"}}),
    [](const auto& rule) { return rule.param.name; });

using Modes = SmallRun;

TEST_F(Modes, ThatDoNotPromiseTheSameBitsDoNotHaveThem) {
  std::set<std::string> hashes;
  for (int i = 0; i < 20 && hashes.size() < 2; ++i) {
    const std::string name = std::to_string(i);
    ASSERT_EQ(run_passel(train({"--epochs", "30"}, name)).code, 0);
    hashes.insert(summary(name).at("param_hash").get<std::string>());
  }
  EXPECT_EQ(hashes.size(), 2U) << "of 20 hogwild runs; then the tests above prove nothing";
}

TEST_F(Modes, OrderedAndSyncAreThePlainLoopWithoutStalenessAndShards) {
  const Options ordered = {"--mode", "ordered", "--staleness", "0", "--epochs", "30"};
  const Options sync = {"--mode", "sync", "--shards", "1", "--epochs", "30"};
  const Options plain = {"--workers", "1", "--epochs", "30"};
  ASSERT_EQ(run_passel(train(ordered, "ordered")).code, 0);
  ASSERT_EQ(run_passel(train(sync, "sync")).code, 0);
  ASSERT_EQ(run_passel(train(plain, "plain")).code, 0);
  EXPECT_EQ(summary("ordered").at("param_hash"), summary("plain").at("param_hash"));
  EXPECT_EQ(summary("sync").at("param_hash"), summary("plain").at("param_hash"));
}

TEST_F(Modes, ReportTheStalenessTheyWereAskedFor) {
  const Options ordered = {"--mode", "ordered", "--staleness", "2", "--epochs", "10"};
  ASSERT_EQ(run_passel(train(ordered, "ordered")).code, 0);
  EXPECT_EQ(summary("ordered").at("staleness_counts"), (nlohmann::json{1, 1, 98}))
      << "the first two have nothing older to read";
}

TEST_F(Modes, MakeNoStepThatLacksATicket) {
  const Options sync = {"--mode",   "sync",  "--shards",      "4",
                        "--epochs", "20000", "--max-tickets", "30"};
  const Finished finished = run_passel(train(sync, "sync"));
  ASSERT_EQ(finished.code, 0) << finished.text;
  EXPECT_EQ(summary("sync").at("tickets"), 28);
  EXPECT_NE(finished.text.find("the last 2 tickets are left out"), std::string::npos)
      << finished.text;
}

TEST_F(Modes, AreNotChangedByAResume) {
  ASSERT_EQ(run_passel(train({"--mode", "ordered", "--epochs", "1"})).code, 0);
  const Finished other = run_passel(train({"--resume", run(), "--epochs", "2"}, "other"));
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.text.find("--mode ordered --staleness 1"), std::string::npos) << other.text;
}

}  // namespace
}  // namespace passel::testing
