#pragma once

#include "gpu_carried.h"
#include "gpu_inputs.h"
#include "passel/device/compute_device.h"

namespace passel::device {

/// What all workers on a GPU have in common, wherever the parameters lie.
class GpuDevice : public ComputeDevice {
 public:
  void expect_inputs_in(std::span<std::byte> memory) override {
    pinned_ = shm::PinnedMemory(memory);
  }
  void prefetch(std::int64_t ticket, const Inputs& inputs) override {
    inputs_.prefetch(ticket, inputs);
  }
  Inputs load(std::int64_t ticket, const Inputs& inputs) override;
  Carried carry_in(const Carried& host) override { return carried_.in(host); }
  Carried carry_out(const Carried& left) override { return carried_.out(left); }
  std::optional<MemoryUse> memory_use() const override;
  void empty_cache() override;

 protected:
  /// @param stream torch's of this thread
  GpuDevice(int ordinal, cudaStream_t stream)
      : ordinal_(ordinal),
        stream_(stream),
        inputs_(ordinal, stream),
        carried_(ordinal, stream),
        loss_(1) {}

  /// Queues the copy of the loss, up to which a ticket is timed.
  void queue_loss(const at::Tensor& loss);
  /// Once the stream's work is over.
  float loss() const { return *loss_.data(); }
  /// From the arrival of the inputs to the copy of the loss. Once the stream's work is over.
  double seconds() const;

  int ordinal() const { return ordinal_; }
  cudaStream_t stream() const { return stream_; }

 private:
  int ordinal_;
  cudaStream_t stream_;
  shm::PinnedMemory pinned_;
  GpuInputs inputs_;
  GpuCarried carried_;
  PinnedArray<float> loss_;
  Event begun_{cudaEventDefault};
  Event ended_{cudaEventDefault};
};

}  // namespace passel::device
