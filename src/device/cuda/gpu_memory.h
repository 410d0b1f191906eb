#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cuda_handles.h"
#include "passel/device/gpus.h"
#include "passel/shm/arena.h"
#include "passel/shm_cuda/device_arena.h"

namespace passel::device {

/// Blocks in one allocation of the parent on a GPU, which each worker opens once. Which block lies
/// where is noted in the arena. The device must be the calling thread's current one.
class GpuMemory final : public BlockMemory {
 public:
  /// Set-up, in the parent. Makes the device current. Throws shm::CudaError.
  static std::shared_ptr<GpuMemory> create(shm::Arena& arena, const GpuLayout& layout);
  /// In a worker, whose tensors are computed on `stream`. Throws shm::Error.
  static std::shared_ptr<GpuMemory> open(const shm::Arena& arena, std::uint32_t slot,
                                         cudaStream_t stream);
  /// Closes the memory; in the parent all workers have ended.
  ~GpuMemory() override;

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
  void finish() const noexcept override;
  void forget(std::uint32_t slot) noexcept override { memory_.forget(slot + 1); }

 private:
  struct Parent {
    shm::Arena* arena;
    std::uint32_t workers;
  };

  GpuMemory(const shm::Arena& arena, shm::DeviceArena memory, bool atomic_adds, cudaStream_t stream,
            std::optional<Parent> parent);

  const shm::Arena& arena_;
  shm::DeviceArena memory_;
  bool atomic_adds_;
  std::optional<Stream> own_stream_;  // the parent's
  cudaStream_t stream_;
  std::optional<Parent> parent_;
  std::uint64_t used_ = 0;  // the parent's: bytes in blocks
  std::vector<DeviceBytes> scratch_;
  DeviceBytes norm_;  // its partial sums, then the sum
  PinnedArray<double> norm_read_;
};

}  // namespace passel::device
