#include <ATen/ATen.h>
#include <passel/kernels_torch/lltm.h>

#include <cstdio>

// Differentiates a sequence of the LLTM through the installed operator.
int main() {
  const at::Tensor weight = at::zeros({12, 7}).set_requires_grad(true);
  const at::Tensor state = at::ones({2, 4});
  const auto [hidden, h, c] =
      passel::lltm(at::ones({5, 2, 3}), weight, at::zeros({12}), state, state);
  h.sum().backward();
  // With zero weights the candidate is 0, so the cell keeps its 1, and o = 1/2.
  const bool right =
      at::allclose(h, at::tanh(state) / 2) && weight.grad().abs().sum().item<float>() > 0;
  std::printf("%s\n", right ? "ok" : "wrong");
  return right ? 0 : 1;
}
