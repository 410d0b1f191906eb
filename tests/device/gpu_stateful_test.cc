// Stateful runs on GPUs: states travel between the lanes in the arena and the device.
#include <signal.h>

#include <random>

#include "gpu_run.h"
#include "support/stress.h"

namespace passel::testing {
namespace {

/// A mode that promises the same bits, and where the parameters are.
struct StatefulPlace {
  const char* name;
  Options mode;
  Options place;
};

// GoogleTest looks for this name.
// NOLINTNEXTLINE(readability-identifier-naming)
void PrintTo(const StatefulPlace& place, std::ostream* out) {
  *out << place.name;
}

class GpuStateful : public GpuRun, public ::testing::WithParamInterface<StatefulPlace> {
 protected:
  static Options stateful(const Options& more) {
    return join({"--dataset", "adding-stream", "--stateful", "--lanes", "4", "--adding-steps", "6",
                 "--hidden-size", "8", "--batch-size", "250", "--epochs", "1000"},
                more);
  }
  static Options on_cpu(const Options& more) { return stateful(join(more, GetParam().mode)); }
  static Options on_gpu(const Options& more) { return join(on_cpu(more), GetParam().place); }
};

TEST_P(GpuStateful, RunComesToTheBitsOfTheCpu) {
  const Options tickets = {"--max-tickets", "200"};
  const std::string expected = hash_of(on_cpu(tickets), "cpu");
  for (const char* workers : {"1", "3"}) {
    EXPECT_EQ(hash_of(join(on_gpu(tickets), {"--workers", workers}), workers), expected) << workers;
  }
  EXPECT_EQ(summary("1").at("test_loss"), summary("cpu").at("test_loss"));
}

TEST_P(GpuStateful, RunComesToTheSameBitsAfterKillsAndAStop) {
  const int kills = stress_size(3, 40);
  const std::string tickets = std::to_string(300 * kills);
  Options options = join(on_gpu({"--max-tickets", tickets}),
                         {"--workers", "3", "--log-interval", "5", "--max-respawns", "100000"});
  PasselProgram program(train(options), text_file());
  std::mt19937 random(5);
  std::int64_t reached = 0;
  for (int i = 0; i < kills; ++i) {
    reached += std::uniform_int_distribution(10, 80)(random);
    ASSERT_TRUE(trained(reached)) << program.text();
    const auto workers = program.workers();
    if (!workers.empty()) kill(workers[random() % workers.size()], SIGKILL);
  }
  program.signal(SIGTERM);
  const Finished stopped = program.wait(std::chrono::seconds(stress_size(100, 600)));
  ASSERT_EQ(stopped.code, 143) << stopped.text;
  EXPECT_EQ(stopped.text.find("fake CUDA"), std::string::npos) << stopped.text;
  const Finished resumed = run_passel({"resume", run()}, std::chrono::seconds(100));
  ASSERT_EQ(resumed.code, 0) << resumed.text;
  EXPECT_EQ(summary().at("param_hash"), hash_of(on_cpu({"--max-tickets", tickets}), "cpu"));
}

INSTANTIATE_TEST_SUITE_P(
    Of, GpuStateful,
    ::testing::Values(StatefulPlace{"OrderedShared", {"--mode=ordered"}, {"--device=cuda"}},
                      StatefulPlace{"OrderedOnTwoGpus", {"--mode=ordered"}, {"--device=cuda:0,1"}},
                      StatefulPlace{"SyncShared", {"--mode=sync"}, {"--device=cuda"}},
                      StatefulPlace{
                          "SyncStaged", {"--mode=sync"}, {"--device=cuda", "--no-cuda-ipc"}}),
    [](const auto& place) { return place.param.name; });

using GpuStatefulRun = GpuRun;

TEST_F(GpuStatefulRun, OfHogwildIsTheCpusWithOneWorker) {
  const Options options = {"--dataset", "adding-stream", "--stateful", "--adding-steps",
                           "6",         "--workers",     "1",          "--max-tickets",
                           "100"};
  const std::string expected = hash_of(options, "cpu");
  EXPECT_EQ(hash_of(join(options, {"--device", "cuda"}), "shared"), expected);
  EXPECT_EQ(hash_of(join(options, {"--device", "cuda:0,1"}), "staged"), expected);
}

}  // namespace
}  // namespace passel::testing
