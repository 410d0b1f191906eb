// Which device it is says its UUID, in whatever order a process sees the devices.
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
  spawn(1, "gpu_is_not_used");
  EXPECT_FALSE(team_->next_exit().failed());
  EXPECT_EQ(fake_cuda::calls(), calls);
  EXPECT_EQ(fake_cuda::totals(), before);
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
