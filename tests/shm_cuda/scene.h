#pragma once

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "fake_cuda/fake_cuda.h"
#include "passel/shm/supervisor.h"
#include "passel/shm/worker.h"
#include "passel/shm_cuda/device_exchange.h"
#include "passel/shm_cuda/device_queue.h"
#include "shm/support.h"

namespace passel::shm::test {

using Queue = DeviceQueue<std::uint64_t>;

inline cudaStream_t make_stream() {
  cudaStream_t stream = nullptr;
  EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  return stream;
}

/// The first word of a buffer; only for kernels.
inline std::uint64_t& word(const std::byte* data) {
  return *reinterpret_cast<std::uint64_t*>(const_cast<std::byte*>(data));
}

/// The parent's side: an arena, an exchange, and words in which workers leave what they saw.
class Scene : public ::testing::Test {
 protected:
  using Word = std::atomic<std::uint64_t>;

  void SetUp() override { fake_cuda::reset(); }
  void TearDown() override {
    team_.reset();
    if (exchange_) exchange_->close();
    EXPECT_EQ(fake_cuda::violations(), 0U) << fake_cuda::violation_text();
    EXPECT_EQ(fake_cuda::totals().device_bytes, 0U);
    EXPECT_EQ(fake_cuda::totals().events, 0U);
  }

  void create(const DeviceOptions& options) {
    exchange_ = DeviceExchange::create(arena_, options);
    stream_ = make_stream();
  }
  Queue& add_queue(const std::string& name, std::uint32_t reader) {
    queues_.push_back(std::make_unique<Queue>(Queue::create(arena_, exchange_, name, reader)));
    return *queues_.back();
  }
  std::span<Word> add_words(std::size_t count) {
    return arena_.construct_array<Word>("words", count);
  }
  void team(std::uint32_t slots, const char* entry) {
    team_ = std::make_unique<Team>(arena_, Supervisor::Options{.slots = slots, .entry = entry});
  }
  void spawn(std::uint32_t slots, const char* entry) {
    team(slots, entry);
    for (std::uint32_t slot = 0; slot < slots; ++slot) team_->supervisor.spawn(slot);
  }
  /// What the parent does about a death.
  void bury(std::uint32_t process) {
    for (const auto& queue : queues_) queue->adopt(process);
    exchange_->forget(process);
  }
  /// All workers end by themselves and well.
  void expect_ends(std::uint32_t workers) {
    for (; workers > 0; --workers) {
      const WorkerExit exit = team_->next_exit();
      EXPECT_FALSE(exit.failed()) << exit.describe();
      bury(exit.slot + 1);
    }
  }
  void allocate(DeviceBuffer& buffer, std::uint64_t bytes) {
    ASSERT_EQ(exchange_->allocate(bytes, stream_, buffer, patience()), DeviceStatus::kOk);
  }

  Arena arena_ = Arena::create("gpu", std::size_t{8} << 20);
  std::shared_ptr<DeviceExchange> exchange_;
  cudaStream_t stream_ = nullptr;
  std::vector<std::unique_ptr<Queue>> queues_;
  std::unique_ptr<Team> team_;
};

/// In a worker: fails it, with the place, unless `actual` is `expected`.
inline void require(DeviceStatus actual, DeviceStatus expected = DeviceStatus::kOk) {
  if (actual != expected) {
    throw std::runtime_error(std::string("expected '") + to_string(expected) + "', came '" +
                             to_string(actual) + "'");
  }
}

/// A worker's side.
struct End {
  explicit End(WorkerContext& context)
      : exchange(DeviceExchange::open(context.arena, context.slot + 1)), stream(make_stream()) {}

  Queue queue(WorkerContext& context, const std::string& name) const {
    return Queue::open(context.arena, exchange, name);
  }
  /// Calls use(number, buffer) for all that comes, until the queue is closed.
  template <class Use>
  void for_each(Queue& in, Use&& use) const {
    for (;;) {
      DeviceBuffer buffer;
      std::uint64_t number = 0;
      const DeviceStatus status = in.get(number, buffer, stream);
      if (status == DeviceStatus::kClosed) return;
      require(status);
      use(number, buffer);
    }
  }
  /// Stays until all that it sent is taken.
  void finish() const {
    while (exchange->collect()) cpu_relax();
    exchange->close();
  }

  std::shared_ptr<DeviceExchange> exchange;
  cudaStream_t stream;
};

}  // namespace passel::shm::test
