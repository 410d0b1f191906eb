#include "linear_pack.h"

#include "lltm_pack.h"

namespace passel::kernels {
namespace {

/// panel[k][c] = W[first + c][k] for up to 48 outputs c, from W's input panels.
template <typename T>
void transpose(const LinearShape& shape, const T* input_panels, std::int64_t input_stride,
               std::int64_t first, T* panel) {
  const std::int64_t outputs = std::min(kPanelColumns, shape.output - first);
  for (std::int64_t k = 0; k < shape.input; ++k, panel += kPanelColumns) {
    const T* from =
        input_panels + k / kPanelColumns * input_stride + first * kPanelColumns + k % kPanelColumns;
    for (std::int64_t c = 0; c < outputs; ++c) panel[c] = from[c * kPanelColumns];
    std::fill(panel + outputs, panel + kPanelColumns, T{});
  }
}

template <typename T>
void pack(const LinearShape& shape, const T* weight, const T* bias, T* packed) {
  const LinearPackedLayout layout(shape);
  T* input_panels = packed + layout.input_panels();
  for (std::int64_t row = 0; row < shape.output; ++row) {
    T* to = input_panels + row * kPanelColumns;
    copy_to_panels(weight + row * shape.input, shape.input, to, layout.input_stride(), 0);
    clear_panel_rest(to, layout.input_stride(), shape.input);
  }
  for (std::int64_t first = 0; first < shape.output; first += kPanelColumns) {
    transpose(shape, input_panels, layout.input_stride(), first,
              packed + first / kPanelColumns * layout.output_stride());
  }
  std::copy_n(bias, shape.output, packed + layout.bias());
}

}  // namespace

std::size_t linear_packed_size(const LinearShape& shape) noexcept {
  return static_cast<std::size_t>(LinearPackedLayout(shape).size());
}

std::size_t linear_backward_workspace(const LinearShape& shape) noexcept {
  return static_cast<std::size_t>(LinearBackwardLayout(shape).size());
}

void pack_linear(const LinearShape& shape, const float* weight, const float* bias, float* packed) {
  pack(shape, weight, bias, packed);
}

void pack_linear(const LinearShape& shape, const double* weight, const double* bias,
                 double* packed) {
  pack(shape, weight, bias, packed);
}

}  // namespace passel::kernels
