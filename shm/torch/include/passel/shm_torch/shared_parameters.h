#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "passel/shm/arena.h"
#include "passel/shm_torch/named_tensors.h"

namespace passel::shm {

// Where one parameter lies in the flat block.
struct ParameterSpan {
  std::string name;
  std::vector<std::int64_t> shape;
  std::size_t begin;  // in floats from the block's start, a multiple of 16 (64 bytes)
  std::size_t count;  // floats
};

// A model's fp32 parameters as one flat block [size()] of shared memory. The
// parent creates it before the first spawn; each worker opens it with a module
// built the same way and binds that module to it. Update rules and copies run
// over the whole block at once; padding between parameters stays zero.
class SharedParameters {
 public:
  // Copies the tensors' values in. Throws Error for one that is not fp32.
  static SharedParameters create(Arena& arena, std::string_view name,
                                 std::span<const NamedTensor> tensors);

  // Throws Error when names or shapes differ from those it was created with.
  static SharedParameters open(const Arena& arena, std::string_view name,
                               std::span<const NamedTensor> tensors);

  // Makes each tensor a view of the block (like Module.share_memory()); the
  // tensors' own storage is dropped. The arena must outlive them.
  void bind(std::span<const NamedTensor> tensors) const;

  // The parameter as a tensor over `block`, which has this layout.
  at::Tensor view(std::span<float> block, std::size_t index) const;

  std::span<float> values() const { return values_; }
  const std::vector<ParameterSpan>& spans() const { return spans_; }

 private:
  SharedParameters(std::vector<ParameterSpan> spans, std::span<float> values)
      : spans_(std::move(spans)), values_(values) {}

  std::vector<ParameterSpan> spans_;
  std::span<float> values_;
};

// The flat layout of the tensors: each begins on a 64-byte border.
std::vector<ParameterSpan> flat_layout(std::span<const NamedTensor> tensors);

// Floats that a block of this layout takes.
std::size_t flat_size(std::span<const ParameterSpan> spans);

}  // namespace passel::shm
