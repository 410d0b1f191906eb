#include "passel/kernels_torch/lltm_module.h"

#include <cmath>

#include "passel/kernels_torch/lltm.h"

namespace passel::nn {

LLTMImpl::LLTMImpl(std::int64_t input_size, std::int64_t state_size)
    : input_size_(input_size), state_size_(state_size) {
  TORCH_CHECK(input_size > 0 && state_size > 0, "LLTM expected positive sizes, got input_size ",
              input_size, " and state_size ", state_size);
  LLTMImpl::reset();
}

void LLTMImpl::reset() {
  const double bound = 1.0 / std::sqrt(static_cast<double>(state_size_));
  weight = register_parameter(
      "weight", at::empty({3 * state_size_, state_size_ + input_size_}).uniform_(-bound, bound));
  bias = register_parameter("bias", at::empty({3 * state_size_}).uniform_(-bound, bound));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> LLTMImpl::forward(const at::Tensor& x,
                                                                 const at::Tensor& h0,
                                                                 const at::Tensor& c0) {
  TORCH_CHECK(x.dim() == 3, "LLTM expected x of shape [T, B, I], got ", x.sizes());
  const auto or_zero = [&](const at::Tensor& state) {
    return state.defined() ? state : at::zeros({x.size(1), state_size_}, x.options());
  };
  return lltm(x, weight, bias, or_zero(h0), or_zero(c0));
}

}  // namespace passel::nn
