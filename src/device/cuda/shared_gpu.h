#pragma once

#include "gpu_device.h"

namespace passel::device {

/// A GPU on which the blocks of the run lie, too: the model's parameters are views of them.
class SharedGpu final : public GpuDevice {
 public:
  /// `memory` is of that device, and must outlive it.
  SharedGpu(const BlockMemory& memory, int ordinal, cudaStream_t stream)
      : GpuDevice(ordinal, stream), memory_(memory) {}

  std::unique_ptr<Parameters> bind(std::span<const shm::NamedTensor> tensors,
                                   std::span<const shm::ParameterSpan> spans,
                                   std::span<const std::span<float>> versions) override;
  Gradient gradient(const at::Tensor& loss, std::vector<at::Tensor> parts) override;

 private:
  const BlockMemory& memory_;
};

}  // namespace passel::device
