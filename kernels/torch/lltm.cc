#include "passel/kernels_torch/lltm.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <vector>

#include "lltm_ops.h"

// The operators for users, made of passel::lltm_forward: autograd, tracing and
// devices are its business.
namespace passel::detail {
namespace {

using at::Tensor;

// lengths from long to short, and which row of the batch each belongs to.
struct RowsByLength {
  std::vector<std::int64_t> lengths;
  Tensor rows, places;
};

RowsByLength rows_by_length(const Tensor& x, const Tensor& lengths) {
  TORCH_CHECK_VALUE(x.dim() == 3, "lltm_padded expected x [T, B, I], got ", x.sym_sizes());
  TORCH_CHECK_VALUE(lengths.dim() == 1 && lengths.size(0) == x.size(1),
                    "lltm_padded expected lengths [B] = [", x.size(1), "], got ", lengths.sizes());
  TORCH_CHECK_TYPE(at::isIntegralType(lengths.scalar_type(), /*includeBool=*/false),
                   "lltm_padded expected lengths of an integer type, got ", lengths.scalar_type());
  const auto [sorted, rows] =
      lengths.to(at::kCPU, at::kLong).sort(/*stable=*/true, /*dim=*/0, /*descending=*/true);
  const auto* begin = sorted.const_data_ptr<std::int64_t>();
  RowsByLength result{.lengths = {begin, begin + sorted.numel()},
                      .rows = rows.to(x.device()),
                      .places = rows.argsort().to(x.device())};
  TORCH_CHECK_VALUE(
      result.lengths.empty() || (result.lengths.back() >= 0 && result.lengths.front() <= x.size(0)),
      "lltm_padded expected lengths between 0 and T = ", x.size(0), ", got ", result.lengths.back(),
      " to ", result.lengths.front());
  return result;
}

}  // namespace

LltmResult lltm_of_any_type(const Tensor& x, const Tensor& weight, const Tensor& bias,
                            const Tensor& h0, const Tensor& c0, std::int64_t keep_every) {
  const bool widen =
      at::isReducedFloatingType(x.scalar_type()) && c0.scalar_type() == x.scalar_type();
  const auto result =
      call_lltm_forward(x, weight, bias, h0, widen ? c0.to(at::kFloat) : c0, keep_every);
  return {std::get<0>(result), std::get<1>(result), std::get<2>(result)};
}

std::tuple<Tensor, Tensor> lltm_one_step(const Tensor& input, const Tensor& weights,
                                         const Tensor& bias, const Tensor& old_h,
                                         const Tensor& old_cell) {
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
  const Tensor x = x_in.index_select(1, by_length.rows);
  Tensor empty, h = h0.index_select(0, by_length.rows), c = c0.index_select(0, by_length.rows);
  // Checks all arguments and gives the states their types.
  std::tie(empty, h, c) = lltm(x.narrow(0, 0, 0), weight, bias, h, c, keep_every);

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
