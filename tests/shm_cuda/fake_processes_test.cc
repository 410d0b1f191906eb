// The rules of CUDA that take two processes.
#include <signal.h>

#include "passel/shm_cuda/device_arena.h"
#include "scene.h"

namespace passel::shm {
namespace {

void gpu_opens_and_waits(WorkerContext& context) {
  const auto words = context.arena.get_array<std::atomic<std::uint64_t>>("words");
  const auto memory = DeviceArena::open(context.arena, "memory", 1);
  words[0].store(memory.size() == 4096 ? 1 : 2);
  std::atomic<bool>(false).wait(false);
}
PASSEL_ENTRY(gpu_opens_and_waits);

/// Opens what words[1..] hold as a handle: with the wrong device current, twice, after its end.
void gpu_breaks_rules(WorkerContext& context) {
  const auto words = context.arena.get_array<std::atomic<std::uint64_t>>("words");
  const auto handle = *context.arena.get<cudaIpcMemHandle_t>("handle");
  void* data = nullptr;
  cudaSetDevice(1);
  words[0].store(cudaIpcOpenMemHandle(&data, handle, 0));
  cudaSetDevice(0);
  words[1].store(cudaIpcOpenMemHandle(&data, handle, 0));
  words[2].store(cudaIpcOpenMemHandle(&data, handle, 0));
  words[3].store(cudaFree(data));
  words[4].store(cudaIpcCloseMemHandle(data));
}
PASSEL_ENTRY(gpu_breaks_rules);

class FakeProcesses : public test::Scene {};

TEST_F(FakeProcesses, MemoryUnderAnOpenHandleIsNotFreedByTheArenaAndIsReportedByTheFake) {
  DeviceArena memory = DeviceArena::create(arena_, "memory", 0, 4096);
  const auto words = add_words(1);
  spawn(1, "gpu_opens_and_waits");
  ASSERT_TRUE(Doorbell().wait([&] { return words[0].load() == 1; }, test::patience()));
  EXPECT_EQ(fake_cuda::totals().open_memory, 1U);
  EXPECT_THAT(test::error_of([&] { memory.close(); }), ::testing::HasSubstr("still has it open"));
  EXPECT_EQ(cudaFree(memory.data()), cudaSuccess) << "as a program without the arena would";
  EXPECT_THAT(fake_cuda::violation_text(), ::testing::HasSubstr("freed under an open handle"));
  fake_cuda::reset();
  team_->supervisor.kill(0, SIGKILL);
  team_->next_exit();
  EXPECT_EQ(fake_cuda::totals().open_memory, 0U) << "the system closes what the dead had open";
}

TEST_F(FakeProcesses, AHandleTakesItsDeviceAndIsOpenedOnce) {
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 4096), cudaSuccess);
  ASSERT_EQ(cudaIpcGetMemHandle(arena_.construct<cudaIpcMemHandle_t>("handle"), memory),
            cudaSuccess);
  const auto words = add_words(5);
  spawn(1, "gpu_breaks_rules");
  EXPECT_FALSE(team_->next_exit().failed());
  EXPECT_EQ(words[0].load(), cudaErrorInvalidDevice);
  EXPECT_EQ(words[1].load(), cudaSuccess);
  EXPECT_EQ(words[2].load(), cudaSuccess);
  EXPECT_THAT(fake_cuda::violation_text(), ::testing::HasSubstr("opened device memory twice"));
  EXPECT_EQ(words[3].load(), cudaErrorInvalidValue) << "it is the exporter's to free";
  EXPECT_EQ(words[4].load(), cudaSuccess);
  fake_cuda::reset();
  cudaFree(memory);
}

TEST_F(FakeProcesses, MemoryOfAnExporterThatIsGoneIsATypedError) {
  DeviceArena memory = DeviceArena::create(arena_, "memory", 0, 4096);
  memory.close();  // as far as a worker can tell
  add_words(1);
  spawn(1, "gpu_opens_and_waits");
  const WorkerExit exit = team_->next_exit();
  EXPECT_TRUE(exit.failed());
  EXPECT_THAT(exit.text, ::testing::HasSubstr("open the parent's memory on device GPU-"));
  EXPECT_THAT(exit.text, ::testing::HasSubstr("(400)"));
}

}  // namespace
}  // namespace passel::shm
