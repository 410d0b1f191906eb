#pragma once

#include "passel/device/gpus.h"

namespace passel::device {

/// GPUs on which a worker copies the batch of its first ticket and computes all tickets from it:
/// all that training does but the copies of batches. What it trains is of no use; its speed says
/// what the copies cost.
class ResidentGpus final : public Gpus {
 public:
  /// @param base the GPUs to compute on; called when they are needed
  explicit ResidentGpus(Gpus& (*base)()) : base_(base) {}

  GpuReport probe(int ordinal) override { return base_().probe(ordinal); }
  std::shared_ptr<BlockMemory> lay_out(shm::Arena& arena, const GpuLayout& layout) override {
    return base_().lay_out(arena, layout);
  }
  WorkerPlace open(const shm::Arena& arena, std::uint32_t slot) override;

 private:
  Gpus& (*base_)();
};

/// The device that such a worker computes on.
std::unique_ptr<ComputeDevice> with_resident_inputs(std::unique_ptr<ComputeDevice> base);

}  // namespace passel::device
