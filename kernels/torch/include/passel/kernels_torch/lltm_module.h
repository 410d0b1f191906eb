#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <tuple>

namespace passel::nn {

// One LLTM layer with parameters weight [3S, S + I] and bias [3S], initialised
// uniformly in ±1/√S with torch's default generator.
class LLTMImpl : public torch::nn::Cloneable<LLTMImpl> {
 public:
  // Throws c10::Error unless both sizes are positive.
  LLTMImpl(std::int64_t input_size, std::int64_t state_size);

  void reset() override;

  // x [T, B, I]; h0, c0 [B, S], zero where undefined. Returns as passel::lltm does.
  std::tuple<at::Tensor, at::Tensor, at::Tensor> forward(const at::Tensor& x,
                                                         const at::Tensor& h0 = {},
                                                         const at::Tensor& c0 = {});

  at::Tensor weight, bias;

 private:
  std::int64_t input_size_, state_size_;
};

TORCH_MODULE(LLTM);

}  // namespace passel::nn
