#pragma once

#include <ATen/core/Tensor.h>
#include <driver_types.h>

#include "passel/device/compute_device.h"

/// All that a worker on a GPU needs of torch's CUDA libraries. Tests link the same functions over
/// memory that the CPU can read: their tensors are the CPU's, whose operators run at once.
namespace passel::device::torch_cuda {

/// Makes the device the calling thread's, for torch and for the CUDA runtime.
/// @return the stream that torch's operators of this thread are queued on from now on
cudaStream_t select(int ordinal);

/// A tensor over device memory, which must outlive it.
at::Tensor over(void* data, at::IntArrayRef sizes, at::ScalarType type, int ordinal);

/// To be called between work on the stream and operators that need its results. A GPU keeps that
/// order by itself; operators of the CPU have to wait.
void before_operators(cudaStream_t stream);

MemoryUse memory_use(int ordinal);

/// As torch.cuda.empty_cache().
void empty_cache();

}  // namespace passel::device::torch_cuda
