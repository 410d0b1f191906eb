#pragma once

#include <memory>
#include <vector>

#include "passel/device/block_memory.h"
#include "passel/shm/arena.h"

namespace passel::device {

/// Blocks in the arena; what is queued is done at once.
class HostMemory final : public BlockMemory {
 public:
  /// In the parent, and in a worker. The arena must outlive it.
  explicit HostMemory(shm::Arena& arena) : arena_(arena), added_to_(&arena) {}
  explicit HostMemory(const shm::Arena& arena) : arena_(arena) {}

  std::span<float> block(const std::string& name, std::size_t count) override;
  std::span<float> share(const std::string& name, std::span<float> host) override;
  std::span<float> scratch(std::size_t count) override;
  void read(std::span<const float> block, std::span<float> host) const override;
  void write(std::span<const float> host, std::span<float> block) const override;
  void copy(const float* from, float* to, std::size_t n) const noexcept override;
  double squared_norm(std::span<const Part> parts) const noexcept override;
  void apply_update(const kernels::UpdateOptions& options, const kernels::UpdateStep& step,
                    const kernels::UpdateSource& from, const float* gradient, float* parameters,
                    std::span<float* const> state, std::size_t n) const noexcept override;
  void compensate_delay(float lambda, const float* gradient, const float* now, const float* then,
                        float* out, std::size_t n) const noexcept override;
  void add(float* sum, const float* next, std::size_t n) const noexcept override;
  void scale(float* values, float factor, std::size_t n) const noexcept override;
  void finish() const noexcept override {}
  void forget(std::uint32_t /*slot*/) noexcept override {}

 private:
  const shm::Arena& arena_;
  shm::Arena* added_to_ = nullptr;  // the parent's
  std::vector<std::unique_ptr<std::vector<float>>> scratch_;
};

}  // namespace passel::device
