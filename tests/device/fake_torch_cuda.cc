// torch's CUDA part over the CUDA runtime without a GPU: device memory is memory of the host, so
// its tensors are the CPU's. Their operators run on the calling thread, at once.
#include <ATen/ops/from_blob.h>
#include <cuda_runtime_api.h>

#include "passel/shm_cuda/cuda_error.h"
#include "torch_cuda.h"

namespace passel::device::torch_cuda {
namespace {

std::int64_t cached = 3096;  // bytes; an allocator that needs no new ones

}  // namespace

cudaStream_t select(int ordinal) {
  shm::check_cuda(cudaSetDevice(ordinal), "use a device");
  cudaStream_t stream = nullptr;
  shm::check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "make a stream");
  return stream;
}

at::Tensor over(void* data, at::IntArrayRef sizes, at::ScalarType type, int /*ordinal*/) {
  return at::from_blob(data, sizes, at::TensorOptions().dtype(type));
}

void before_operators(cudaStream_t stream) {
  shm::check_cuda(cudaStreamSynchronize(stream), "wait for a stream");
}

MemoryUse memory_use(int /*ordinal*/) {
  return {.allocated = 1000, .reserved = 1000 + cached, .peak = 2000};
}

void empty_cache() {
  cached = 0;
}

}  // namespace passel::device::torch_cuda
