// On the CUDA runtime itself, with a GPU or without; and, to see that these tests are right, on
// the fake one.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

#include "passel/shm/worker.h"
#include "passel/shm_cuda/cuda_error.h"
#include "passel/shm_cuda/device_queue.h"
#include "passel/shm_cuda/ipc_probe.h"
#include "shm/support.h"

namespace passel::shm {
namespace {

using Queue = DeviceQueue<std::uint64_t>;

#ifndef PASSEL_DEVICE_TEST_BYTES
#define PASSEL_DEVICE_TEST_BYTES (64 << 20)
#endif
constexpr std::uint64_t kBytes = PASSEL_DEVICE_TEST_BYTES;
constexpr int kSlow = 400;  // passes over a buffer: long enough that whoever does not wait is early

cudaStream_t make_stream() {
  cudaStream_t stream = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "create a stream");
  return stream;
}

/// A value that is written late: after many passes with another one.
void write_late(const DeviceBuffer& buffer, int value, cudaStream_t stream) {
  for (int i = 0; i < kSlow; ++i) {
    check_cuda(cudaMemsetAsync(buffer.data(), 255 - value, buffer.bytes(), stream), "write");
  }
  check_cuda(cudaMemsetAsync(buffer.data(), value, buffer.bytes(), stream), "write");
}

/// Whether all bytes have the value, read in the order of the stream.
bool holds(const DeviceBuffer& buffer, int value, cudaStream_t stream) {
  std::vector<unsigned char> bytes(buffer.bytes());
  check_cuda(
      cudaMemcpyAsync(bytes.data(), buffer.data(), bytes.size(), cudaMemcpyDeviceToHost, stream),
      "read");
  check_cuda(cudaStreamSynchronize(stream), "read");
  return std::ranges::all_of(bytes, [&](unsigned char byte) { return byte == value; });
}

void require(DeviceStatus status) {
  if (status != DeviceStatus::kOk) throw std::runtime_error(to_string(status));
}

/// Gets values, and sends each plus 1 back in the same buffer, late.
void real_adds_one(WorkerContext& context) {
  const auto exchange = DeviceExchange::open(context.arena, 1);
  auto in = Queue::open(context.arena, exchange, "in");
  auto out = Queue::open(context.arena, exchange, "out");
  const cudaStream_t stream = make_stream();
  for (;;) {
    DeviceBuffer buffer;
    std::uint64_t value = 0;
    const DeviceStatus status = in.get(value, buffer, stream);
    if (status == DeviceStatus::kClosed) break;
    require(status);
    if (!holds(buffer, static_cast<int>(value), stream)) throw std::runtime_error("read too early");
    write_late(buffer, static_cast<int>(value) + 1, stream);
    require(out.put(value + 1, buffer, stream));
  }
  while (exchange->collect()) cpu_relax();
  exchange->close();
}
PASSEL_ENTRY(real_adds_one);

/// Sends what it will hardly finish, and waits for its end.
void real_sends_and_hangs(WorkerContext& context) {
  const auto exchange = DeviceExchange::open(context.arena, 1);
  auto out = Queue::open(context.arena, exchange, "out");
  const cudaStream_t stream = make_stream();
  DeviceBuffer buffer;
  require(exchange->allocate(kBytes, stream, buffer));
  for (int i = 0; i < 20; ++i) write_late(buffer, 7, stream);
  require(out.put(7, buffer, stream));
  std::atomic<bool>(false).wait(false);
}
PASSEL_ENTRY(real_sends_and_hangs);

class OnADevice : public ::testing::Test {
 protected:
  void start(bool cuda_ipc, const char* entry) {
    const IpcProbe probe = probe_ipc(0);
    if (!probe.computes() || (cuda_ipc && !probe.shares())) GTEST_SKIP() << probe.text;
    exchange_ = DeviceExchange::create(
        arena_, {.processes = 2, .region_bytes = 2 * kBytes, .chunks = 16, .cuda_ipc = cuda_ipc});
    in_.emplace(Queue::create(arena_, exchange_, "in", 1));
    out_.emplace(Queue::create(arena_, exchange_, "out", 0));
    stream_ = make_stream();
    team_ = std::make_unique<test::Team>(arena_, Supervisor::Options{.slots = 1, .entry = entry});
    team_->supervisor.spawn(0);
  }
  WorkerExit bury() {
    WorkerExit exit = team_->next_exit();
    in_->adopt(1);
    out_->adopt(1);
    exchange_->forget(1);
    return exit;
  }
  void send_around(int rounds) {
    for (int i = 0; i < rounds; ++i) {
      const int value = 2 * i + 1;
      DeviceBuffer sent;
      ASSERT_EQ(exchange_->allocate(kBytes, stream_, sent, test::patience()), DeviceStatus::kOk);
      write_late(sent, value, stream_);
      ASSERT_EQ(in_->put(static_cast<std::uint64_t>(value), sent, stream_, test::patience()),
                DeviceStatus::kOk);
      sent.reset();
      DeviceBuffer returned;
      std::uint64_t number = 0;
      ASSERT_EQ(out_->get(number, returned, stream_, test::patience()), DeviceStatus::kOk);
      ASSERT_EQ(number, static_cast<std::uint64_t>(value) + 1);
      ASSERT_TRUE(holds(returned, value + 1, stream_)) << "read too early";
    }
    in_->close();
    EXPECT_FALSE(bury().failed());
    cudaDeviceSynchronize();
    exchange_->collect();
    EXPECT_EQ(exchange_->bytes_in_use(), 0U);
    exchange_->close();
  }

  Arena arena_ = Arena::create("gpu", 6 * kBytes + (1 << 20));
  std::shared_ptr<DeviceExchange> exchange_;
  std::optional<Queue> in_;
  std::optional<Queue> out_;
  cudaStream_t stream_ = nullptr;
  std::unique_ptr<test::Team> team_;
};

TEST(TheRuntime, SaysInWordsWhetherItsDeviceCanShare) {
  const IpcProbe probe = probe_ipc(0);
  EXPECT_NE(probe.verdict, IpcVerdict::kBroken) << probe.text;
  EXPECT_EQ(probe.code == cudaSuccess, probe.shares() || probe.verdict == IpcVerdict::kUnsupported);
  std::printf("%s: %s\n", to_string(probe.verdict), probe.text.c_str());
}

TEST_F(OnADevice, BuffersGoToAnotherProcessAndBackInOrder) {
  start(true, "real_adds_one");
  if (!IsSkipped()) send_around(20);
}

TEST_F(OnADevice, StagedBuffersGoToAnotherProcessAndBackInOrder) {
  start(false, "real_adds_one");
  if (!IsSkipped()) send_around(20);
}

TEST_F(OnADevice, ASenderKilledInItsWorkHoldsNobodyUp) {
  start(true, "real_sends_and_hangs");
  if (IsSkipped()) return;
  DeviceBuffer buffer;
  std::uint64_t number = 0;
  ASSERT_EQ(out_->get(number, buffer, stream_, test::patience()), DeviceStatus::kOk);
  team_->supervisor.kill(0, SIGKILL);
  EXPECT_EQ(bury().code, SIGKILL);
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_TRUE(exchange_->check(buffer) == DeviceStatus::kLost || holds(buffer, 7, stream_));
  buffer.reset();
  exchange_->close();
}

}  // namespace
}  // namespace passel::shm
