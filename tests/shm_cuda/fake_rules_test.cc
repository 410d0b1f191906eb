// The rules of CUDA that the fake runtime enforces inside one process.
#include "scene.h"

namespace passel::shm {
namespace {

class FakeRules : public ::testing::Test {
 protected:
  void SetUp() override { fake_cuda::reset(); }
  void TearDown() override { fake_cuda::reset(); }

  static cudaEvent_t make_event(unsigned flags) {
    cudaEvent_t event = nullptr;
    EXPECT_EQ(cudaEventCreateWithFlags(&event, flags), cudaSuccess);
    return event;
  }
  static constexpr unsigned kInterprocess = cudaEventInterprocess | cudaEventDisableTiming;
};

TEST_F(FakeRules, AHandleCannotBeOpenedByItsExporter) {
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 4096), cudaSuccess);
  cudaIpcMemHandle_t memory_handle{};
  ASSERT_EQ(cudaIpcGetMemHandle(&memory_handle, memory), cudaSuccess);
  void* opened = nullptr;
  EXPECT_EQ(cudaIpcOpenMemHandle(&opened, memory_handle, cudaIpcMemLazyEnablePeerAccess),
            cudaErrorDeviceUninitialized);
  const cudaEvent_t event = make_event(kInterprocess);
  cudaIpcEventHandle_t event_handle{};
  ASSERT_EQ(cudaIpcGetEventHandle(&event_handle, event), cudaSuccess);
  cudaEvent_t opened_event = nullptr;
  EXPECT_EQ(cudaIpcOpenEventHandle(&opened_event, event_handle), cudaErrorDeviceUninitialized);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
}

TEST_F(FakeRules, AHandleOfFreedMemoryOrOfNoneIsRefused) {
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 4096), cudaSuccess);
  cudaIpcMemHandle_t handle{};
  ASSERT_EQ(cudaIpcGetMemHandle(&handle, memory), cudaSuccess);
  ASSERT_EQ(cudaFree(memory), cudaSuccess);
  void* opened = nullptr;
  EXPECT_EQ(cudaIpcOpenMemHandle(&opened, handle, 0), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaIpcOpenMemHandle(&opened, {}, 0), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(memory), cudaErrorInvalidValue) << "freed twice";
}

TEST_F(FakeRules, OnlyInterprocessEventsCanBeExported) {
  const cudaEvent_t event = make_event(cudaEventDisableTiming);
  cudaIpcEventHandle_t handle{};
  EXPECT_EQ(cudaIpcGetEventHandle(&handle, event), cudaErrorInvalidResourceHandle);
  cudaEventDestroy(event);
  cudaEvent_t timing = nullptr;
  EXPECT_EQ(cudaEventCreateWithFlags(&timing, cudaEventInterprocess), cudaErrorInvalidValue);
}

TEST_F(FakeRules, AnEventOfAnotherDeviceCannotBeRecorded) {
  const cudaEvent_t event = make_event(kInterprocess);
  cudaSetDevice(1);
  const cudaStream_t other = test::make_stream();
  EXPECT_EQ(cudaEventRecord(event, other), cudaErrorInvalidResourceHandle);
  cudaStreamDestroy(other);
  cudaSetDevice(0);
  cudaEventDestroy(event);
  EXPECT_EQ(cudaEventRecord(event, nullptr), cudaErrorInvalidResourceHandle) << "destroyed";
}

TEST_F(FakeRules, AWaitForAnEventThatWasNeverRecordedIsReported) {
  const cudaEvent_t event = make_event(kInterprocess);
  EXPECT_EQ(cudaStreamWaitEvent(nullptr, event, 0), cudaSuccess);
  EXPECT_EQ(fake_cuda::violations(), 1U);
  EXPECT_THAT(fake_cuda::violation_text(), ::testing::HasSubstr("never recorded"));
  cudaEventDestroy(event);
}

TEST_F(FakeRules, MemoryOfAStreamsPoolCannotBeExported) {
  void* memory = nullptr;
  ASSERT_EQ(cudaMallocAsync(&memory, 4096, nullptr), cudaSuccess);
  cudaIpcMemHandle_t handle{};
  EXPECT_EQ(cudaIpcGetMemHandle(&handle, memory), cudaErrorInvalidValue);
  cudaFreeAsync(memory, nullptr);
  cudaDeviceSynchronize();
  EXPECT_EQ(fake_cuda::totals().allocations, 0U);
}

TEST_F(FakeRules, StreamsAreAsynchronousAndEventsOrderThem) {
  std::uint64_t value = 0;
  const cudaStream_t writer = test::make_stream();
  const cudaStream_t reader = test::make_stream();
  const cudaEvent_t event = make_event(cudaEventDisableTiming);
  fake_cuda::fill(writer, &value, 1, 7, std::chrono::milliseconds(20));
  ASSERT_EQ(cudaEventRecord(event, writer), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady) << "the kernel takes 20 ms";
  ASSERT_EQ(cudaStreamWaitEvent(reader, event, 0), cudaSuccess);
  std::uint64_t seen = 0;
  fake_cuda::launch(reader, [&] { seen = value; });
  cudaStreamSynchronize(reader);
  EXPECT_EQ(seen, 7U);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  cudaEventDestroy(event);
  cudaStreamDestroy(writer);
  cudaStreamDestroy(reader);
}

TEST_F(FakeRules, LaunchesAreWaitedForIfTheEnvironmentAsksForIt) {
  std::uint64_t value = 0;
  setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
  fake_cuda::fill(nullptr, &value, 1, 7, std::chrono::milliseconds(5));
  unsetenv("CUDA_LAUNCH_BLOCKING");
  EXPECT_EQ(value, 7U);
}

TEST_F(FakeRules, OnlyEventsMadeForItTellTheTimeBetweenThem) {
  const cudaEvent_t begin = make_event(cudaEventDefault), end = make_event(cudaEventDefault);
  const cudaEvent_t untimed = make_event(cudaEventDisableTiming);
  float ms = -1;
  EXPECT_EQ(cudaEventElapsedTime(&ms, begin, end), cudaErrorInvalidResourceHandle)
      << "never recorded";
  std::uint64_t value = 0;
  const cudaStream_t stream = test::make_stream();
  ASSERT_EQ(cudaEventRecord(begin, stream), cudaSuccess);
  fake_cuda::fill(stream, &value, 1, 7, std::chrono::milliseconds(20));
  ASSERT_EQ(cudaEventRecord(end, stream), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(untimed, stream), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&ms, begin, end), cudaErrorNotReady) << "the kernel takes 20 ms";
  cudaStreamSynchronize(stream);
  ASSERT_EQ(cudaEventElapsedTime(&ms, begin, end), cudaSuccess);
  EXPECT_GE(ms, 20);
  EXPECT_EQ(cudaEventElapsedTime(&ms, begin, untimed), cudaErrorInvalidResourceHandle);
  for (const cudaEvent_t event : {begin, end, untimed}) cudaEventDestroy(event);
  cudaStreamDestroy(stream);
}

}  // namespace
}  // namespace passel::shm
