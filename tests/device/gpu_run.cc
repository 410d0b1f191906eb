#include "gpu_run.h"

#include <signal.h>

namespace passel::testing {

void GpuRun::expect_no_ticket_lost(const Options& more) {
  PasselProgram program(
      long_train(join(more, {"--workers", "3", "--max-tickets", "3000", "--max-respawns", "1000"})),
      text_file());
  for (int kills = 1; kills <= 3; ++kills) {
    ASSERT_TRUE(trained(300 * kills)) << program.text();
    const auto workers = program.workers();
    if (!workers.empty()) kill(workers[0], SIGKILL);
  }
  const Finished finished = program.wait();
  ASSERT_EQ(finished.code, 0) << finished.text;
  EXPECT_EQ(finished.text.find("fake CUDA"), std::string::npos) << finished.text;
  EXPECT_EQ(summary().at("tickets"), 3000);
  EXPECT_GE(summary().at("respawns"), 1);
  EXPECT_GT(summary().at("test_accuracy"), 0.1);
}

}  // namespace passel::testing
