// Processes that come when the sender has gone.
#include "scene.h"

namespace passel::shm {
namespace {

using test::word;

constexpr std::uint64_t kBytes = 4096;

/// The first time it sends a buffer, drops all it has and ends; as its own successor it writes over
/// all the memory that it can get.
void send_once(WorkerContext& context) {
  const auto words = context.arena.get_array<std::atomic<std::uint64_t>>("words");
  const test::End self(context);
  if (words[0].fetch_add(1) == 0) {
    auto out = self.queue(context, "to 2");
    DeviceBuffer buffer;
    test::require(self.exchange->allocate(kBytes, self.stream, buffer));
    fake_cuda::fill(self.stream, buffer.data(), kBytes / 8, 77, std::chrono::milliseconds(5));
    test::require(out.put(0, buffer, self.stream));
  } else {
    std::vector<DeviceBuffer> all(1);
    while (self.exchange->allocate(kBytes, self.stream, all.back()) == DeviceStatus::kOk) {
      fake_cuda::fill(self.stream, all.back().data(), kBytes / 8, 99);
      all.emplace_back();
    }
    cudaStreamSynchronize(self.stream);
    if (all.size() < 2) throw std::runtime_error("expected that there is memory beside the buffer");
  }
  self.exchange->close();
}

/// Reads what it gets, says so, and reads it again and again until it is told to end.
void read_on(WorkerContext& context) {
  const auto words = context.arena.get_array<std::atomic<std::uint64_t>>("words");
  const test::End self(context);
  auto in = self.queue(context, "to 2");
  DeviceBuffer buffer;
  std::uint64_t number = 0;
  test::require(in.get(number, buffer, self.stream));
  std::uint64_t wrong = 0;
  do {
    fake_cuda::launch(self.stream, [&wrong, at = buffer.data()] {
      for (std::uint64_t i = 0; i < kBytes / 8; ++i) wrong += (&word(at))[i] != 77;
    });
    cudaStreamSynchronize(self.stream);
    words[1].fetch_add(1);
  } while (words[2].load() == 0);
  words[3].store(wrong);
  test::require(self.exchange->check(buffer));
  buffer.reset();
  self.exchange->close();
}

void gpu_sends_or_reads(WorkerContext& context) {
  context.slot == 0 ? send_once(context) : read_on(context);
}
PASSEL_ENTRY(gpu_sends_or_reads);

class LateReaders : public test::Scene {
 protected:
  void run_sender() {
    team_->supervisor.spawn(0);
    expect_ends(1);
  }
};

TEST_F(LateReaders, OpenEventsOfASenderThatHasEndedAndReadOnWhateverItsSuccessorWrites) {
  create({.processes = 3, .region_bytes = 4 * kBytes, .chunks = 8, .events = 4});
  add_queue("to 2", 2);
  const auto words = add_words(4);
  team(2, "gpu_sends_or_reads");
  run_sender();
  team_->supervisor.spawn(1);
  ASSERT_TRUE(Doorbell().wait([&] { return words[1].load() > 0; }, test::patience()));
  run_sender();
  const std::uint64_t reads = words[1].load();
  ASSERT_TRUE(Doorbell().wait([&] { return words[1].load() > reads + 10; }, test::patience()));
  words[2].store(1);
  expect_ends(1);
  EXPECT_EQ(words[3].load(), 0U);
}

}  // namespace
}  // namespace passel::shm
