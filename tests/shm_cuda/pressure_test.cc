#include <thread>

#include "scene.h"
#include "support/stress.h"

namespace passel::shm {
namespace {

using test::word;

class UnderPressure : public test::Scene {};

/// Two processes with two threads each, over memory for four buffers: whoever allocates waits for
/// what the other three let go of, and does so while they do.
TEST_F(UnderPressure, ThreadsOfOneProcessLetGoAndAllocateWithoutHangingOrTearing) {
  const std::uint64_t messages = testing::stress_size(2000, 100'000);
  create({.processes = 2, .region_bytes = 4096, .chunks = 8, .events = 4});
  for (const char* const name : {"a", "b"}) add_queue(name, 1);
  const auto peer = DeviceExchange::open(arena_, 1);
  std::array<std::uint64_t, 2> wrong{};

  const auto write = [&](std::size_t lane) {
    const cudaStream_t stream = test::make_stream();
    DeviceBuffer kept;
    for (std::uint64_t i = 0; i < messages; ++i) {
      DeviceBuffer buffer;
      const Deadline deadline = test::patience();
      DeviceStatus status = DeviceStatus::kOwn;
      // What this process holds itself is the other thread's, and will be back soon.
      while (status == DeviceStatus::kOwn && Clock::now() < deadline) {
        status = exchange_->allocate(1024, stream, buffer, deadline);
        if (status == DeviceStatus::kOwn) std::this_thread::yield();
      }
      ASSERT_EQ(status, DeviceStatus::kOk) << to_string(status);
      fake_cuda::fill(stream, buffer.data(), 128, i);
      ASSERT_EQ(queues_[lane]->put(i, buffer, stream, deadline), DeviceStatus::kOk);
      kept = std::move(buffer);  // lets go of the one before
    }
  };
  const auto read = [&](std::size_t lane) {
    auto in = test::Queue::open(arena_, peer, lane == 0 ? "a" : "b");
    const cudaStream_t stream = test::make_stream();
    for (std::uint64_t i = 0; i < messages; ++i) {
      DeviceBuffer buffer;
      std::uint64_t number = 0;
      ASSERT_EQ(in.get(number, buffer, stream, test::patience()), DeviceStatus::kOk);
      fake_cuda::launch(stream, [&count = wrong[lane], number, at = buffer.data()] {
        count += word(at) != number || (&word(at))[127] != number;
      });
    }
    cudaStreamSynchronize(stream);
  };
  std::vector<std::thread> threads;
  for (const std::size_t lane : {0, 1}) {
    threads.emplace_back(write, lane);
    threads.emplace_back(read, lane);
  }
  for (std::thread& thread : threads) thread.join();
  peer->close();
  EXPECT_EQ(wrong, (std::array<std::uint64_t, 2>{}));
  exchange_->collect();
  EXPECT_EQ(exchange_->bytes_in_use(), 0U);
}

}  // namespace
}  // namespace passel::shm
