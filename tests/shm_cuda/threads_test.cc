#include <thread>

#include "scene.h"
#include "support/stress.h"

namespace passel::shm {
namespace {

using test::word;

class ThreadsForm : public test::Scene {};

/// A writer, a forwarder and a reader, each with its own end and stream, over so little memory that
/// every buffer is written again as soon as the protocol allows. ThreadSanitizer sees whether that
/// is too soon.
TEST_F(ThreadsForm, WritesABufferAgainOnlyWhenAllWorkOnItIsDone) {
  const std::uint64_t messages = testing::stress_size(1000, 20'000);
  create({.processes = 3, .region_bytes = 4096, .chunks = 4, .events = 4});
  add_queue("to 1", 1);
  add_queue("to 2", 2);
  const auto end = [&](std::uint32_t process) { return DeviceExchange::open(arena_, process); };
  const auto queue = [&](const auto& exchange, const char* name) {
    return test::Queue::open(arena_, exchange, name);
  };
  std::uint64_t wrong = 0;

  std::thread writer([&] {
    for (std::uint64_t i = 0; i < messages; ++i) {
      DeviceBuffer buffer;
      ASSERT_EQ(exchange_->allocate(1024, stream_, buffer, test::patience()), DeviceStatus::kOk);
      fake_cuda::fill(stream_, buffer.data(), 128, i);
      ASSERT_EQ(queues_[0]->put(i, buffer, stream_, test::patience()), DeviceStatus::kOk);
    }
    while (exchange_->collect()) std::this_thread::yield();
  });
  std::thread forwarder([&] {
    const auto self = end(1);
    auto in = queue(self, "to 1");
    auto out = queue(self, "to 2");
    const cudaStream_t stream = test::make_stream();
    for (std::uint64_t i = 0; i < messages; ++i) {
      DeviceBuffer buffer;
      std::uint64_t data = 0;
      ASSERT_EQ(in.get(data, buffer, stream, test::patience()), DeviceStatus::kOk);
      fake_cuda::launch(stream, [at = buffer.data()] { ++word(at); });
      ASSERT_EQ(out.put(data, buffer, stream, test::patience()), DeviceStatus::kOk);
    }
    while (self->collect()) std::this_thread::yield();
    self->close();
  });
  std::thread reader([&] {
    const auto self = end(2);
    auto in = queue(self, "to 2");
    const cudaStream_t stream = test::make_stream();
    for (std::uint64_t i = 0; i < messages; ++i) {
      DeviceBuffer buffer;
      std::uint64_t data = 0;
      ASSERT_EQ(in.get(data, buffer, stream, test::patience()), DeviceStatus::kOk);
      fake_cuda::launch(stream, [&wrong, data, at = buffer.data()] {
        wrong += word(at) != data + 1 || (&word(at))[127] != data;
      });
    }
    cudaStreamSynchronize(stream);
    self->close();
  });
  writer.join();
  forwarder.join();
  reader.join();
  EXPECT_EQ(wrong, 0U);
  exchange_->collect();
  EXPECT_EQ(exchange_->bytes_in_use(), 0U);
}

}  // namespace
}  // namespace passel::shm
