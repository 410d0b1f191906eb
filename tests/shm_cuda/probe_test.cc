#include "passel/shm_cuda/cuda_error.h"
#include "passel/shm_cuda/ipc_probe.h"
#include "scene.h"

namespace passel::shm {
namespace {

class Probe : public ::testing::Test {
 protected:
  void SetUp() override {
    fake_cuda::reset();
    before_ = fake_cuda::totals();
  }
  void TearDown() override {
    const auto after = fake_cuda::totals();
    EXPECT_EQ(after.allocations, before_.allocations);
    EXPECT_EQ(after.events, before_.events);
    EXPECT_EQ(after.open_memory, 0U);
    EXPECT_EQ(after.open_events, 0U);
    fake_cuda::reset();
  }
  fake_cuda::Totals before_;
};

TEST_F(Probe, FindsSharingWhereASecondProcessReadsTheValue) {
  const std::uint64_t calls = fake_cuda::calls();
  const IpcProbe here = probe_ipc(0, false);
  const std::uint64_t calls_here = fake_cuda::calls() - calls;
  EXPECT_TRUE(here.shares()) << here.text;
  const IpcProbe probe = probe_ipc(1);
  EXPECT_TRUE(probe.shares()) << probe.text;
  EXPECT_TRUE(probe.computes());
  EXPECT_GT(fake_cuda::calls() - calls, 2 * calls_here) << "there was no second process";
}

TEST_F(Probe, SaysThatThereIsNoDriver) {
  fake_cuda::set_driver(0);
  const IpcProbe probe = probe_ipc(0);
  EXPECT_EQ(probe.verdict, IpcVerdict::kNoDriver);
  EXPECT_FALSE(probe.computes());
  EXPECT_THAT(probe.text, ::testing::HasSubstr("no NVIDIA driver"));
}

TEST_F(Probe, SaysThatThereIsNoSuchDevice) {
  EXPECT_EQ(probe_ipc(2).verdict, IpcVerdict::kNoDevice);
  EXPECT_EQ(probe_ipc(-1).verdict, IpcVerdict::kNoDevice);
  fake_cuda::set_devices(0);
  EXPECT_EQ(probe_ipc(0).verdict, IpcVerdict::kNoDevice);
}

TEST_F(Probe, SaysThatTheDeviceHasNoIpcAndWhatKindOfMachineItIs) {
  fake_cuda::set_ipc_events(false);
  fake_cuda::set_integrated(true);
  const IpcProbe probe = probe_ipc(0);
  EXPECT_EQ(probe.verdict, IpcVerdict::kUnsupported);
  EXPECT_TRUE(probe.computes()) << "staging is possible";
  EXPECT_THAT(probe.text, ::testing::HasSubstr("Tegra"));
}

struct Case {
  const char* function;
  cudaError_t code;
  IpcVerdict verdict;
};

class ProbeFailure : public Probe, public ::testing::WithParamInterface<Case> {};

TEST_P(ProbeFailure, HasItsReason) {
  fake_cuda::fail(GetParam().function, GetParam().code);
  const IpcProbe probe = probe_ipc(0);
  EXPECT_EQ(probe.verdict, GetParam().verdict) << to_string(probe.verdict);
  EXPECT_EQ(probe.code, GetParam().code);
  EXPECT_THAT(probe.text, ::testing::HasSubstr(cuda_text(GetParam().code)));
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "an error that was reported is left to others";
}

INSTANTIATE_TEST_SUITE_P(
    OfTheRuntime, ProbeFailure,
    ::testing::Values(
        Case{"cudaGetDeviceCount", cudaErrorInsufficientDriver, IpcVerdict::kOldDriver},
        Case{"cudaGetDeviceCount", cudaErrorStubLibrary, IpcVerdict::kNoDriver},
        Case{"cudaGetDeviceCount", cudaErrorSystemDriverMismatch, IpcVerdict::kOldDriver},
        Case{"cudaGetDeviceCount", cudaErrorSystemNotReady, IpcVerdict::kBroken},
        Case{"cudaFree", cudaErrorDevicesUnavailable, IpcVerdict::kBusy},
        Case{"cudaIpcGetMemHandle", cudaErrorNotSupported, IpcVerdict::kUnsupported},
        Case{"cudaIpcGetMemHandle", cudaErrorInvalidValue, IpcVerdict::kRefused},
        Case{"cudaIpcGetEventHandle", cudaErrorNotSupported, IpcVerdict::kUnsupported},
        Case{"cudaEventCreateWithFlags", cudaErrorNotPermitted, IpcVerdict::kRefused}));

TEST_F(Probe, FindsOutThatOthersMayNotOpenWhatThisProcessExports) {
  for (const char* const function : {"cudaIpcOpenMemHandle", "cudaIpcOpenEventHandle"}) {
    fake_cuda::reset();
    fake_cuda::fail_elsewhere(function, cudaErrorMapBufferObjectFailed);
    const IpcProbe probe = probe_ipc(0);
    EXPECT_EQ(probe.verdict, IpcVerdict::kRefused) << function;
    EXPECT_EQ(probe.code, cudaErrorMapBufferObjectFailed);
    EXPECT_THAT(probe.text, ::testing::HasSubstr("containers"));
    EXPECT_TRUE(probe.computes());
  }
}

}  // namespace
}  // namespace passel::shm
