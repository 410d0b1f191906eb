// Which device it is says its UUID, in whatever order a process sees the devices.
#include <fstream>

#include "passel/shm_cuda/device.h"
#include "scene.h"

namespace passel::shm {
namespace {

using test::word;

void gpu_looks(WorkerContext& context) {
  const auto words = context.arena.get_array<std::atomic<std::uint64_t>>("words");
  const test::End self(context);
  words[0].store(static_cast<std::uint64_t>(self.exchange->device()));
  words[1].store(word(self.exchange->block("block")));
  self.exchange->close();
}
PASSEL_ENTRY(gpu_looks);

/// A CPU worker: nothing of CUDA.
void gpu_is_not_used(WorkerContext& context) {
  context.arena.get_array<std::atomic<std::uint64_t>>("words")[0].store(1);
}
PASSEL_ENTRY(gpu_is_not_used);

class Devices : public test::Scene {
 protected:
  WorkerExit look(const std::string& visible) {
    create({.device = 1,
            .processes = 2,
            .region_bytes = 4096,
            .fixed_bytes = 4096,
            .chunks = 1,
            .events = 1});
    exchange_->add("block", 4096);
    fake_cuda::fill(nullptr, exchange_->block("block"), 1, 99);
    cudaDeviceSynchronize();
    words_ = add_words(2);
    team(1, "gpu_looks");
    team_->supervisor.spawn(0, {.environment = {"CUDA_VISIBLE_DEVICES=" + visible}});
    WorkerExit exit = team_->next_exit();
    bury(1);
    return exit;
  }
  std::span<Word> words_;
};

TEST_F(Devices, AreFoundByWorkersThatSeeThemInAnotherOrder) {
  EXPECT_FALSE(look("1,0").failed());
  EXPECT_EQ(words_[0].load(), 0U) << "its number there; 1 in the parent";
  EXPECT_EQ(words_[1].load(), 99U);
}

TEST_F(Devices, ThatAWorkerDoesNotSeeAreAnErrorThatNamesTheUuid) {
  const WorkerExit exit = look("0");
  EXPECT_TRUE(exit.failed());
  EXPECT_THAT(exit.text, ::testing::HasSubstr(to_string(device_id(1))));
  EXPECT_THAT(exit.text, ::testing::HasSubstr("CUDA_VISIBLE_DEVICES"));
}

TEST_F(Devices, AreNotTouchedByWorkersThatDoNotUseThem) {
  add_words(1);
  const auto before = fake_cuda::totals();
  const std::uint64_t calls = fake_cuda::calls();
  spawn(8, "gpu_is_not_used");
  for (int i = 0; i < 8; ++i) EXPECT_FALSE(team_->next_exit().failed());
  EXPECT_EQ(fake_cuda::calls(), calls);
  EXPECT_EQ(fake_cuda::totals(), before);
}

/// Opens its end again and again; the words are its address space after a few times, and at last.
void gpu_opens_often(WorkerContext& context) {
  const auto words = context.arena.get_array<std::atomic<std::uint64_t>>("words");
  const auto open_once = [&] {
    const auto exchange = DeviceExchange::open(context.arena, 1);
    if (exchange->block("block") == nullptr) throw std::runtime_error("expected a block");
    exchange->close();
  };
  const auto pages = [] {
    std::uint64_t count = 0;
    std::ifstream("/proc/self/statm") >> count;
    return count;
  };
  for (int i = 0; i < 10; ++i) open_once();
  words[0].store(pages());
  for (int i = 0; i < 500; ++i) open_once();
  words[1].store(pages());
}
PASSEL_ENTRY(gpu_opens_often);

TEST_F(Devices, AreOpenedHundredsOfTimesInTheSameAddressSpace) {
  create({.processes = 2, .region_bytes = 32 << 20, .fixed_bytes = 4096, .chunks = 1, .events = 1});
  exchange_->add("block", 4096);
  const auto words = add_words(2);
  const auto before = fake_cuda::totals();
  spawn(1, "gpu_opens_often");
  expect_ends(1);
  EXPECT_GT(words[0].load(), 0U);
  // Less than one more mapping of the device memory.
  EXPECT_LT(words[1].load(), words[0].load() + (32 << 20) / 4096);
  EXPECT_EQ(fake_cuda::totals(), before);
}

int ordinal_now() {
  int device = -1;
  cudaGetDevice(&device);
  return device;
}

cudaStream_t make_stream_on(int device) {
  const DeviceGuard guard(device);
  return test::make_stream();
}

/// Gets a buffer on device 1 and sends it back, while device 0 is current.
void gpu_works_elsewhere(WorkerContext& context) {
  const auto exchange = DeviceExchange::open(context.arena, 1);
  const cudaStream_t stream = make_stream_on(1);
  auto in = test::Queue::open(context.arena, exchange, "in");
  auto out = test::Queue::open(context.arena, exchange, "out");
  DeviceBuffer buffer;
  std::uint64_t number = 0;
  test::require(in.get(number, buffer, stream));
  fake_cuda::launch(stream, [at = buffer.data()] { ++word(at); });
  test::require(out.put(number, buffer, stream));
  buffer.reset();
  if (ordinal_now() != 0) throw std::runtime_error("expected that device 0 is current again");
  while (exchange->collect()) cpu_relax();
  exchange->close();
}
PASSEL_ENTRY(gpu_works_elsewhere);

TEST_F(Devices, AreUsedFromThreadsForWhichOthersAreCurrent) {
  for (const bool cuda_ipc : {true, false}) {
    SCOPED_TRACE(cuda_ipc ? "shared" : "staged");
    Arena arena = Arena::create("gpu", 8 << 20);
    const auto exchange = DeviceExchange::create(arena, {.device = 1,
                                                         .processes = 2,
                                                         .region_bytes = 4096,
                                                         .chunks = 4,
                                                         .events = 2,
                                                         .cuda_ipc = cuda_ipc});
    auto in = test::Queue::create(arena, exchange, "in", 1);
    auto out = test::Queue::create(arena, exchange, "out", 0);
    test::Team team(arena, {.slots = 1, .entry = "gpu_works_elsewhere"});
    team.supervisor.spawn(0);
    const cudaStream_t stream = make_stream_on(1);
    DeviceBuffer buffer;
    ASSERT_EQ(exchange->allocate(64, stream, buffer), DeviceStatus::kOk);
    fake_cuda::fill(stream, buffer.data(), 8, 41);
    ASSERT_EQ(in.put(1, buffer, stream, test::patience()), DeviceStatus::kOk);
    std::uint64_t number = 0;
    ASSERT_EQ(out.get(number, buffer, stream, test::patience()), DeviceStatus::kOk);
    std::uint64_t seen = 0;
    fake_cuda::launch(stream, [&seen, at = buffer.data()] { seen = word(at); });
    cudaStreamSynchronize(stream);
    EXPECT_EQ(seen, 42U);
    EXPECT_EQ(ordinal_now(), 0);
    buffer.reset();
    EXPECT_FALSE(team.next_exit().failed());
    exchange->forget(1);
    exchange->close();
    EXPECT_EQ(ordinal_now(), 0);
  }
}

TEST(DeviceIds, ReadAsNvidiaSmiWritesThem) {
  DeviceId id;
  for (std::size_t i = 0; i < id.bytes.size(); ++i) id.bytes[i] = static_cast<std::uint8_t>(i * 17);
  EXPECT_EQ(to_string(id), "GPU-00112233-4455-6677-8899-aabbccddeeff");
}

TEST(DeviceIds, TellDevicesApart) {
  fake_cuda::reset();
  EXPECT_NE(device_id(0), device_id(1));
  EXPECT_EQ(find_device(device_id(1)), 1);
  EXPECT_EQ(find_device({}), std::nullopt);
}

TEST(DeviceGuards, PutTheFormerDeviceBack) {
  fake_cuda::reset();
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  int device = -1;
  {
    const DeviceGuard guard(1);
    cudaGetDevice(&device);
    EXPECT_EQ(device, 1);
  }
  cudaGetDevice(&device);
  EXPECT_EQ(device, 0);
}

}  // namespace
}  // namespace passel::shm
