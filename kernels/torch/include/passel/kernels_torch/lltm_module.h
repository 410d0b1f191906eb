#pragma once

#include <torch/arg.h>
#include <torch/nn/cloneable.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/common.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

namespace passel::nn {

/// Options of LLTM, with the names and defaults that torch::nn::LSTMOptions has.
struct LLTMOptions {
  LLTMOptions(std::int64_t input_size, std::int64_t hidden_size);

  TORCH_ARG(std::int64_t, input_size);      ///< I, > 0
  TORCH_ARG(std::int64_t, hidden_size);     ///< S, > 0
  TORCH_ARG(std::int64_t, num_layers) = 1;  ///< L, > 0; each reads what the one below it puts out
  TORCH_ARG(double, dropout) = 0;        ///< in [0, 1]: of each layer's output but the last one's
  TORCH_ARG(bool, batch_first) = false;  ///< x and output are [B, T, ...] instead of [T, B, ...]
  TORCH_ARG(std::int64_t, keep_every) = 0;  ///< >= 0: memory for time in backward, see lltm()
};

/// A stack of LLTM layers. Layer 0 has the parameters weight [3S, S + I] and bias
/// [3S], layer k weight_lK [3S, 2S] and bias_lK; all are initialised uniformly in
/// ±1/√S with torch's default generator, which dropout uses, too.
class LLTMImpl : public torch::nn::Cloneable<LLTMImpl> {
 public:
  using State = std::tuple<at::Tensor, at::Tensor>;

  /// Throws c10::ValueError for options out of range.
  explicit LLTMImpl(const LLTMOptions& options);
  LLTMImpl(std::int64_t input_size, std::int64_t hidden_size)
      : LLTMImpl(LLTMOptions(input_size, hidden_size)) {}

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  /// x [T, B, I]; state (h0, c0), [L, B, S] each, zero where it is not given;
  /// lengths [B] of an integer type where sequences are padded, see lltm_padded().
  /// Returns as torch::nn::LSTM does: the last layer's output [T, B, S] and the
  /// state (h, c) at each sequence's end, [L, B, S] each.
  std::tuple<at::Tensor, State> forward(const at::Tensor& x, const std::optional<State>& state = {},
                                        const at::Tensor& lengths = {});

  LLTMOptions options;
  at::Tensor weight, bias;

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(std::optional<State>())},
                           {2, torch::nn::AnyValue(at::Tensor())})

 private:
  struct Layer {
    at::Tensor weight, bias;
  };

  State initial_state(const at::Tensor& x, const std::optional<State>& state) const;

  std::vector<Layer> layers_;
};

TORCH_MODULE(LLTM);

}  // namespace passel::nn
