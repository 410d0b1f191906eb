#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "passel/device/block_memory.h"
#include "passel/device/compute_device.h"
#include "passel/shm/arena.h"

namespace passel::device {

/// There is no GPU to compute on: a sentence with what was found and what to do.
class NoGpu : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What the parent found out about a GPU.
struct GpuReport {
  std::string name;      // as nvidia-smi lists it, with its UUID
  bool shares = false;   // its memory can be shared between processes
  std::string findings;  // why not, in words
};

/// How a run uses GPUs.
struct GpuLayout {
  std::vector<int> ordinals;    // worker slot s computes on ordinals[s % size]
  std::uint32_t workers = 0;    // slots
  std::size_t block_bytes = 0;  // of device memory for blocks, on ordinals[0]; 0: in the arena
  bool atomic_adds = false;     // updates of blocks on a GPU: see BlockMemory::apply_update()
  bool deterministic = false;   // as torch.use_deterministic_algorithms(True), in the workers
};

/// A worker's share: where it computes, and where the blocks of the run lie. The device uses the
/// memory, so it goes first.
struct WorkerPlace {
  std::shared_ptr<BlockMemory> memory;
  std::unique_ptr<ComputeDevice> device;
};

/// The GPUs of this machine. CUDA code is in a library of its own, libpassel_train_cuda.so, which
/// only a program that trains on a GPU loads; this is all that the trainer knows of it.
class Gpus {
 public:
  Gpus() = default;
  virtual ~Gpus() = default;
  Gpus(const Gpus&) = delete;
  Gpus& operator=(const Gpus&) = delete;

  /// Starts CUDA on a device, by its number among CUDA_VISIBLE_DEVICES. For the parent, before it
  /// spawns. Throws NoGpu.
  virtual GpuReport probe(int ordinal) = 0;

  /// Set-up in the parent, before the first spawn: notes in the arena where workers compute.
  /// @return the parent's way to the blocks. Throws shm::Error.
  virtual std::shared_ptr<BlockMemory> lay_out(shm::Arena& arena, const GpuLayout& layout) = 0;

  /// In a worker. It finds its device by UUID, whatever number it has here. Throws shm::Error.
  virtual WorkerPlace open(const shm::Arena& arena, std::uint32_t slot) = 0;
};

/// Loads the library, if that is not done yet, before torch is asked whether there is CUDA. Throws
/// NoGpu with the loader's reasons. Does not need a GPU, and makes no context.
Gpus& loaded_gpus();

/// Those that the trainer uses: loaded_gpus(), unless others were provided.
Gpus& gpus();

/// Those that gpus() gives from now on: for tests and benchmarks.
void provide_gpus(Gpus& gpus);

/// Where a worker computes: on the GPU that lay_out() noted, or on the CPU with the blocks in the
/// arena.
WorkerPlace open_place(const shm::Arena& arena, std::uint32_t slot);

/// Name of the block in the arena that lay_out() adds.
inline constexpr const char* kGpuPlan = "gpus";

}  // namespace passel::device
