#include "fake_gpus.h"

#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "cuda_gpus.h"
#include "shm_cuda/fake_cuda/fake_cuda.h"

namespace passel::device {
namespace {

/// Sets the machine up before it is looked at.
class FakeGpus final : public Gpus {
 public:
  /// Broken rules of CUDA, and memory left behind, are to be seen in what the parent says.
  ~FakeGpus() override {
    if (!parent_) return;
    if (fake_cuda::violations() > 0) {
      std::fprintf(stderr, "fake CUDA: %s", fake_cuda::violation_text().c_str());
    }
    const fake_cuda::Totals left = fake_cuda::totals();
    if (left.device_bytes + left.events + left.open_memory > 0) {
      std::fprintf(stderr, "fake CUDA: %lu bytes and %u events are left behind\n",
                   static_cast<unsigned long>(left.device_bytes), left.events);
    }
  }

  GpuReport probe(int ordinal) override {
    parent_ = true;
    if (const char* const count = std::getenv("FAKE_GPUS"))
      fake_cuda::set_devices(std::atoi(count));
    if (const char* const driver = std::getenv("FAKE_DRIVER")) {
      fake_cuda::set_driver(std::atoi(driver));
    }
    if (const char* const function = std::getenv("FAKE_CUDA_FAILS")) {
      fake_cuda::fail_elsewhere(function, cudaErrorMapBufferObjectFailed);
    }
    return cuda_gpus().probe(ordinal);
  }
  std::shared_ptr<BlockMemory> lay_out(shm::Arena& arena, const GpuLayout& layout) override {
    return cuda_gpus().lay_out(arena, layout);
  }
  WorkerPlace open(const shm::Arena& arena, std::uint32_t slot) override {
    return cuda_gpus().open(arena, slot);
  }

 private:
  bool parent_ = false;
};

}  // namespace

Gpus& fake_gpus() {
  static FakeGpus gpus;
  return gpus;
}

}  // namespace passel::device
