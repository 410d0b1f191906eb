// The CUDA runtime itself, on the machine that runs this: with a GPU or without.
#include <gtest/gtest.h>

#include "passel/shm_cuda/ipc_probe.h"

namespace passel::shm {
namespace {

TEST(TheRealRuntime, SaysInWordsWhetherItsDeviceCanShare) {
  const IpcProbe probe = probe_ipc(0, false);
  EXPECT_NE(probe.verdict, IpcVerdict::kBroken) << probe.text;
  EXPECT_FALSE(probe.text.empty());
  EXPECT_EQ(probe.code == cudaSuccess, probe.shares() || probe.verdict == IpcVerdict::kUnsupported);
  RecordProperty("verdict", to_string(probe.verdict));
  std::printf("%s: %s\n", to_string(probe.verdict), probe.text.c_str());
}

}  // namespace
}  // namespace passel::shm
