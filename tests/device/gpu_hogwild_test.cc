// What mode hogwild does on GPUs alone: --atomic-adds.
#include <cmath>

#include "gpu_run.h"

namespace passel::testing {
namespace {

const Options kAtomic = {"--device", "cuda", "--atomic-adds"};

class GpuHogwild : public GpuRun {
 protected:
  std::vector<double> losses(const std::string& name) const {
    std::vector<double> found;
    for (const auto& event : events(run(name))) {
      if (event.at("event") == "train") found.push_back(event.at("loss"));
    }
    return found;
  }
};

TEST_F(GpuHogwild, WithAtomicAddsIsTheCpusButForTheRoundingOfOneMoreSum) {
  for (const Options& rule :
       {Options{"--optimizer", "adam"}, Options{"--optimizer", "adamw", "--weight-decay", "0.1"},
        Options{"--optimizer", "sgd", "--momentum", "0.9"}}) {
    SCOPED_TRACE(rule[1]);
    const Options options = join(rule, {"--workers", "1", "--epochs", "2", "--log-interval", "1"});
    const std::string cpu = hash_of(options, "cpu-" + rule[1]);
    EXPECT_NE(hash_of(join(options, kAtomic), rule[1]), cpu) << "it makes no difference";
    const std::vector<double> expected = losses("cpu-" + rule[1]), got = losses(rule[1]);
    ASSERT_EQ(got.size(), expected.size());
    ASSERT_GE(got.size(), 20U);
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-3) << i;
  }
}

TEST_F(GpuHogwild, WithAtomicAddsLosesNoTicketWhenWorkersAreKilled) {
  expect_no_ticket_lost(kAtomic);
}

TEST_F(GpuHogwild, AddsNothingAtomicallyWhereProcessesCannotShareTheGpusMemory) {
  const Variable fails("FAKE_CUDA_FAILS", "cudaIpcOpenMemHandle");
  const Finished finished = run_it(kAtomic, "run");
  EXPECT_EQ(finished.code, 2) << finished.text;
  EXPECT_NE(finished.text.find("atomic_adds: expected false where the parameters are in the memory "
                               "of the host"),
            std::string::npos)
      << finished.text;
  EXPECT_NE(finished.text.find("CUDA IPC is refused"), std::string::npos) << finished.text;
  EXPECT_FALSE(std::filesystem::exists(run()));
}

}  // namespace
}  // namespace passel::testing
