#include "shared_gpu.h"

#include "passel/device/cpu_device.h"
#include "torch_cuda.h"

namespace passel::device {

std::unique_ptr<Parameters> SharedGpu::bind(std::span<const shm::NamedTensor> tensors,
                                            std::span<const shm::ParameterSpan> spans,
                                            std::span<const std::span<float>> versions) {
  const auto view = [ordinal = ordinal()](float* data, at::IntArrayRef sizes) {
    return torch_cuda::over(data, sizes, at::kFloat, ordinal);
  };
  return std::make_unique<ParameterViews<decltype(view)>>(tensors, spans, versions, view);
}

// The norm waits for the stream, and so for the loss.
Gradient SharedGpu::gradient(const at::Tensor& loss, std::vector<at::Tensor> parts) {
  for (at::Tensor& part : parts) part = part.contiguous();
  queue_loss(loss);
  const double square = memory_.squared_norm(parts_of(parts));
  return {.loss = this->loss(),
          .squared_norm = square,
          .device_seconds = seconds(),
          .parts = std::move(parts)};
}

}  // namespace passel::device
