#include <ATen/TensorUtils.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/clone.h>

#include <algorithm>
#include <string_view>

#include "lltm_ops.h"
#include "passel/kernels/lltm.h"

namespace passel::detail {
namespace {

void expect_shape(std::string_view name, const at::Tensor& tensor, std::string_view letters,
                  c10::SymIntArrayRef expected) {
  TORCH_CHECK_VALUE(tensor.sym_sizes() == expected, "lltm expected ", name, " ", letters, " = ",
                    expected, ", got ", tensor.sym_sizes());
}

// Of `type`, which follows from x's, and where x is.
void expect_kind(std::string_view name, const at::Tensor& tensor, const at::Tensor& x,
                 at::ScalarType type) {
  TORCH_CHECK_TYPE(tensor.scalar_type() == type, "lltm expected ", name, " of type ", type,
                   type == x.scalar_type() ? " as x" : " beside x of a 16-bit type", ", got ",
                   tensor.scalar_type());
  TORCH_CHECK_VALUE(tensor.device() == x.device(), "lltm expected ", name, " on ", x.device(),
                    " as x, got ", tensor.device());
}

}  // namespace

void check_lltm_forward(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                        const at::Tensor& h0, const at::Tensor& c0, std::int64_t keep_every) {
  const at::ScalarType type = x.scalar_type();
  TORCH_CHECK_TYPE(
      type == at::kFloat || type == at::kDouble || type == at::kHalf || type == at::kBFloat16,
      "lltm expected x of type Float, Double, Half or BFloat16, got ", type);
  TORCH_CHECK_VALUE(keep_every >= 0, "lltm expected keep_every of 0 or more, got ", keep_every);
  TORCH_CHECK_VALUE(x.dim() == 3 && h0.dim() == 2,
                    "lltm expected x [T, B, I] and h0 [B, S], got x ", x.sym_sizes(), " and h0 ",
                    h0.sym_sizes());
  const auto batch = x.sym_size(1), input = x.sym_size(2), state = h0.sym_size(1);
  expect_shape("h0", h0, "[B, S]", {batch, state});
  expect_shape("c0", c0, "[B, S]", {batch, state});
  expect_shape("weight", weight, "[3S, S + I]", {state * 3, state + input});
  expect_shape("bias", bias, "[3S]", {state * 3});
  expect_kind("weight", weight, x, type);
  expect_kind("bias", bias, x, type);
  expect_kind("h0", h0, x, type);
  expect_kind("c0", c0, x, type_of_sums(x));
}

void check_lltm_backward(const at::Tensor& x, const at::Tensor& h0, const at::Tensor& hidden,
                         const at::Tensor& cells, const at::Tensor& gates, const at::Tensor& packed,
                         const std::optional<at::Tensor>& grad_hidden,
                         const std::optional<at::Tensor>& grad_h_last,
                         const std::optional<at::Tensor>& grad_c_last, std::int64_t keep_every) {
  const auto steps = x.sym_size(0), batch = x.sym_size(1), state = h0.sym_size(1);
  const auto expect = [&](std::string_view name, const std::optional<at::Tensor>& tensor,
                          std::string_view letters, c10::SymIntArrayRef expected,
                          at::ScalarType type) {
    if (!tensor || !tensor->defined()) return;
    expect_shape(name, *tensor, letters, expected);
    expect_kind(name, *tensor, x, type);
  };
  const at::ScalarType type = x.scalar_type(), sums = type_of_sums(x);
  expect("hidden", hidden, "[T, B, S]", {steps, batch, state}, type);
  const bool all = keep_every == 0;
  expect("cells", cells, all ? "[T, B, S]" : "[T / keep_every, B, S]",
         {steps_kept(steps, keep_every), batch, state}, sums);
  expect("gates", gates, all ? "[T, B, 3S]" : "[0, B, 3S]",
         {all ? steps : c10::SymInt(0), batch, state * 3}, sums);
  expect("packed", packed, "as lltm_forward returned it", {packed_elements(x, h0)}, sums);
  expect("grad_hidden", grad_hidden, "[T, B, S]", {steps, batch, state}, type);
  expect("grad_h_last", grad_h_last, "[B, S]", {batch, state}, type);
  expect("grad_c_last", grad_c_last, "[B, S]", {batch, state}, sums);
}

c10::SymInt steps_kept(const c10::SymInt& steps, std::int64_t keep_every) {
  // Longer than any sequence, and short enough to be added to one.
  constexpr std::int64_t kLongest = std::int64_t{1} << 62;
  const std::int64_t every = std::min(keep_every, kLongest);
  return every == 0 ? steps : (steps + (every - 1)) / every;
}

at::Tensor kept_cells(const at::Tensor& cells, std::int64_t keep_every) {
  if (keep_every == 0) return cells;
  const std::int64_t steps = cells.size(0);
  const at::Tensor regular = cells.slice(0, keep_every - 1, steps, keep_every);
  if (steps % keep_every == 0) return regular.clone(at::MemoryFormat::Contiguous);
  return at::cat({regular, cells.narrow(0, steps - 1, 1)});
}

at::ScalarType type_of_sums(const at::Tensor& x) {
  return at::isReducedFloatingType(x.scalar_type()) ? at::kFloat : x.scalar_type();
}

std::int64_t packed_elements(const at::Tensor& x, const at::Tensor& h0) {
  const kernels::LltmShape shape{.steps = 0,
                                 .batch = 0,
                                 .input = x.sym_size(2).guard_int(__FILE__, __LINE__),
                                 .state = h0.sym_size(1).guard_int(__FILE__, __LINE__)};
  return static_cast<std::int64_t>(kernels::lltm_packed_size(shape));
}

at::Tensor last_step(const at::Tensor& sequence, const at::Tensor& initial) {
  return sequence.size(0) == 0 ? initial.clone(at::MemoryFormat::Contiguous)
                               : sequence.select(0, -1).clone();
}

}  // namespace passel::detail
