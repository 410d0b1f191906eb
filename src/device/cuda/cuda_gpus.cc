#include "cuda_gpus.h"

#include <ATen/Context.h>
#include <cuda_runtime_api.h>

#include <cstdlib>

#include "gpu_memory.h"
#include "passel/device/host_memory.h"
#include "passel/shm_cuda/cuda_error.h"
#include "passel/shm_cuda/device.h"
#include "passel/shm_cuda/ipc_probe.h"
#include "shared_gpu.h"
#include "staged_gpu.h"
#include "torch_cuda.h"

namespace passel::device {
namespace {

constexpr const char* kUse = "gpus.use";

/// What workers have to know of a GpuLayout.
struct Use {
  bool shared;  // the blocks are on the GPU
  bool deterministic;
};

/// The same gradient of the same version each time, or an error from an operator that cannot:
/// torch's switch, and a workspace of cuBLAS that streams do not share. cuBLAS reads the variable
/// when it is first used; a value that the user has chosen stays.
void be_deterministic() {
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);
  at::globalContext().setDeterministicAlgorithms(true, false);
  // Would write NaN to each new tensor first, to find readers of what nobody wrote.
  at::globalContext().setDeterministicFillUninitializedMemory(false);
}

std::string name_of(int ordinal) {
  cudaDeviceProp properties{};
  shm::check_cuda(cudaGetDeviceProperties(&properties, ordinal), "look at a device");
  return std::string(properties.name) + " (" + shm::to_string(shm::device_id(ordinal)) + ")";
}

int ordinal_of(const shm::DeviceId& id) {
  const auto ordinal = shm::find_device(id);
  if (ordinal) return *ordinal;
  throw shm::Error("compute on a device", 0,
                   "It is " + shm::to_string(id) +
                       ", which this process does not see: check its CUDA_VISIBLE_DEVICES");
}

class CudaGpus final : public Gpus {
 public:
  GpuReport probe(int ordinal) override {
    const shm::IpcProbe found = shm::probe_ipc(ordinal);
    if (!found.computes()) throw NoGpu(found.text);
    return {.name = name_of(ordinal), .shares = found.shares(), .findings = found.text};
  }

  std::shared_ptr<BlockMemory> lay_out(shm::Arena& arena, const GpuLayout& layout) override {
    const auto ids = arena.construct_array<shm::DeviceId>(kGpuPlan, layout.ordinals.size());
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = shm::device_id(layout.ordinals[i]);
    *arena.construct<Use>(kUse) = {.shared = layout.block_bytes != 0,
                                   .deterministic = layout.deterministic};
    if (layout.block_bytes == 0) return std::make_shared<HostMemory>(arena);
    return GpuMemory::create(arena, layout);
  }

  WorkerPlace open(const shm::Arena& arena, std::uint32_t slot) override {
    const auto ids = arena.get_array<shm::DeviceId>(kGpuPlan);
    const int ordinal = ordinal_of(ids[slot % ids.size()]);
    const Use& use = *arena.get<Use>(kUse);
    if (use.deterministic) be_deterministic();
    const cudaStream_t stream = torch_cuda::select(ordinal);
    if (use.shared) {
      auto memory = GpuMemory::open(arena, slot, stream);
      auto device = std::make_unique<SharedGpu>(*memory, ordinal, stream);
      return {std::move(memory), std::move(device)};
    }
    auto memory = std::make_shared<HostMemory>(arena);
    auto device = std::make_unique<StagedGpu>(*memory, ordinal, stream);
    return {std::move(memory), std::move(device)};
  }
};

}  // namespace

Gpus& cuda_gpus() {
  static CudaGpus gpus;
  return gpus;
}

}  // namespace passel::device
