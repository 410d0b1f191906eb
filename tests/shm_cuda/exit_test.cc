// The end of a process that has buffers: CUDA is not called once its own end may have begun.
#include <cstdlib>
#include <optional>

#include "passel/shm_cuda/pinned_memory.h"
#include "scene.h"

namespace passel::shm {
namespace {

/// Destroyed by exit(), in the reverse of this order.
std::optional<Arena> arena;
std::shared_ptr<DeviceExchange> exchange;
DeviceBuffer buffer;
PinnedMemory pinned;

void exit_with_live_buffers(bool cuda_ipc) {
  arena.emplace(Arena::create("exit", 8 << 20));
  const auto batch = arena->bytes(arena->add("batch", 4096, 4096));
  exchange = DeviceExchange::create(
      *arena, {.processes = 2, .region_bytes = 64 << 10, .cuda_ipc = cuda_ipc});
  pinned = PinnedMemory(batch);
  if (exchange->allocate(4096, nullptr, buffer) != DeviceStatus::kOk) std::exit(9);
  std::exit(0);
}

TEST(ExitDeathTest, WithLiveBuffersIsSilent) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(exit_with_live_buffers(true), ::testing::ExitedWithCode(0), "^$");
}

TEST(ExitDeathTest, WithLiveStagedBuffersIsSilent) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(exit_with_live_buffers(false), ::testing::ExitedWithCode(0), "^$");
}

}  // namespace
}  // namespace passel::shm
