#include "passel/device/cpu_device.h"

#include <ATen/ops/from_blob.h>

namespace passel::device {

std::unique_ptr<Parameters> CpuDevice::bind(std::span<const shm::NamedTensor> tensors,
                                            std::span<const shm::ParameterSpan> spans,
                                            std::span<const std::span<float>> versions) {
  const auto view = [](float* data, at::IntArrayRef sizes) {
    return at::from_blob(data, sizes, at::TensorOptions().dtype(at::kFloat));
  };
  return std::make_unique<ParameterViews<decltype(view)>>(tensors, spans, versions, view);
}

Gradient CpuDevice::gradient(const at::Tensor& loss, std::vector<at::Tensor> parts) {
  for (at::Tensor& part : parts) part = part.contiguous();
  const double square = memory_.squared_norm(parts_of(parts));
  return {.loss = loss.item<float>(), .squared_norm = square, .parts = std::move(parts)};
}

std::vector<Part> parts_of(const std::vector<at::Tensor>& tensors) {
  std::vector<Part> parts;
  parts.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    parts.push_back({tensor.const_data_ptr<float>(), static_cast<std::size_t>(tensor.numel())});
  }
  return parts;
}

}  // namespace passel::device
