#include "staged_gpu.h"

#include <ATen/ops/from_blob.h>

#include <cstring>

#include "passel/device/cpu_device.h"
#include "torch_cuda.h"

namespace passel::device {
namespace {

/// One copy on the device of the version in use.
class CopiedParameters final : public Parameters {
 public:
  CopiedParameters(std::span<const shm::NamedTensor> tensors,
                   std::span<const shm::ParameterSpan> spans,
                   std::span<const std::span<float>> versions, int ordinal, cudaStream_t stream)
      : versions_(versions),
        stream_(stream),
        host_(versions[0].size()),
        device_(versions[0].size_bytes()) {
    auto* const values = reinterpret_cast<float*>(device_.data());
    for (std::size_t i = 0; i < spans.size(); ++i) {
      tensors[i].second.set_data(
          torch_cuda::over(values + spans[i].begin, spans[i].shape, at::kFloat, ordinal));
    }
  }

  // The copy of the ticket before is over: its gradient was waited for.
  void use(std::int64_t version) override {
    const std::span<float> block = versions_[static_cast<std::size_t>(version) % versions_.size()];
    std::memcpy(host_.data(), block.data(), block.size_bytes());
    shm::check_cuda(cudaMemcpyAsync(device_.data(), host_.data(), block.size_bytes(),
                                    cudaMemcpyHostToDevice, stream_),
                    "copy parameters to the device");
    torch_cuda::before_operators(stream_);
  }

 private:
  std::span<const std::span<float>> versions_;
  cudaStream_t stream_;
  PinnedArray<float> host_;
  DeviceBytes device_;
};

}  // namespace

std::unique_ptr<Parameters> StagedGpu::bind(std::span<const shm::NamedTensor> tensors,
                                            std::span<const shm::ParameterSpan> spans,
                                            std::span<const std::span<float>> versions) {
  spans_ = spans;
  gradient_.emplace(versions[0].size());
  return std::make_unique<CopiedParameters>(tensors, spans, versions, ordinal(), stream());
}

Gradient StagedGpu::gradient(const at::Tensor& loss, std::vector<at::Tensor> parts) {
  std::vector<at::Tensor> host;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    parts[i] = parts[i].contiguous();
    float* const to = gradient_->data() + spans_[i].begin;
    shm::check_cuda(cudaMemcpyAsync(to, parts[i].const_data_ptr<float>(), parts[i].nbytes(),
                                    cudaMemcpyDeviceToHost, stream()),
                    "copy a gradient from the device");
    host.push_back(at::from_blob(to, spans_[i].shape, at::TensorOptions().dtype(at::kFloat)));
  }
  queue_loss(loss);
  shm::check_cuda(cudaStreamSynchronize(stream()), "wait for the device");
  const double square = memory_.squared_norm(parts_of(host));
  return {.loss = this->loss(),
          .squared_norm = square,
          .device_seconds = seconds(),
          .parts = std::move(host)};
}

}  // namespace passel::device
