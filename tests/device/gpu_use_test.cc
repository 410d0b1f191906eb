// What workers take of a GPU, and say of it in event `memory`.
#include "gpu_run.h"

namespace passel::testing {
namespace {

class GpuUse : public GpuRun {
 protected:
  /// The events of three borders, of one worker.
  std::vector<nlohmann::json> borders(const Options& more, const std::string& name) {
    hash_of(join({"--device", "cuda", "--workers", "1", "--epochs", "1", "--max-tickets", "9",
                  "--checkpoint-interval", "3"},
                 more),
            name);
    std::vector<nlohmann::json> found;
    for (const auto& event : events(run(name))) {
      if (event.at("event") == "memory") found.push_back(event);
    }
    EXPECT_EQ(found.size(), 3U);
    return found;
  }
};

TEST_F(GpuUse, OfWorkersCachesStaysAsItIs) {
  for (const auto& border : borders({}, "run")) {
    EXPECT_EQ(border.at("cache_emptied"), 0);
    EXPECT_EQ(border.at("reserved_bytes"), 4096);
  }
}

TEST_F(GpuUse, OfWorkersCachesEndsAtEachBorderIfThatIsAskedFor) {
  for (const char* place : {"--no-cuda-ipc", "--mode=ordered"}) {
    const auto all = borders({"--empty-cache", place}, place);
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(all[i].at("cache_emptied"), i) << place;
      EXPECT_EQ(all[i].at("reserved_bytes"), i == 0 ? 4096 : 1000) << place;
    }
  }
}

TEST_F(GpuUse, IsTimedByEventsOfTheDevice) {
  for (const char* place : {"--no-cuda-ipc", "--mode=ordered"}) {
    double before = 0;
    for (const auto& border : borders({place}, place)) {
      const double seconds = border.at("computed_seconds");
      EXPECT_GT(seconds, before) << place;
      before = seconds;
    }
    EXPECT_LT(before, 100) << place << ": longer than the run may take";
  }
}

TEST_F(GpuUse, ComesToTheSameBitsWhereEachLaunchIsWaitedFor) {
  const Options options = {"--mode", "ordered", "--workers", "2", "--epochs", "2"};
  const std::string expected = hash_of(options, "cpu");
  const Variable blocking("CUDA_LAUNCH_BLOCKING", "1");
  for (const char* place : {"--device=cuda", "--device=cuda:0,1"}) {
    EXPECT_EQ(hash_of(join(options, {place}), place), expected) << place;
  }
}

}  // namespace
}  // namespace passel::testing
