#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "passel/device/block_memory.h"
#include "passel/shm_torch/named_tensors.h"
#include "passel/shm_torch/shared_parameters.h"

namespace passel::device {

/// What a ticket is computed from besides the parameters.
struct Inputs {
  at::Tensor x;        // [T, B, I]
  at::Tensor target;   // [B]
  at::Tensor dropout;  // [B, S] or undefined
};

/// What comes of a ticket. The parts lie where the blocks of the run's BlockMemory lie, one for
/// each parameter, dense; they are there when this object is.
struct Gradient {
  float loss = 0;
  double squared_norm = 0;    // over all parts; finite exactly when every element is
  double device_seconds = 0;  // of a GPU, by its own clock; 0 on the CPU
  std::vector<at::Tensor> parts;

  /// Neither the loss nor any element is not a finite number: what is not is rejected whole,
  /// because one NaN in the shared parameters reaches every worker.
  bool finite() const noexcept { return std::isfinite(loss) && std::isfinite(squared_norm); }
};

/// State that a ticket of a stateful run begins or ends with: h and c, each [layers, B, S].
using Carried = std::array<at::Tensor, 2>;

/// Bytes that torch's allocator has on the device for one process.
struct MemoryUse {
  std::int64_t allocated = 0;
  std::int64_t reserved = 0;
  std::int64_t peak = 0;  // most that was allocated at once
};

/// A model's parameters over the versions of a run.
class Parameters {
 public:
  Parameters() = default;
  virtual ~Parameters() = default;
  Parameters(const Parameters&) = delete;
  Parameters& operator=(const Parameters&) = delete;

  /// Makes the model's parameters those of the version: version % the number of versions kept. A
  /// version that others write meanwhile is read as it is found.
  virtual void use(std::int64_t version) = 0;
};

/// Where one worker computes: the CPU, or a GPU. For one thread, which no other device may use.
class ComputeDevice {
 public:
  ComputeDevice() = default;
  virtual ~ComputeDevice() = default;
  ComputeDevice(const ComputeDevice&) = delete;
  ComputeDevice& operator=(const ComputeDevice&) = delete;

  /// The tensors of a model that is built anew, and the versions of the run in the memory that the
  /// device was opened with, laid out by `spans`. All three must outlive the result.
  virtual std::unique_ptr<Parameters> bind(std::span<const shm::NamedTensor> tensors,
                                           std::span<const shm::ParameterSpan> spans,
                                           std::span<const std::span<float>> versions) = 0;

  /// Inputs will lie in this memory, whole pages, which must outlive it.
  virtual void expect_inputs_in(std::span<std::byte> memory) = 0;
  /// Begins to bring there what the next ticket needs, while this one is computed. `x` and `target`
  /// stay as they are until load() and the Gradient of that ticket.
  virtual void prefetch(std::int64_t ticket, const Inputs& inputs) = 0;
  /// The tensors to compute the ticket with. Those of the one before are gone then.
  virtual Inputs load(std::int64_t ticket, const Inputs& inputs) = 0;
  /// A state of the host, to compute the ticket with. `host` may change then.
  virtual Carried carry_in(const Carried& host) = 0;
  /// Before gradient(), for what comes of a ticket that was begun with carry_in(): the same in
  /// memory of the host, to be read after gradient() and until the next ticket.
  virtual Carried carry_out(const Carried& left) = 0;
  /// Takes the loss and the gradients, one for each parameter, and waits for them.
  virtual Gradient gradient(const at::Tensor& loss, std::vector<at::Tensor> parts) = 0;

  /// Nothing where it is no memory of its own: on the CPU.
  virtual std::optional<MemoryUse> memory_use() const = 0;
  /// Gives back what torch's allocator keeps of the device without a use for it.
  virtual void empty_cache() = 0;
};

/// Model's parameters as views of the versions, without a copy. `view` makes a tensor over floats.
template <class View>
class ParameterViews final : public Parameters {
 public:
  ParameterViews(std::span<const shm::NamedTensor> tensors,
                 std::span<const shm::ParameterSpan> spans,
                 std::span<const std::span<float>> versions, View view)
      : tensors_(tensors) {
    for (const std::span<float> version : versions) {
      auto& views = views_.emplace_back();
      for (const auto& span : spans) views.push_back(view(version.data() + span.begin, span.shape));
    }
  }

  void use(std::int64_t version) override {
    const auto& views = views_[static_cast<std::size_t>(version) % views_.size()];
    for (std::size_t i = 0; i < views.size(); ++i) tensors_[i].second.set_data(views[i]);
  }

 private:
  std::span<const shm::NamedTensor> tensors_;
  std::vector<std::vector<at::Tensor>> views_;  // [versions][parameters]
};

}  // namespace passel::device
