// Runs whose workers live in one process: `--simulate-workers`.
#include <signal.h>

#include "small_run.h"

namespace passel::testing {
namespace {

namespace fs = std::filesystem;
using Options = std::vector<std::string>;

struct Rule {
  const char* name;
  Options options;
};

// GoogleTest looks for this name.
// NOLINTNEXTLINE(readability-identifier-naming)
void PrintTo(const Rule& rule, std::ostream* out) {
  *out << rule.name;
}

class SimulatedRun : public SmallRun {
 protected:
  Finished run_and_move(Options options, const std::string& name) {
    options.insert(options.end(), {"--epochs", "4", "--keep-checkpoints", "9"});
    Finished finished = run_passel(train(options));
    if (fs::exists(run())) fs::rename(run(), folder_ / name);
    return finished;
  }
};

class SimulatedRunOfMode : public SimulatedRun, public ::testing::WithParamInterface<Rule> {};

TEST_P(SimulatedRunOfMode, WritesTheCheckpointsOfTheRealOne) {
  // Both into a folder of one name, which the checkpoints know.
  Options real = GetParam().options, simulated = GetParam().options;
  real.insert(real.end(), {"--workers", "3"});
  simulated.insert(simulated.end(), {"--simulate-workers", "3"});
  const Finished first = run_and_move(real, "real"), second = run_and_move(simulated, "simulated");
  ASSERT_EQ(first.code, 0) << first.text;
  ASSERT_EQ(second.code, 0) << second.text;
  for (const char* key : {"param_hash", "tickets", "staleness_counts", "rejected"}) {
    EXPECT_EQ(summary("simulated").at(key), summary("real").at(key)) << key;
  }
  int compared = 0;
  for (const auto& file : fs::directory_iterator(run("real") / "checkpoints")) {
    EXPECT_EQ(read_file(run("simulated") / "checkpoints" / file.path().filename()),
              read_file(file.path()))
        << file.path().filename();
    ++compared;
  }
  EXPECT_EQ(compared, 5) << "of four epochs, and the best";
  EXPECT_FALSE(fs::exists(run("simulated") / "worker-0.log")) << "there was no such process";
}

INSTANTIATE_TEST_SUITE_P(
    Of, SimulatedRunOfMode,
    ::testing::Values(Rule{"Ordered0", {"--mode", "ordered", "--staleness", "0"}},
                      Rule{"Ordered1", {"--mode", "ordered", "--staleness", "1"}},
                      Rule{"Ordered3", {"--mode", "ordered", "--staleness", "3"}},
                      Rule{"OrderedDropoutCosine",
                           {"--mode", "ordered", "--dropout", "0.3", "--lr-schedule", "cosine"}},
                      Rule{"Sync", {"--mode", "sync", "--shards", "4"}}),
    [](const auto& rule) { return rule.param.name; });

TEST_F(SimulatedRun, StartsNoProcessAndStopsAndGoesOnWithRealWorkers) {
  const Options options = {"--mode", "ordered", "--max-tickets", "3000"};
  Options simulated = long_train(options);
  simulated.insert(simulated.end(), {"--simulate-workers", "3"});
  {
    PasselProgram program(simulated, text_file());
    ASSERT_TRUE(trained(100)) << program.text();
    EXPECT_TRUE(program.workers().empty());
    program.signal(SIGTERM);
    const Finished stopped = program.wait();
    ASSERT_EQ(stopped.code, 143) << stopped.text;
  }
  ASSERT_LT(summary().at("tickets"), 3000);
  const Finished resumed = run_passel({"resume", run(), "--workers", "2"});
  ASSERT_EQ(resumed.code, 0) << resumed.text;

  Options real = train(options, "real");
  real.insert(real.end(), {"--epochs", "20000"});
  ASSERT_EQ(run_passel(real).code, 0);
  EXPECT_EQ(summary().at("param_hash"), summary("real").at("param_hash"));
}

TEST_F(SimulatedRun, VerifiesARealOneAndRepeatsARecordedOne) {
  ASSERT_EQ(run_passel(train({"--mode", "ordered", "--epochs", "2"})).code, 0);
  const Finished verified = run_passel({"verify", run(), "--simulate-workers", "4"});
  EXPECT_EQ(verified.code, 0) << verified.text;
  EXPECT_NE(verified.text.find("bit-identical"), std::string::npos) << verified.text;

  ASSERT_EQ(run_passel(train({"--mode", "recorded", "--epochs", "2"}, "recorded")).code, 0);
  const Finished replayed = run_passel({"replay", run("recorded"), "--simulate-workers", "2"});
  EXPECT_EQ(replayed.code, 0) << replayed.text;
  EXPECT_NE(replayed.text.find("2 simulated workers"), std::string::npos) << replayed.text;
}

TEST_F(SimulatedRun, IsRefusedInModesThatDependOnHowProcessesMeet) {
  for (const char* mode : {"hogwild", "recorded"}) {
    const Finished refused = run_passel(train({"--mode", mode, "--simulate-workers", "2"}));
    EXPECT_EQ(refused.code, 2) << refused.text;
    EXPECT_NE(refused.text.find(std::string("ordered or sync, got ") + mode), std::string::npos)
        << refused.text;
    EXPECT_FALSE(fs::exists(run()));
  }
}

}  // namespace
}  // namespace passel::testing
