#include "gpu_device.h"

#include "torch_cuda.h"

namespace passel::device {

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
}

}  // namespace passel::device
