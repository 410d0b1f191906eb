#include "passel/shm_cuda/cuda_error.h"
#include "passel/shm_cuda/pinned_memory.h"
#include "scene.h"

namespace passel::shm {
namespace {

TEST(PinnedMemory, IsUnpinnedHoweverOftenItIsPinned) {
  fake_cuda::reset();
  Arena arena = Arena::create("pinned", 64 << 10);
  const auto range = arena.bytes(arena.add("batch", 16 << 10, 4096));
  for (int i = 0; i < 1000; ++i) {
    const PinnedMemory pinned(range);
    ASSERT_EQ(fake_cuda::pinned(), 1U);
  }
  EXPECT_EQ(fake_cuda::pinned(), 0U);
}

TEST(PinnedMemory, ThatIsRefusedNamesTheBytesAndTheLimit) {
  fake_cuda::reset();
  Arena arena = Arena::create("pinned", 64 << 10);
  const auto range = arena.bytes(arena.add("batch", 16 << 10, 4096));
  const PinnedMemory pinned(range);
  const std::string text = test::error_of([&] { PinnedMemory{range}; });
  EXPECT_THAT(text, ::testing::HasSubstr("pin 16384 bytes"));
  EXPECT_THAT(text, ::testing::HasSubstr("ulimit -l"));
}

TEST(PinnedMemory, TakesABatchToTheDeviceWithoutWaitingForIt) {
  fake_cuda::reset();
  Arena arena = Arena::create("pinned", 64 << 10);
  const auto batch = arena.bytes(arena.add("batch", 4096, 4096));
  const PinnedMemory pinned(batch);
  test::word(batch.data()) = 5;
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 4096), cudaSuccess);
  const cudaStream_t stream = test::make_stream();
  std::atomic<bool> may_copy{false};
  fake_cuda::launch(stream, [&] { may_copy.wait(false); });
  // Would never return if it waited for the kernel before it.
  ASSERT_EQ(cudaMemcpyAsync(memory, batch.data(), 4096, cudaMemcpyHostToDevice, stream),
            cudaSuccess);
  may_copy.store(true);
  may_copy.notify_all();
  cudaStreamSynchronize(stream);
  EXPECT_EQ(test::word(static_cast<std::byte*>(memory)), 5U);
  cudaStreamDestroy(stream);
  cudaFree(memory);
}

}  // namespace
}  // namespace passel::shm
