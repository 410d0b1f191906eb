#include "gpu_carried.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>

#include "torch_cuda.h"

namespace passel::device {
namespace {

std::size_t floats_of(const at::Tensor& tensor) {
  return static_cast<std::size_t>(tensor.numel());
}

}  // namespace

// The copies of the ticket before are over: its gradient was waited for.
Carried GpuCarried::in(const Carried& host) {
  const std::size_t floats = floats_of(host[0]) + floats_of(host[1]);
  if (!room_ || room_->in.size() < floats) room_.emplace(floats);
  auto* const on_device = reinterpret_cast<float*>(room_->device.data());
  Carried there;
  std::size_t offset = 0;
  for (std::size_t i = 0; i < host.size(); ++i) {
    std::copy_n(host[i].const_data_ptr<float>(), host[i].numel(), room_->in.data() + offset);
    there[i] = torch_cuda::over(on_device + offset, host[i].sizes(), at::kFloat, ordinal_);
    offset += floats_of(host[i]);
  }
  shm::check_cuda(cudaMemcpyAsync(on_device, room_->in.data(), floats * sizeof(float),
                                  cudaMemcpyHostToDevice, stream_),
                  "copy a state to the device");
  torch_cuda::before_operators(stream_);
  return there;
}

Carried GpuCarried::out(const Carried& left) {
  Carried host;
  std::size_t offset = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    leaving_[i] = left[i].contiguous();
    float* const to = room_->out.data() + offset;
    shm::check_cuda(cudaMemcpyAsync(to, leaving_[i].const_data_ptr<float>(), leaving_[i].nbytes(),
                                    cudaMemcpyDeviceToHost, stream_),
                    "copy a state from the device");
    host[i] = at::from_blob(to, left[i].sizes(), at::TensorOptions().dtype(at::kFloat));
    offset += floats_of(left[i]);
  }
  return host;
}

}  // namespace passel::device
