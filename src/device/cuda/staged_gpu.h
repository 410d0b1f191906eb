#pragma once

#include <optional>

#include "gpu_device.h"

namespace passel::device {

/// A GPU beside blocks in the memory of the host: each ticket's parameters are copied there, and
/// its gradient back, through pinned memory. What is done with the blocks is the host's work, with
/// the host's bits.
class StagedGpu final : public GpuDevice {
 public:
  /// `memory` is of the host, and must outlive it.
  StagedGpu(const BlockMemory& memory, int ordinal, cudaStream_t stream)
      : GpuDevice(ordinal, stream), memory_(memory) {}

  /// Once.
  std::unique_ptr<Parameters> bind(std::span<const shm::NamedTensor> tensors,
                                   std::span<const shm::ParameterSpan> spans,
                                   std::span<const std::span<float>> versions) override;
  Gradient gradient(const at::Tensor& loss, std::vector<at::Tensor> parts) override;

 private:
  const BlockMemory& memory_;
  std::span<const shm::ParameterSpan> spans_;
  std::optional<PinnedArray<float>> gradient_;  // laid out by spans
};

}  // namespace passel::device
