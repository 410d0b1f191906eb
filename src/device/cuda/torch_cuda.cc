#include "torch_cuda.h"

#include <ATen/Context.h>
#include <ATen/ops/from_blob.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

namespace passel::device::torch_cuda {
namespace {

c10::DeviceIndex index_of(int ordinal) {
  return static_cast<c10::DeviceIndex>(ordinal);
}

}  // namespace

cudaStream_t select(int ordinal) {
  at::globalContext().lazyInitDevice(at::kCUDA);
  c10::cuda::set_device(index_of(ordinal));
  // Not the default stream, which waits for all others of the process.
  const auto stream = c10::cuda::getStreamFromPool(false, index_of(ordinal));
  c10::cuda::setCurrentCUDAStream(stream);
  return stream.stream();
}

at::Tensor over(void* data, at::IntArrayRef sizes, at::ScalarType type, int ordinal) {
  const at::Device device(at::kCUDA, index_of(ordinal));
  const auto options = at::TensorOptions().dtype(type).device(device);
  return at::for_blob(data, sizes).options(options).target_device(device).make_tensor();
}

void before_operators(cudaStream_t /*stream*/) {}

MemoryUse memory_use(int ordinal) {
  const auto statistics = c10::cuda::CUDACachingAllocator::getDeviceStats(index_of(ordinal));
  const auto all = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return {.allocated = statistics.allocated_bytes[all].current,
          .reserved = statistics.reserved_bytes[all].current,
          .peak = statistics.allocated_bytes[all].peak};
}

void empty_cache() {
  c10::cuda::CUDACachingAllocator::emptyCache();
}

}  // namespace passel::device::torch_cuda
