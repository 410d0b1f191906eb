#include "passel/kernels_torch/lltm_module.h"

#include <ATen/ops/dropout.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <ostream>
#include <string>

#include "passel/kernels_torch/lltm.h"

namespace passel::nn {

using at::Tensor;

LLTMOptions::LLTMOptions(std::int64_t input_size, std::int64_t hidden_size)
    : input_size_(input_size), hidden_size_(hidden_size) {}

LLTMImpl::LLTMImpl(const LLTMOptions& options) : options(options) {
  TORCH_CHECK_VALUE(
      options.input_size() > 0 && options.hidden_size() > 0 && options.num_layers() > 0,
      "LLTM expected positive sizes, got input_size ", options.input_size(), ", hidden_size ",
      options.hidden_size(), " and num_layers ", options.num_layers());
  TORCH_CHECK_VALUE(options.dropout() >= 0 && options.dropout() <= 1,
                    "LLTM expected dropout between 0 and 1, got ", options.dropout());
  TORCH_CHECK_VALUE(options.keep_every() >= 0, "LLTM expected keep_every of 0 or more, got ",
                    options.keep_every());
  LLTMImpl::reset();
}

void LLTMImpl::reset() {
  const std::int64_t state = options.hidden_size();
  const double bound = 1.0 / std::sqrt(static_cast<double>(state));
  layers_.clear();
  for (std::int64_t k = 0; k < options.num_layers(); ++k) {
    const std::int64_t input = k == 0 ? options.input_size() : state;
    const std::string suffix = k == 0 ? "" : "_l" + std::to_string(k);
    // In this order, on which the values drawn from the generator depend.
    const Tensor weights = register_parameter(
        "weight" + suffix, at::empty({3 * state, state + input}).uniform_(-bound, bound));
    const Tensor biases =
        register_parameter("bias" + suffix, at::empty({3 * state}).uniform_(-bound, bound));
    layers_.push_back({.weight = weights, .bias = biases});
  }
  weight = layers_[0].weight;
  bias = layers_[0].bias;
}

void LLTMImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "passel::nn::LLTM(input_size=" << options.input_size()
         << ", hidden_size=" << options.hidden_size() << ", num_layers=" << options.num_layers()
         << ", dropout=" << options.dropout() << ", batch_first=" << options.batch_first()
         << ", keep_every=" << options.keep_every() << ")";
}

LLTMImpl::State LLTMImpl::initial_state(const Tensor& x, const std::optional<State>& state) const {
  const std::vector<std::int64_t> expected = {options.num_layers(), x.size(1),
                                              options.hidden_size()};
  if (!state) {
    const Tensor zeros = at::zeros(expected, x.options());
    return {zeros, zeros};
  }
  const auto& [h, c] = *state;
  TORCH_CHECK_VALUE(h.defined() && c.defined() && h.sizes() == expected && c.sizes() == expected,
                    "LLTM expected state (h0, c0) with [L, B, S] = ", at::IntArrayRef(expected),
                    " each, got ", h.defined() ? h.sizes() : at::IntArrayRef(), " and ",
                    c.defined() ? c.sizes() : at::IntArrayRef());
  return *state;
}

std::tuple<Tensor, LLTMImpl::State> LLTMImpl::forward(const Tensor& x,
                                                      const std::optional<State>& state,
                                                      const Tensor& lengths) {
  TORCH_CHECK_VALUE(x.dim() == 3 && x.size(2) == options.input_size(), "LLTM expected x of shape ",
                    options.batch_first() ? "[B, T, " : "[T, B, ", options.input_size(), "], got ",
                    x.sizes());
  Tensor sequence = options.batch_first() ? x.transpose(0, 1) : x;
  const auto [h0, c0] = initial_state(sequence, state);
  std::vector<Tensor> h_ends, c_ends;
  for (std::int64_t k = 0; k < options.num_layers(); ++k) {
    const auto& [weights, biases] = layers_[static_cast<std::size_t>(k)];
    if (k > 0) sequence = at::dropout(sequence, options.dropout(), is_training());
    const Tensor h = h0.select(0, k), c = c0.select(0, k);
    Tensor h_end, c_end;
    std::tie(sequence, h_end, c_end) =
        lengths.defined()
            ? lltm_padded(sequence, weights, biases, h, c, lengths, options.keep_every())
            : lltm(sequence, weights, biases, h, c, options.keep_every());
    h_ends.push_back(h_end);
    c_ends.push_back(c_end);
  }
  return {options.batch_first() ? sequence.transpose(0, 1) : sequence,
          {at::stack(h_ends), at::stack(c_ends)}};
}

}  // namespace passel::nn
