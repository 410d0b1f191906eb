// Values written late on one process's stream and read on another's.
#include <random>

#include "scene.h"
#include "support/stress.h"

namespace passel::shm {
namespace {

using test::word;

/// Gets buffers, reads each on its stream, and leaves what it read in the words.
void gpu_reads(WorkerContext& context) {
  const test::End self(context);
  auto in = self.queue(context, "in");
  const auto words = context.arena.get_array<std::atomic<std::uint64_t>>("words");
  self.for_each(in, [&](std::uint64_t index, DeviceBuffer& buffer) {
    fake_cuda::launch(self.stream, [&, index, at = buffer.data()] {
      words[index + 1].store(word(at));
      words[0].store(index);
      words[0].notify_all();  // of this process; the parent looks again by itself
    });
  });
  self.finish();
}
PASSEL_ENTRY(gpu_reads);

class LateValues : public test::Scene {
 protected:
  /// Writes 1, 2, ... late and sends each at once; how many the other side read wrong.
  std::uint64_t wrong_values(std::uint64_t count, std::chrono::microseconds most, bool one_buffer) {
    create({.processes = 2, .region_bytes = 64 << 10, .chunks = 16, .events = 8});
    auto& queue = add_queue("in", 1);
    const auto words = add_words(count + 2);
    spawn(1, "gpu_reads");
    std::mt19937 random(83);
    DeviceBuffer kept;
    allocate(kept, 4096);
    for (std::uint64_t i = 1; i <= count; ++i) {
      DeviceBuffer fresh;
      if (!one_buffer) allocate(fresh, 4096);
      const DeviceBuffer& buffer = one_buffer ? kept : fresh;
      const std::chrono::microseconds delay(random() % static_cast<unsigned>(most.count()));
      fake_cuda::fill(stream_, buffer.data(), 512, i, delay);
      EXPECT_EQ(queue.put(i, buffer, stream_, test::patience()), DeviceStatus::kOk);
      // The same buffer is not written again before the other side has read it.
      if (one_buffer) wait_for(words[0], i);
    }
    queue.close();
    expect_ends(1);
    std::uint64_t wrong = 0;
    for (std::uint64_t i = 1; i <= count; ++i) wrong += words[i + 1].load() != i;
    return wrong;
  }

  static void wait_for(const Word& word, std::uint64_t value) {
    for (const Deadline deadline = test::patience(); word.load() < value;) {
      ASSERT_LT(Clock::now(), deadline);
      cpu_relax();
    }
  }
};

const std::uint64_t kValues = testing::stress_size(2000, 20'000);

TEST_F(LateValues, AreReadRightFromABufferThatIsSentAgainAndAgain) {
  EXPECT_EQ(wrong_values(kValues, std::chrono::microseconds(300), true), 0U);
}

TEST_F(LateValues, AreReadRightFromBuffersThatAreUsedAgain) {
  EXPECT_EQ(wrong_values(kValues, std::chrono::microseconds(300), false), 0U);
}

TEST_F(LateValues, AreReadWrongWithoutTheWait) {
  fake_cuda::ignore_waits(true);
  EXPECT_GT(wrong_values(20, std::chrono::milliseconds(40), true), 0U)
      << "the two tests above could not fail";
}

/// Reads slowly, and lets go of the buffer before it has begun.
void gpu_reads_slowly(WorkerContext& context) {
  const test::End self(context);
  auto in = self.queue(context, "in");
  const auto words = context.arena.get_array<std::atomic<std::uint64_t>>("words");
  std::array<std::uint64_t, 1> rest{};
  self.for_each(in, [&](std::uint64_t index, DeviceBuffer& buffer) {
    fake_cuda::fill(self.stream, rest.data(), 1, 0, std::chrono::milliseconds(1));
    fake_cuda::launch(self.stream,
                      [&, index, at = buffer.data()] { words[index].store(word(at)); });
  });
  self.finish();
}
PASSEL_ENTRY(gpu_reads_slowly);

TEST_F(LateValues, AreNotWrittenOverWhileAnotherProcessStillReads) {
  constexpr std::uint64_t kCount = 200;
  create({.processes = 2, .region_bytes = 4096, .chunks = 16, .events = 4});
  auto& queue = add_queue("in", 1);
  const auto words = add_words(kCount + 1);
  spawn(1, "gpu_reads_slowly");
  for (std::uint64_t i = 1; i <= kCount; ++i) {
    DeviceBuffer buffer;
    allocate(buffer, 4096);  // all there is: the reader has let go, its kernel has not run
    fake_cuda::fill(stream_, buffer.data(), 512, i);
    ASSERT_EQ(queue.put(i, buffer, stream_, test::patience()), DeviceStatus::kOk);
  }
  queue.close();
  expect_ends(1);
  for (std::uint64_t i = 1; i <= kCount; ++i) ASSERT_EQ(words[i].load(), i);
}

}  // namespace
}  // namespace passel::shm
