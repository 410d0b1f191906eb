#include "passel/shm_torch/shared_parameters.h"

#include <ATen/ops/from_blob.h>

#include <cstring>

#include "passel/shm/error.h"

namespace passel::shm {
namespace {

constexpr std::size_t kAlignFloats = 16;

std::size_t round_up(std::size_t floats) {
  return (floats + kAlignFloats - 1) / kAlignFloats * kAlignFloats;
}

// Names and shapes as text, kept beside the block: a worker whose module was
// built differently is told the first difference instead of training garbage.
std::string describe(std::span<const ParameterSpan> spans) {
  std::string text;
  for (const ParameterSpan& span : spans) {
    text += span.name + " [";
    for (std::size_t d = 0; d < span.shape.size(); ++d) {
      text += (d == 0 ? "" : ", ") + std::to_string(span.shape[d]);
    }
    text += "]\n";
  }
  return text;
}

std::string block_name(std::string_view name) {
  return std::string(name) + "/values";
}
std::string layout_name(std::string_view name) {
  return std::string(name) + "/layout";
}

}  // namespace

std::vector<ParameterSpan> flat_layout(std::span<const NamedTensor> tensors) {
  std::vector<ParameterSpan> spans;
  std::size_t begin = 0;
  for (const auto& [name, tensor] : tensors) {
    if (tensor.scalar_type() != c10::kFloat || !tensor.device().is_cpu()) {
      throw Error(
          "share parameters", 0,
          "expected fp32 CPU parameters, got " + std::string(tensor.toString()) + " for " + name);
    }
    const auto count = static_cast<std::size_t>(tensor.numel());
    spans.push_back({name, tensor.sizes().vec(), begin, count});
    begin += round_up(count);
  }
  return spans;
}

std::size_t flat_size(std::span<const ParameterSpan> spans) {
  return spans.empty() ? 0 : spans.back().begin + round_up(spans.back().count);
}

SharedParameters SharedParameters::create(Arena& arena, std::string_view name,
                                          std::span<const NamedTensor> tensors) {
  auto spans = flat_layout(tensors);
  const std::span<float> values = arena.construct_array<float>(block_name(name), flat_size(spans));
  const std::string text = describe(spans);
  const auto layout = arena.construct_array<char>(layout_name(name), text.size());
  std::memcpy(layout.data(), text.data(), text.size());
  SharedParameters result(std::move(spans), values);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor source = tensors[i].second.detach().contiguous();
    std::memcpy(values.data() + result.spans_[i].begin, source.const_data_ptr(),
                result.spans_[i].count * sizeof(float));
  }
  return result;
}

SharedParameters SharedParameters::open(const Arena& arena, std::string_view name,
                                        std::span<const NamedTensor> tensors) {
  auto spans = flat_layout(tensors);
  const auto stored = arena.get_array<char>(layout_name(name));
  const std::string expected(stored.begin(), stored.end());
  if (const std::string mine = describe(spans); mine != expected) {
    throw Error("open parameters", 0,
                "the model differs from the shared one; expected\n" + expected + "got\n" + mine);
  }
  return {std::move(spans), arena.get_array<float>(block_name(name))};
}

at::Tensor SharedParameters::view(std::span<float> block, std::size_t index) const {
  const ParameterSpan& span = spans_[index];
  return at::from_blob(block.data() + span.begin, span.shape,
                       at::TensorOptions().dtype(c10::kFloat));
}

void SharedParameters::bind(std::span<const NamedTensor> tensors) const {
  for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].second.set_data(view(values_, i));
}

}  // namespace passel::shm
