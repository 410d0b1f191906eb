// One end and another in one process, which opens nothing: a handle is invalid in its exporter.
#include <array>

#include "scene.h"
#include "support/stress.h"

namespace passel::shm {
namespace {

using test::word;

class Exchange : public test::Scene {
 protected:
  static constexpr std::uint64_t kRegion = 64 << 10;

  void SetUp() override {
    Scene::SetUp();
    create(
        {.processes = 3, .region_bytes = kRegion, .fixed_bytes = 8192, .chunks = 8, .events = 4});
    to_worker_ = &add_queue("to worker", 1);
    peer_ = DeviceExchange::open(arena_, 1);
  }
  void TearDown() override {
    peer_->close();
    Scene::TearDown();
  }
  DeviceBuffer receive(std::uint64_t& data) {
    DeviceBuffer buffer;
    auto queue = test::Queue::open(arena_, peer_, "to worker");
    EXPECT_EQ(queue.get(data, buffer, peer_stream_, test::patience()), DeviceStatus::kOk);
    return buffer;
  }

  test::Queue* to_worker_ = nullptr;
  std::shared_ptr<DeviceExchange> peer_;
  cudaStream_t peer_stream_ = test::make_stream();
};

TEST_F(Exchange, HandsOverTheSameMemoryWithoutOpeningAnything) {
  DeviceBuffer sent;
  allocate(sent, 4096);
  ASSERT_EQ(to_worker_->put(7, sent, stream_, test::patience()), DeviceStatus::kOk);
  std::uint64_t data = 0;
  const DeviceBuffer received = receive(data);
  EXPECT_EQ(data, 7U);
  EXPECT_EQ(received.data(), sent.data());
  EXPECT_EQ(received.bytes(), 4096U);
  EXPECT_EQ(fake_cuda::totals().open_memory, 0U);
  EXPECT_EQ(fake_cuda::totals().open_events, 0U);
}

TEST_F(Exchange, MakesTheReceiversStreamWaitOnEverySendOfTheSameBuffer) {
  DeviceBuffer sent;
  allocate(sent, 64);
  for (std::uint64_t i = 1; i <= 20; ++i) {
    fake_cuda::fill(stream_, sent.data(), 8, i, std::chrono::milliseconds(2));
    ASSERT_EQ(to_worker_->put(i, sent, stream_, test::patience()), DeviceStatus::kOk);
    std::uint64_t data = 0;
    std::uint64_t seen = 0;
    const DeviceBuffer received = receive(data);
    fake_cuda::launch(peer_stream_, [&] { seen = word(received.data()); });
    cudaStreamSynchronize(peer_stream_);
    ASSERT_EQ(seen, i);
  }
}

TEST_F(Exchange, GivesABufferAwayAgainOnlyBehindTheReadersWork) {
  for (std::uint64_t i = 1; i <= 20; ++i) {
    DeviceBuffer sent;
    allocate(sent, kRegion);  // all there is, so it is the same memory every time
    fake_cuda::fill(stream_, sent.data(), 8, i);
    ASSERT_EQ(to_worker_->put(i, sent, stream_, test::patience()), DeviceStatus::kOk);
    sent.reset();
    std::uint64_t data = 0;
    DeviceBuffer received = receive(data);
    std::array<std::uint64_t, 8> rest{};
    std::atomic<std::uint64_t> seen{0};
    fake_cuda::fill(peer_stream_, rest.data(), 8, 1, std::chrono::milliseconds(2));
    fake_cuda::launch(peer_stream_, [&seen, from = received.data()] { seen.store(word(from)); });
    received.reset();  // at once: the kernel has not begun
    DeviceBuffer next;
    allocate(next, kRegion);
    fake_cuda::fill(stream_, next.data(), 8, 0);
    cudaStreamSynchronize(peer_stream_);
    ASSERT_EQ(seen.load(), i);
  }
}

TEST_F(Exchange, WaitsForAllUsesOfABufferThatAProcessGotTwice) {
  DeviceBuffer sent;
  allocate(sent, kRegion);
  fake_cuda::fill(stream_, sent.data(), 8, 41);
  std::uint64_t data = 0;
  ASSERT_EQ(to_worker_->put(1, sent, stream_, test::patience()), DeviceStatus::kOk);
  DeviceBuffer first = receive(data);
  ASSERT_EQ(to_worker_->put(2, sent, stream_, test::patience()), DeviceStatus::kOk);
  DeviceBuffer second = receive(data);
  sent.reset();
  std::array<std::uint64_t, 8> rest{};
  std::atomic<std::uint64_t> seen{0};
  fake_cuda::fill(peer_stream_, rest.data(), 8, 1, std::chrono::milliseconds(20));
  fake_cuda::launch(peer_stream_, [&seen, from = first.data()] { seen.store(word(from)); });
  first.reset();
  const cudaStream_t other = test::make_stream();
  second.set_stream(other);  // nothing of it is under way there
  second.reset();
  DeviceBuffer next;
  allocate(next, kRegion);
  fake_cuda::fill(stream_, next.data(), 8, 0);
  cudaStreamSynchronize(peer_stream_);
  cudaStreamSynchronize(stream_);
  EXPECT_EQ(seen.load(), 41U);
}

TEST_F(Exchange, KeepsTheWaitWhenTheHeapCutsMemoryAnew) {
  std::atomic<std::uint64_t> seen{0};
  std::array<std::uint64_t, 8> rest{};
  {
    // Let go of after the small one, so that the large one gets its number.
    DeviceBuffer beside;
    ASSERT_EQ(exchange_->allocate(256, peer_stream_, beside), DeviceStatus::kOk);
    DeviceBuffer small;
    allocate(small, 256);
    fake_cuda::fill(stream_, small.data(), 8, 41);
    cudaStreamSynchronize(stream_);
    fake_cuda::fill(stream_, rest.data(), 8, 1, std::chrono::milliseconds(20));
    fake_cuda::launch(stream_, [&seen, from = small.data()] { seen.store(word(from)); });
  }
  DeviceBuffer large;  // does not fit beside the small one, so the heap merges
  ASSERT_EQ(exchange_->allocate(kRegion, peer_stream_, large), DeviceStatus::kOk);
  fake_cuda::fill(peer_stream_, large.data(), kRegion / 8, 0);
  cudaStreamSynchronize(stream_);
  cudaStreamSynchronize(peer_stream_);
  EXPECT_EQ(seen.load(), 41U);
}

TEST_F(Exchange, KeepsTheWaitWhenAllEventsAreUnderWay) {
  DeviceBuffer late;
  DeviceBuffer other;
  allocate(late, 64);
  const cudaStream_t idle = test::make_stream();
  ASSERT_EQ(exchange_->allocate(64, idle, other), DeviceStatus::kOk);
  fake_cuda::fill(stream_, late.data(), 8, 1, std::chrono::milliseconds(20));
  for (int i = 0; i < 4; ++i) {  // all events there are
    ASSERT_EQ(to_worker_->put(1, late, stream_, test::patience()), DeviceStatus::kOk);
  }
  ASSERT_EQ(to_worker_->put(2, other, idle, test::patience()), DeviceStatus::kOk);
  std::uint64_t data = 0;
  std::array<std::uint64_t, 4> seen{};
  // Each on a stream of its own: whichever event was recorded again, its wait stands.
  for (std::size_t i = 0; i < 4; ++i) {
    peer_stream_ = test::make_stream();
    const DeviceBuffer received = receive(data);
    fake_cuda::launch(peer_stream_, [&place = seen[i], at = received.data()] { place = word(at); });
  }
  cudaDeviceSynchronize();
  EXPECT_EQ(seen, (std::array<std::uint64_t, 4>{1, 1, 1, 1}));
}

TEST_F(Exchange, NeedsNoMoreEventsHoweverManyAreSent) {
  const auto before = fake_cuda::totals();
  DeviceBuffer sent;
  allocate(sent, 64);
  const int sends = testing::stress_size(2000, 100'000);
  for (int i = 0; i < sends; ++i) {
    ASSERT_EQ(to_worker_->put(1, sent, stream_, test::patience()), DeviceStatus::kOk);
    std::uint64_t data = 0;
    receive(data);
  }
  EXPECT_EQ(fake_cuda::totals(), before);
}

TEST_F(Exchange, SaysWhyThereIsNoMemory) {
  DeviceBuffer buffer;
  EXPECT_EQ(exchange_->allocate(kRegion + 1, stream_, buffer), DeviceStatus::kTooLarge);
  DeviceBuffer all;
  allocate(all, kRegion);
  EXPECT_EQ(exchange_->allocate(64, stream_, buffer), DeviceStatus::kOwn);
  ASSERT_EQ(to_worker_->put(1, all, stream_, test::patience()), DeviceStatus::kOk);
  all.reset();
  EXPECT_EQ(exchange_->allocate(64, stream_, buffer), DeviceStatus::kLent);
  EXPECT_EQ(exchange_->allocate(64, stream_, buffer, after(std::chrono::milliseconds(1))),
            DeviceStatus::kTimeout);
  std::uint64_t data = 0;
  receive(data);
  EXPECT_EQ(exchange_->allocate(64, stream_, buffer, test::patience()), DeviceStatus::kOk);
}

TEST_F(Exchange, HasBlocksForTheWholeRunAtTheSameAddress) {
  const Block block = exchange_->add("parameters", 4096);
  EXPECT_EQ(block.offset, 0U);
  EXPECT_EQ(exchange_->block("parameters"), peer_->block("parameters"));
  exchange_->add("moments", 100);
  EXPECT_EQ(exchange_->block("moments"), exchange_->block("parameters") + 4096);
  EXPECT_THAT(test::error_of([&] { exchange_->add("more", 1); }),
              ::testing::HasSubstr("Of 8192 fixed bytes 8192 are used"));
  EXPECT_THAT(test::error_of([&] { (void)peer_->block("nothing"); }),
              ::testing::HasSubstr("no block of this name"));
  EXPECT_THROW(peer_->add("anything", 1), Error);
}

TEST_F(Exchange, RefusesWorkOnceItIsClosedAndLetsBuffersGo) {
  DeviceBuffer buffer;
  allocate(buffer, 64);
  exchange_->close();
  const std::uint64_t calls = fake_cuda::calls();
  DeviceBuffer other;
  DeviceHandle handle;
  EXPECT_EQ(exchange_->allocate(64, stream_, other), DeviceStatus::kClosed);
  EXPECT_EQ(exchange_->prepare(buffer, stream_, handle), DeviceStatus::kClosed);
  EXPECT_EQ(to_worker_->put(1, buffer, stream_), DeviceStatus::kClosed);
  buffer.reset();
  EXPECT_EQ(exchange_->bytes_in_use(), 0U);
  EXPECT_EQ(fake_cuda::calls(), calls) << "CUDA was called after close()";
}

TEST_F(Exchange, ReportsWhatTheRuntimeRefusesAndLosesNothing) {
  DeviceBuffer buffer;
  allocate(buffer, 64);
  fake_cuda::fail("cudaEventRecord", cudaErrorLaunchFailure);
  EXPECT_EQ(to_worker_->put(1, buffer, stream_, test::patience()), DeviceStatus::kCuda);
  EXPECT_EQ(exchange_->last_error(), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "an error that was reported is left to others";
  buffer.reset();
  EXPECT_EQ(exchange_->bytes_in_use(), 0U);
  fake_cuda::reset();
}

TEST_F(Exchange, ForAProcessThatItWasNotMadeForIsRefused) {
  EXPECT_THAT(test::error_of([&] { DeviceExchange::open(arena_, 3); }),
              ::testing::HasSubstr("created for 3 processes"));
}

class FewChunks : public test::Scene {};

TEST_F(FewChunks, KeepTheWaitWhenTheirNumbersMoveToOtherMemory) {
  create({.processes = 2, .region_bytes = 64 << 10, .chunks = 2, .events = 8});
  const cudaStream_t idle = test::make_stream();
  std::atomic<std::uint64_t> seen{0};
  std::array<std::uint64_t, 8> rest{};
  DeviceBuffer first;
  DeviceBuffer second;
  allocate(first, 256);
  ASSERT_EQ(exchange_->allocate(256, idle, second), DeviceStatus::kOk);
  fake_cuda::fill(stream_, first.data(), 32, 41);
  cudaStreamSynchronize(stream_);
  fake_cuda::fill(stream_, rest.data(), 8, 1, std::chrono::milliseconds(20));
  fake_cuda::launch(stream_, [&seen, from = first.data()] { seen.store(word(from)); });
  first.reset();
  DeviceBuffer far;  // gets the number of the first one, but behind the second one
  ASSERT_EQ(exchange_->allocate(32 << 10, test::make_stream(), far), DeviceStatus::kOk);
  second.reset();
  DeviceBuffer near;  // where the first one was
  ASSERT_EQ(exchange_->allocate(512, idle, near), DeviceStatus::kOk);
  ASSERT_LT(near.data(), far.data());
  fake_cuda::fill(idle, near.data(), 64, 0);
  cudaStreamSynchronize(stream_);
  cudaStreamSynchronize(idle);
  EXPECT_EQ(seen.load(), 41U);
}

TEST(ExchangeSetup, WithMoreMemoryThanTheDeviceHasNamesTheBytes) {
  fake_cuda::reset();
  Arena arena = Arena::create("gpu", 8 << 20);
  const std::string text = test::error_of([&] {
    DeviceExchange::create(arena, {.processes = 2, .region_bytes = std::uint64_t{1} << 40});
  });
  EXPECT_THAT(text, ::testing::HasSubstr("allocate 2199023255552 bytes on device 0"));
  EXPECT_THAT(text, ::testing::HasSubstr("free"));
  EXPECT_EQ(fake_cuda::totals().device_bytes, 0U);
}

TEST(ExchangeSetup, GivesBackWhatItHadWhenEventsCannotBeMade) {
  fake_cuda::reset();
  Arena arena = Arena::create("gpu", 8 << 20);
  fake_cuda::fail("cudaIpcGetEventHandle", cudaErrorNotSupported);
  EXPECT_THAT(test::error_of(
                  [&] { DeviceExchange::create(arena, {.processes = 2, .region_bytes = 4096}); }),
              ::testing::HasSubstr("export an event"));
  EXPECT_EQ(fake_cuda::totals().device_bytes, 0U);
  EXPECT_EQ(fake_cuda::totals().events, 0U);
  fake_cuda::reset();
}

}  // namespace
}  // namespace passel::shm
