#include "resident_gpus.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace passel::device {
namespace {

/// Notes what it is asked for. Its tensors are overwritten by the next ticket's, as on a GPU.
class NotingDevice final : public ComputeDevice {
 public:
  std::unique_ptr<Parameters> bind(std::span<const shm::NamedTensor> /*tensors*/,
                                   std::span<const shm::ParameterSpan> /*spans*/,
                                   std::span<const std::span<float>> /*versions*/) override {
    throw std::logic_error("not part of these tests");
  }
  void expect_inputs_in(std::span<std::byte> memory) override { pinned = memory.size(); }
  void prefetch(std::int64_t /*ticket*/, const Inputs& /*inputs*/) override { ++copies; }
  Inputs load(std::int64_t /*ticket*/, const Inputs& inputs) override {
    ++copies;
    if (current_.x.defined()) current_.x.zero_();
    current_ = {inputs.x.clone(), inputs.target.clone(), {}};
    return current_;
  }
  Carried carry_in(const Carried& host) override { return {host[1], host[0]}; }
  Carried carry_out(const Carried& left) override { return {left[1], left[0]}; }
  Gradient gradient(const at::Tensor& /*loss*/, std::vector<at::Tensor> parts) override {
    return {.loss = 5, .parts = std::move(parts)};
  }
  std::optional<MemoryUse> memory_use() const override { return MemoryUse{.peak = 7}; }
  void empty_cache() override { ++emptied; }

  int copies = 0;
  int emptied = 0;
  std::size_t pinned = 0;

 private:
  Inputs current_;
};

Inputs batch(std::int64_t samples, float value) {
  return {at::full({3, samples, 2}, value), at::full({samples}, value), {}};
}

class ResidentBatches : public ::testing::Test {
 protected:
  /// As a worker does for each ticket.
  Inputs next(std::int64_t ticket, const Inputs& inputs, const Inputs& after) {
    Inputs loaded = device_->load(ticket, inputs);
    device_->prefetch(ticket + 1, after);
    return loaded;
  }

  NotingDevice* base_ = new NotingDevice;  // of device_
  std::unique_ptr<ComputeDevice> device_ =
      with_resident_inputs(std::unique_ptr<ComputeDevice>(base_));
};

TEST_F(ResidentBatches, AreCopiedOnceForAllTickets) {
  for (int ticket = 0; ticket < 10; ++ticket) {
    const auto value = static_cast<float>(ticket);
    const Inputs loaded = next(ticket, batch(4, value + 1), batch(4, value + 2));
    EXPECT_TRUE(loaded.x.equal(at::full({3, 4, 2}, 1))) << ticket;
    EXPECT_TRUE(loaded.target.equal(at::full({4}, 1))) << ticket;
    EXPECT_FALSE(loaded.dropout.defined());
  }
  EXPECT_EQ(base_->copies, 1);
}

TEST_F(ResidentBatches, AreOneForEachSizeOfABatch) {
  next(0, batch(4, 1), batch(2, 2));
  EXPECT_TRUE(next(1, batch(2, 2), batch(4, 3)).x.equal(at::full({3, 2, 2}, 2)));
  EXPECT_TRUE(next(2, batch(4, 3), batch(2, 4)).x.equal(at::full({3, 4, 2}, 1)));
  EXPECT_EQ(base_->copies, 2);
}

TEST_F(ResidentBatches, LeaveAllElseToTheDevice) {
  std::vector<std::byte> memory(32);
  device_->expect_inputs_in(memory);
  EXPECT_EQ(base_->pinned, 32U);
  EXPECT_EQ(device_->gradient(at::full({}, 1), {at::full({2}, 3)}).parts.at(0).numel(), 2);
  EXPECT_EQ(device_->memory_use().value().peak, 7);
  const Carried state = {at::full({1}, 1), at::full({1}, 2)};
  EXPECT_EQ(device_->carry_in(state)[0].item<float>(), 2);
  EXPECT_EQ(device_->carry_out(state)[1].item<float>(), 1);
  device_->empty_cache();
  EXPECT_EQ(base_->emptied, 1);
}

}  // namespace
}  // namespace passel::device
