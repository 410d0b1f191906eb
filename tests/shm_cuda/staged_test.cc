// Without CUDA IPC: the same calls, through pinned memory of the host.
#include "scene.h"

namespace passel::shm {
namespace {

using test::word;

/// Adds 1 to every buffer and sends it back.
void gpu_adds_one(WorkerContext& context) {
  const test::End self(context);
  auto in = self.queue(context, "in");
  auto out = self.queue(context, "out");
  if (!self.exchange->staged() || fake_cuda::pinned() != 1) {
    throw std::runtime_error("expected staging through memory that is pinned once");
  }
  self.for_each(in, [&](std::uint64_t number, DeviceBuffer& buffer) {
    fake_cuda::launch(self.stream, [at = buffer.data()] { ++word(at); });
    test::require(out.put(number, buffer, self.stream));
  });
  self.finish();
}
PASSEL_ENTRY(gpu_adds_one);

void gpu_hangs(WorkerContext& context) {
  const test::End self(context);
  auto in = self.queue(context, "in");
  DeviceBuffer buffer;
  std::uint64_t number = 0;
  test::require(in.get(number, buffer, self.stream));
  context.arena.get_array<std::atomic<std::uint64_t>>("words")[0].store(1);
  std::atomic<bool>(false).wait(false);
}
PASSEL_ENTRY(gpu_hangs);

class Staged : public test::Scene {
 protected:
  static constexpr std::uint64_t kRegion = 16 << 10;

  void SetUp() override {
    Scene::SetUp();
    // What must not be called.
    fake_cuda::fail("cudaIpcGetMemHandle", cudaErrorNotSupported);
    fake_cuda::fail("cudaIpcOpenMemHandle", cudaErrorNotSupported);
    fake_cuda::fail("cudaIpcGetEventHandle", cudaErrorNotSupported);
    fake_cuda::fail("cudaIpcOpenEventHandle", cudaErrorNotSupported);
    create({.processes = 2, .region_bytes = kRegion, .chunks = 16, .cuda_ipc = false});
    in_ = &add_queue("in", 1);
    out_ = &add_queue("out", 0);
  }
  test::Queue* in_ = nullptr;
  test::Queue* out_ = nullptr;
};

TEST_F(Staged, BuffersArriveWithTheValuesThatWereWrittenLate) {
  spawn(1, "gpu_adds_one");
  EXPECT_TRUE(exchange_->staged());
  for (std::uint64_t i = 0; i < 300; ++i) {
    DeviceBuffer buffer;
    allocate(buffer, 4096);
    fake_cuda::fill(stream_, buffer.data(), 512, i, std::chrono::microseconds(200));
    ASSERT_EQ(in_->put(i, buffer, stream_, test::patience()), DeviceStatus::kOk);
    DeviceBuffer returned;
    std::uint64_t number = 0;
    ASSERT_EQ(out_->get(number, returned, stream_, test::patience()), DeviceStatus::kOk);
    std::uint64_t seen = 0;
    fake_cuda::launch(stream_, [&] { seen = word(returned.data()); });
    cudaStreamSynchronize(stream_);
    ASSERT_EQ(number, i);
    ASSERT_EQ(seen, i + 1);
    ASSERT_EQ(exchange_->check(returned), DeviceStatus::kOk);
  }
  in_->close();
  expect_ends(1);
  cudaDeviceSynchronize();
  exchange_->collect();
  EXPECT_EQ(exchange_->bytes_in_use(), 0U);
  EXPECT_EQ(fake_cuda::totals().device_bytes, 0U);
}

TEST_F(Staged, MessagesAreNotWrittenOverWhileTheirCopyWaitsForTheReceiversStream) {
  constexpr std::uint64_t kCount = 200;
  const auto words = add_words(kCount + 1);
  spawn(1, "gpu_reads_slowly");  // each copy stands behind a slow kernel
  for (std::uint64_t i = 1; i <= kCount; ++i) {
    DeviceBuffer buffer;
    allocate(buffer, kRegion);  // its message takes all there is
    fake_cuda::fill(stream_, buffer.data(), kRegion / 8, i);
    ASSERT_EQ(in_->put(i, buffer, stream_, test::patience()), DeviceStatus::kOk);
  }
  in_->close();
  expect_ends(1);
  for (std::uint64_t i = 1; i <= kCount; ++i) ASSERT_EQ(words[i].load(), i);
}

TEST_F(Staged, MemoryThatAKilledReceiverHeldComesBack) {
  const auto words = add_words(1);
  spawn(1, "gpu_hangs");
  DeviceBuffer buffer;
  allocate(buffer, 4096);
  for (std::uint64_t i = 0; i < 3; ++i) {
    ASSERT_EQ(in_->put(i, buffer, stream_, test::patience()), DeviceStatus::kOk);
  }
  ASSERT_TRUE(Doorbell().wait([&] { return words[0].load() == 1; }, test::patience()));
  team_->supervisor.kill(0, SIGKILL);
  team_->next_exit();
  bury(1);
  exchange_->collect();
  EXPECT_EQ(exchange_->bytes_in_use(), 2U * 4096) << "two wait for a successor";
  buffer.reset();
  cudaDeviceSynchronize();
  EXPECT_EQ(fake_cuda::totals().device_bytes, 0U);
}

TEST_F(Staged, PinnedMemoryThatRunsOutIsWaitedForAndReported) {
  DeviceBuffer buffer;
  allocate(buffer, kRegion);
  ASSERT_EQ(in_->put(0, buffer, stream_, test::patience()), DeviceStatus::kOk);
  EXPECT_EQ(in_->put(1, buffer, stream_, after(std::chrono::milliseconds(1))),
            DeviceStatus::kTimeout);
  DeviceBuffer other;
  EXPECT_EQ(exchange_->allocate(kRegion + 1, stream_, other), DeviceStatus::kTooLarge);
}

TEST_F(Staged, BlocksForTheWholeRunAreRefusedWithWhatToDo) {
  EXPECT_THAT(test::error_of([&] { exchange_->add("parameters", 64); }),
              ::testing::HasSubstr("keep it in the arena and copy"));
}

}  // namespace
}  // namespace passel::shm
