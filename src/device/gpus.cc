#include "passel/device/gpus.h"

#include <dlfcn.h>

#include "passel/device/cpu_device.h"
#include "passel/device/host_memory.h"
#include "passel/kernels_torch/cuda.h"

namespace passel::device {
namespace {

constexpr const char* kLibrary = "libpassel_train_cuda.so";

Gpus*& provided() {
  static Gpus* gpus = nullptr;
  return gpus;
}

Gpus& load() {
  try {
    load_cuda_kernels();
    void* const library = load_cuda_library(kLibrary);
    auto* const entry = reinterpret_cast<Gpus* (*)()>(dlsym(library, "passel_gpus"));
    if (entry == nullptr) throw std::runtime_error(std::string(kLibrary) + " is of another build");
    return *entry();
  } catch (const std::runtime_error& error) {
    throw NoGpu(error.what());
  }
}

}  // namespace

Gpus& loaded_gpus() {
  static Gpus& gpus = load();
  return gpus;
}

Gpus& gpus() {
  return provided() != nullptr ? *provided() : loaded_gpus();
}

void provide_gpus(Gpus& gpus) {
  provided() = &gpus;
}

WorkerPlace open_place(const shm::Arena& arena, std::uint32_t slot) {
  if (arena.contains(kGpuPlan)) return gpus().open(arena, slot);
  auto memory = std::make_shared<HostMemory>(arena);
  auto device = std::make_unique<CpuDevice>(*memory);
  return {std::move(memory), std::move(device)};
}

}  // namespace passel::device
