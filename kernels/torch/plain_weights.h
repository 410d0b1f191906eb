#pragma once

#include <ATen/core/Tensor.h>

namespace passel::detail {

/// How all backends but the CPU's keep the weights that forward read: in `packed` stand W and the
/// bias as they are, in x's type. Views of it.
struct PlainWeights {
  at::Tensor all;     // [3S, S + I]
  at::Tensor from_h;  // [3S, S]
  at::Tensor from_x;  // [3S, I]
  at::Tensor bias;    // [3S]

  PlainWeights(const at::Tensor& packed, at::ScalarType type, std::int64_t state,
               std::int64_t input) {
    const std::int64_t count = 3 * state * (state + input);
    const at::Tensor elements = packed.view(type);
    all = elements.narrow(0, 0, count).view({3 * state, state + input});
    from_h = all.narrow(1, 0, state);
    from_x = all.narrow(1, state, input);
    bias = elements.narrow(0, count, 3 * state);
  }

  void read(const at::Tensor& weight, const at::Tensor& given_bias) const {
    all.copy_(weight);
    bias.copy_(given_bias);
  }
};

}  // namespace passel::detail
