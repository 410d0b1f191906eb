#include "passel/kernels_torch/lltm.h"

#include <ATen/functorch/DynamicLayer.h>
#include <ATen/functorch/TensorWrapper.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <vector>

#include "lltm_ops.h"

// The operators for users, made of passel::lltm_forward: autograd, tracing and
// devices are its business.
namespace passel::detail {
namespace {

using at::Tensor;

// ATen would say no more than that it cannot. Python's None is an undefined tensor.
void expect_dense(const char* name, const Tensor& tensor) {
  TORCH_CHECK_TYPE(tensor.defined(), "lltm expected ", name, " to be a tensor, got none");
  TORCH_CHECK_TYPE(tensor.layout() == at::kStrided && !tensor.is_nested(), "lltm expected ", name,
                   " to be a dense tensor, got one of layout ", tensor.layout(),
                   tensor.is_nested() ? " that is nested" : "");
}

// lengths from long to short, and which row of the batch each belongs to.
struct RowsByLength {
  std::vector<std::int64_t> lengths;
  Tensor rows, places;
};

// On the CPU, and not wrapped for derivatives, of which integers have none.
Tensor with_values(Tensor lengths) {
  while (const auto* wrapper = at::functorch::maybeGetTensorWrapper(lengths)) {
    lengths = Tensor(wrapper->value());
  }
  // torch.compile breaks its graph here, vmap says that it has no single value.
  if (lengths.size(0) > 0) lengths.select(0, 0).item();
  TORCH_CHECK_NOT_IMPLEMENTED(!lengths.key_set().has(c10::DispatchKey::Python),
                              "lltm_padded cannot be traced or exported: which work is done "
                              "depends on the values in lengths");
  return lengths;
}

RowsByLength rows_by_length(const Tensor& x, const Tensor& lengths) {
  expect_dense("x", x);
  expect_dense("lengths", lengths);
  TORCH_CHECK_VALUE(x.dim() == 3, "lltm_padded expected x [T, B, I], got ", x.sym_sizes());
  TORCH_CHECK_VALUE(lengths.dim() == 1 && lengths.size(0) == x.size(1),
                    "lltm_padded expected lengths [B] = [", x.size(1), "], got ", lengths.sizes());
  TORCH_CHECK_TYPE(at::isIntegralType(lengths.scalar_type(), /*includeBool=*/false),
                   "lltm_padded expected lengths of an integer type, got ", lengths.scalar_type());
  TORCH_CHECK_VALUE(!lengths.is_meta(),
                    "lltm_padded expected lengths on a device that holds values, got meta");
  const auto [sorted, rows] =
      lengths.to(at::kCPU, at::kLong).sort(/*stable=*/true, /*dim=*/0, /*descending=*/true);
  const Tensor values = with_values(sorted);
  const auto* begin = values.const_data_ptr<std::int64_t>();
  RowsByLength result{.lengths = {begin, begin + values.numel()},
                      .rows = rows.to(x.device()),
                      .places = rows.argsort().to(x.device())};
  TORCH_CHECK_VALUE(
      result.lengths.empty() || (result.lengths.back() >= 0 && result.lengths.front() <= x.size(0)),
      "lltm_padded expected lengths between 0 and T = ", x.size(0), ", got ", result.lengths.back(),
      " to ", result.lengths.front());
  return result;
}

// Under transforms of torch.func, and with derivatives in forward mode, which know the
// derivatives of ATen's operators alone.
bool needs_atens_operators(std::initializer_list<std::reference_wrapper<const Tensor>> tensors) {
  return !at::functorch::getDynamicLayerStack().empty() ||
         std::any_of(tensors.begin(), tensors.end(),
                     [](const Tensor& tensor) { return tensor._fw_grad(/*level=*/0).defined(); });
}

}  // namespace

LltmResult lltm_of_any_type(const Tensor& x, const Tensor& weight, const Tensor& bias,
                            const Tensor& h0, const Tensor& c0, std::int64_t keep_every) {
  expect_dense("x", x);
  expect_dense("weight", weight);
  expect_dense("bias", bias);
  expect_dense("h0", h0);
  expect_dense("c0", c0);
  const bool widen =
      at::isReducedFloatingType(x.scalar_type()) && c0.scalar_type() == x.scalar_type();
  const Tensor c0_s = widen ? c0.to(at::kFloat) : c0;
  if (needs_atens_operators({x, weight, bias, h0, c0})) {
    return lltm_composed(x, weight, bias, h0, c0_s, keep_every);
  }
  const auto result = call_lltm_forward(x, weight, bias, h0, c0_s, keep_every);
  return {std::get<0>(result), std::get<1>(result), std::get<2>(result)};
}

std::tuple<Tensor, Tensor> lltm_one_step(const Tensor& input, const Tensor& weights,
                                         const Tensor& bias, const Tensor& old_h,
                                         const Tensor& old_cell) {
  expect_dense("input", input);
  expect_dense("bias", bias);
  TORCH_CHECK_VALUE(input.dim() == 2, "lltm_cell expected input [B, I], got ", input.sym_sizes());
  const bool is_row = bias.dim() == 2 && bias.sym_size(0) == 1;  // as the tutorial once had it
  const auto [hidden, h, c] =
      lltm(input.unsqueeze(0), weights, is_row ? bias.squeeze(0) : bias, old_h, old_cell);
  return {h, c};
}

// Between two ends of sequences the batch is a dense one: its longest rows.
LltmResult lltm_of_lengths(const Tensor& x_in, const Tensor& weight, const Tensor& bias,
                           const Tensor& h0, const Tensor& c0, const Tensor& lengths_in,
                           std::int64_t keep_every) {
  const RowsByLength by_length = rows_by_length(x_in, lengths_in);
  const std::vector<std::int64_t>& lengths = by_length.lengths;
  const auto batch = static_cast<std::int64_t>(lengths.size());
  const std::int64_t steps = x_in.size(0);
  // Checks all arguments and gives the states their types.
  Tensor empty, h, c;
  std::tie(empty, h, c) = lltm(x_in.narrow(0, 0, 0), weight, bias, h0, c0, keep_every);
  const Tensor x = x_in.index_select(1, by_length.rows);
  h = h.index_select(0, by_length.rows);
  c = c.index_select(0, by_length.rows);

  std::vector<Tensor> pieces, ends_h, ends_c;
  std::int64_t active = batch;
  const auto retire = [&](std::int64_t now) {
    const auto from = std::count_if(lengths.begin(), lengths.end(),
                                    [now](std::int64_t length) { return length > now; });
    ends_h.push_back(h.narrow(0, from, active - from));
    ends_c.push_back(c.narrow(0, from, active - from));
    h = h.narrow(0, 0, from);
    c = c.narrow(0, 0, from);
    active = from;
  };
  std::int64_t now = 0;
  for (retire(now); active > 0; retire(now)) {
    const std::int64_t end = lengths[static_cast<std::size_t>(active - 1)];
    const Tensor segment = x.narrow(0, now, end - now).narrow(1, 0, active);
    Tensor hidden;
    std::tie(hidden, h, c) = lltm(segment, weight, bias, h, c, keep_every);
    pieces.push_back(at::constant_pad_nd(hidden, {0, 0, 0, batch - active}));
    now = end;
  }
  pieces.push_back(at::zeros({steps - now, batch, h.size(1)}, empty.options()));
  std::reverse(ends_h.begin(), ends_h.end());
  std::reverse(ends_c.begin(), ends_c.end());
  return {at::cat(pieces).index_select(1, by_length.places),
          at::cat(ends_h).index_select(0, by_length.places),
          at::cat(ends_c).index_select(0, by_length.places)};
}

}  // namespace passel::detail
