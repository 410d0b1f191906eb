#include "gpu_inputs.h"

#include "torch_cuda.h"

namespace passel::device {
namespace {

constexpr std::size_t kAlign = 256;

std::size_t rounded(std::size_t bytes) {
  return (bytes + kAlign - 1) / kAlign * kAlign;
}

std::size_t bytes_of(const Inputs& inputs) {
  std::size_t bytes = 0;
  for (const at::Tensor* tensor : {&inputs.x, &inputs.target, &inputs.dropout}) {
    if (tensor->defined()) bytes += rounded(tensor->nbytes());
  }
  return bytes;
}

}  // namespace

void GpuInputs::prefetch(std::int64_t ticket, const Inputs& host) {
  if (other().ticket != ticket) fill(other(), ticket, host);
}

Inputs GpuInputs::load(std::int64_t ticket, const Inputs& host) {
  prefetch(ticket, host);
  current_ = 1 - current_;
  const Place& place = places_[current_];
  shm::check_cuda(cudaStreamWaitEvent(stream_, place.copied.get(), 0), "wait for inputs");
  torch_cuda::before_operators(stream_);
  return place.tensors;
}

void GpuInputs::fill(Place& place, std::int64_t ticket, const Inputs& host) {
  const std::size_t bytes = bytes_of(host);
  if (place.memory.size() < bytes) place.memory = DeviceBytes(bytes);
  std::size_t offset = 0;
  place.ticket = ticket;
  place.tensors = {.x = copy(host.x, place, offset),
                   .target = copy(host.target, place, offset),
                   .dropout = copy(host.dropout, place, offset)};
  shm::check_cuda(cudaEventRecord(place.copied.get(), copies_.get()), "mark the copies of inputs");
}

at::Tensor GpuInputs::copy(const at::Tensor& host, Place& place, std::size_t& offset) {
  if (!host.defined()) return {};
  std::byte* const to = place.memory.data() + offset;
  offset += rounded(host.nbytes());
  shm::check_cuda(cudaMemcpyAsync(to, host.const_data_ptr(), host.nbytes(), cudaMemcpyHostToDevice,
                                  copies_.get()),
                  "copy inputs to the device");
  return torch_cuda::over(to, host.sizes(), host.scalar_type(), ordinal_);
}

}  // namespace passel::device
