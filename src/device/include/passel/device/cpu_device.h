#pragma once

#include "passel/device/compute_device.h"

namespace passel::device {

/// The CPU: tensors stay where they are.
class CpuDevice final : public ComputeDevice {
 public:
  /// `memory` is of the host, and must outlive it.
  explicit CpuDevice(const BlockMemory& memory) : memory_(memory) {}

  std::unique_ptr<Parameters> bind(std::span<const shm::NamedTensor> tensors,
                                   std::span<const shm::ParameterSpan> spans,
                                   std::span<const std::span<float>> versions) override;
  void expect_inputs_in(std::span<std::byte> /*memory*/) override {}
  void prefetch(std::int64_t /*ticket*/, const Inputs& /*inputs*/) override {}
  Inputs load(std::int64_t /*ticket*/, const Inputs& inputs) override { return inputs; }
  Carried carry_in(const Carried& host) override { return host; }
  Carried carry_out(const Carried& left) override { return left; }
  Gradient gradient(const at::Tensor& loss, std::vector<at::Tensor> parts) override;
  std::optional<MemoryUse> memory_use() const override { return std::nullopt; }
  void empty_cache() override {}

 private:
  const BlockMemory& memory_;
};

/// The parts of a gradient as BlockMemory takes them.
std::vector<Part> parts_of(const std::vector<at::Tensor>& tensors);

}  // namespace passel::device
