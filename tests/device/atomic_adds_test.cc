// Updates that workers make at once of the same parameters on a GPU, over a CUDA runtime without
// one.
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include "cuda_gpus.h"
#include "passel/shm/worker.h"
#include "shm/support.h"
#include "shm_cuda/fake_cuda/fake_cuda.h"

namespace passel::device {
namespace {

constexpr std::uint32_t kWorkers = 4;
constexpr int kUpdates = 2000;
constexpr std::size_t kFloats = 300;

using Count = std::atomic<std::uint32_t>;

/// Adds one to each parameter with every update; with a momentum of 1, which is this worker's own,
/// the number of the update.
void count_up(const shm::WorkerContext& context, double momentum) {
  const WorkerPlace place = cuda_gpus().open(context.arena, context.slot);
  BlockMemory& memory = *place.memory;
  const std::span<float> values = memory.block("values", kFloats);
  const std::span<float> gradient = memory.scratch(kFloats);
  memory.write(std::vector<float>(kFloats, -1.0F), gradient);
  std::vector<float*> state;
  if (momentum != 0) {
    const std::span<float> buffer = memory.scratch(kFloats);
    memory.write(std::vector<float>(kFloats), buffer);
    state.push_back(buffer.data());
  }
  Count& there = *context.arena.get<Count>("there");
  ++there;
  const shm::Deadline deadline = shm::test::patience();
  while (there.load() < kWorkers) {
    if (shm::Clock::now() > deadline) throw std::runtime_error("the others did not come");
    std::this_thread::yield();
  }
  const kernels::UpdateOptions options{.rule = kernels::UpdateRule::kSgd, .momentum = momentum};
  for (int step = 1; step <= kUpdates; ++step) {
    memory.apply_update(options, {.lr = 1, .step = step}, {values.data(), state}, gradient.data(),
                        values.data(), state, kFloats);
  }
  memory.finish();
}

void counts_up(shm::WorkerContext& context) {
  count_up(context, 0);
}
PASSEL_ENTRY(counts_up);

void counts_up_faster(shm::WorkerContext& context) {
  count_up(context, 1);
}
PASSEL_ENTRY(counts_up_faster);

/// The parameters after all workers' updates.
std::vector<float> after(const char* entry) {
  fake_cuda::reset();
  shm::Arena arena = shm::Arena::create("gpu", 8 << 20);
  arena.construct<Count>("there");
  std::vector<float> values(kFloats, -1);
  {
    const auto memory = cuda_gpus().lay_out(
        arena,
        {.ordinals = {0}, .workers = kWorkers, .block_bytes = 64 << 10, .atomic_adds = true});
    const std::span<float> block = memory->block("values", kFloats);
    shm::test::Team team(arena, {.slots = kWorkers, .entry = entry});
    for (std::uint32_t slot = 0; slot < kWorkers; ++slot) team.supervisor.spawn(slot);
    for (std::uint32_t i = 0; i < kWorkers; ++i) {
      const shm::WorkerExit exit = team.next_exit();
      EXPECT_FALSE(exit.failed()) << exit.describe();
    }
    memory->read(block, values);
  }
  EXPECT_EQ(fake_cuda::violations(), 0U) << fake_cuda::violation_text();
  EXPECT_EQ(fake_cuda::totals().device_bytes, 0U);
  return values;
}

// All sums are whole numbers that a float holds.
TEST(AtomicAdds, LoseNoUpdateOfManyProcesses) {
  EXPECT_EQ(after("counts_up"), std::vector<float>(kFloats, kWorkers * kUpdates));
}

TEST(AtomicAdds, LoseNothingOfRulesWithAStateOfEachProcess) {
  constexpr int kEach = kUpdates * (kUpdates + 1) / 2;
  EXPECT_EQ(after("counts_up_faster"), std::vector<float>(kFloats, kWorkers * kEach));
}

}  // namespace
}  // namespace passel::device
