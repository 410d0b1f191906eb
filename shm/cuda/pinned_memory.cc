#include "passel/shm_cuda/pinned_memory.h"

#include <cuda_runtime_api.h>

#include <string>
#include <utility>

#include "exit_watch.h"
#include "passel/shm_cuda/cuda_error.h"

namespace passel::shm {

PinnedMemory::PinnedMemory(std::span<std::byte> range) : range_(range) {
  watch_exit();
  // Portable: for the streams of all devices of this process.
  check_cuda(cudaHostRegister(range.data(), range.size(), cudaHostRegisterPortable),
             "pin " + std::to_string(range.size()) + " bytes of shared memory",
             "Is the limit of locked memory (ulimit -l) high enough, and is the range not pinned "
             "already?");
}

PinnedMemory::PinnedMemory(PinnedMemory&& other) noexcept
    : range_(std::exchange(other.range_, {})) {}

PinnedMemory& PinnedMemory::operator=(PinnedMemory&& other) noexcept {
  std::swap(range_, other.range_);
  return *this;
}

PinnedMemory::~PinnedMemory() {
  reset();
}

void PinnedMemory::reset() noexcept {
  const std::span<std::byte> range = std::exchange(range_, {});
  if (!range.empty() && !exiting()) cudaHostUnregister(range.data());
}

}  // namespace passel::shm
