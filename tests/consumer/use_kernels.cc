#include <cmath>
#include <cstdio>
#include <vector>

#include "passel/kernels/lltm.h"

namespace kernels = passel::kernels;

// With all weights 0, i = o = 1/2 and the candidate is 0, so that c' = c and h' = tanh(c) / 2.
int main() {
  constexpr kernels::LltmShape kShape{.steps = 1, .batch = 2, .input = 3, .state = 4};
  const std::vector<float> x(kShape.batch * kShape.input, 1.0F);
  const std::vector<float> weight(3 * kShape.state * (kShape.state + kShape.input), 0.0F);
  const std::vector<float> bias(3 * kShape.state, 0.0F);
  const std::vector<float> h0(kShape.batch * kShape.state, 0.0F);
  const std::vector<float> c0(kShape.batch * kShape.state, 1.0F);
  std::vector<float> hidden(h0.size()), c_last(h0.size()), cells(h0.size()), gates(3 * h0.size());
  std::vector<float> packed(kernels::lltm_packed_size(kShape));
  kernels::lltm_forward(kShape, kernels::LltmForward<float>{.x = x.data(),
                                                            .weight = weight.data(),
                                                            .bias = bias.data(),
                                                            .h0 = h0.data(),
                                                            .c0 = c0.data(),
                                                            .hidden = hidden.data(),
                                                            .c_last = c_last.data(),
                                                            .cells = cells.data(),
                                                            .gates = gates.data(),
                                                            .packed = packed.data()});
  const float expected = std::tanh(1.0F) / 2;
  for (const float h : hidden) {
    if (std::abs(h - expected) > 1e-6F) {
      std::printf("expected %g, got %g\n", expected, h);
      return 1;
    }
  }
  std::printf("h = %g\n", expected);
  return 0;
}
