#include "gpu_device.h"

#include "torch_cuda.h"

namespace passel::device {

Inputs GpuDevice::load(std::int64_t ticket, const Inputs& inputs) {
  Inputs loaded = inputs_.load(ticket, inputs);
  shm::check_cuda(cudaEventRecord(begun_.get(), stream_), "mark the begin of a ticket");
  return loaded;
}

std::optional<MemoryUse> GpuDevice::memory_use() const {
  return torch_cuda::memory_use(ordinal_);
}

void GpuDevice::empty_cache() {
  torch_cuda::empty_cache();
}

void GpuDevice::queue_loss(const at::Tensor& loss) {
  shm::check_cuda(cudaMemcpyAsync(loss_.data(), loss.const_data_ptr<float>(), sizeof(float),
                                  cudaMemcpyDeviceToHost, stream_),
                  "read the loss");
  shm::check_cuda(cudaEventRecord(ended_.get(), stream_), "mark the end of a ticket");
}

double GpuDevice::seconds() const {
  float milliseconds = 0;
  shm::check_cuda(cudaEventElapsedTime(&milliseconds, begun_.get(), ended_.get()),
                  "read the time of a ticket");
  return static_cast<double>(milliseconds) / 1000;
}

}  // namespace passel::device
