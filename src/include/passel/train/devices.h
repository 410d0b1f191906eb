#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "passel/device/gpus.h"
#include "passel/train/config.h"

namespace passel::train {

/// Where the workers of a run compute, as its parent sees it.
class Devices {
 public:
  /// Looks for the GPUs of --device; for the CPU it does nothing. To be made before the first
  /// model, because torch remembers whether there is CUDA. Throws UsageError when one is not to be
  /// had, or cannot do what the configuration asks of it.
  explicit Devices(const Config& config);

  /// The parent's way to the run's blocks: on the GPU, where there is only one and processes can
  /// share its memory; else none, which means in the arena. Before the first spawn.
  std::shared_ptr<device::BlockMemory> lay_out(shm::Arena& arena, const Config& config,
                                               std::size_t block_bytes) const;

  /// Of the GPUs; none for the CPU.
  std::vector<std::string> names() const;
  /// What a user is to know of how they are used.
  std::vector<std::string> notes(const Config& config) const;

 private:
  bool on_gpu() const { return shared_ && !ordinals_.empty(); }
  std::string placement(const Config& config) const;

  std::vector<int> ordinals_;
  std::vector<device::GpuReport> reports_;
  bool shared_ = false;
};

}  // namespace passel::train
