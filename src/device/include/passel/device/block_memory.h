#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "passel/kernels/update.h"

namespace passel::device {

/// One of the arrays that a gradient consists of.
struct Part {
  const float* values;  // [count]
  std::size_t count;
};

/// Where the blocks of floats lie that all processes of a run share (parameters, optimiser state,
/// gradients), and the arithmetic on them: in the arena of the host, or on a GPU. Pointers and
/// spans are of that memory: the host may be unable to read them.
///
/// Arithmetic is queued: it sees what this process queued before it, and other processes see it
/// once finish() has returned. What it computes is a function of its arguments alone. Where the
/// memory is a GPU's and the driver fails, the functions that are noexcept end the process with
/// the driver's words on stderr: what it had under way is lost, as by a SIGKILL.
///
/// One object per process and run, used by one thread.
class BlockMemory {
 public:
  BlockMemory() = default;
  virtual ~BlockMemory() = default;
  BlockMemory(const BlockMemory&) = delete;
  BlockMemory& operator=(const BlockMemory&) = delete;

  /// A block of all processes, [count]. The parent adds it, as zeros, before the first spawn; a
  /// worker finds it. Throws shm::Error.
  virtual std::span<float> block(const std::string& name, std::size_t count) = 0;
  /// A block that begins as `host`, which is memory of the arena; where blocks are of the arena
  /// too, `host` itself.
  virtual std::span<float> share(const std::string& name, std::span<float> host) = 0;
  /// Memory of this process alone, arbitrary at first, [count]. It lives as long as this object.
  virtual std::span<float> scratch(std::size_t count) = 0;

  /// Copies between a block and ordinary memory of the same length, and waits for it.
  virtual void read(std::span<const float> block, std::span<float> host) const = 0;
  virtual void write(std::span<const float> host, std::span<float> block) const = 0;

  virtual void copy(const float* from, float* to, std::size_t n) const noexcept = 0;
  /// Sum of the squares of all parts, in an order that depends on their sizes alone. Waits for it.
  virtual double squared_norm(std::span<const Part> parts) const noexcept = 0;
  /// kernels::apply_update(). On a GPU that was laid out with atomic_adds it is done in place, and
  /// what parameters change by is added to them: no update that others make meanwhile is lost.
  /// State is read and written as ever.
  virtual void apply_update(const kernels::UpdateOptions& options, const kernels::UpdateStep& step,
                            const kernels::UpdateSource& from, const float* gradient,
                            float* parameters, std::span<float* const> state,
                            std::size_t n) const noexcept = 0;
  /// kernels::compensate_delay().
  virtual void compensate_delay(float lambda, const float* gradient, const float* now,
                                const float* then, float* out, std::size_t n) const noexcept = 0;
  /// sum += next, each [n].
  virtual void add(float* sum, const float* next, std::size_t n) const noexcept = 0;
  /// values *= factor, [n].
  virtual void scale(float* values, float factor, std::size_t n) const noexcept = 0;
  /// Waits for all that this object has queued.
  virtual void finish() const noexcept = 0;

  /// For the parent, once the worker of a slot is provably dead.
  virtual void forget(std::uint32_t slot) noexcept = 0;
};

}  // namespace passel::device
