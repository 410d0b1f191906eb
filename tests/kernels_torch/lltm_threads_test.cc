#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include "passel/kernels_torch/lltm.h"

namespace passel {
namespace {

std::array<at::Tensor, 5> lltm_gradients(std::array<at::Tensor, 5> inputs) {
  for (at::Tensor& input : inputs) input = input.detach().requires_grad_();
  const auto [hidden, h_last, c_last] = lltm(inputs[0], inputs[1], inputs[2], inputs[3], inputs[4]);
  (hidden.sum() + c_last.sum()).backward();
  std::array<at::Tensor, 5> gradients;
  for (std::size_t i = 0; i < inputs.size(); ++i) gradients[i] = inputs[i].grad();
  return gradients;
}

TEST(LltmThreads, ChangeNoBitOfTheGradients) {
  constexpr std::int64_t kSteps = 20, kBatch = 32, kInput = 28, kState = 96;
  const std::array<at::Tensor, 5> inputs = {
      at::rand({kSteps, kBatch, kInput}), at::rand({3 * kState, kState + kInput}) / 10 - 0.05,
      at::rand({3 * kState}), at::rand({kBatch, kState}), at::rand({kBatch, kState})};
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const auto expected = lltm_gradients(inputs);
  for (const int threads : {2, 3}) {
    at::set_num_threads(threads);
    const auto gradients = lltm_gradients(inputs);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      EXPECT_TRUE(at::equal(gradients[i], expected[i])) << threads << " threads, gradient " << i;
    }
  }
  at::set_num_threads(before);
}

}  // namespace
}  // namespace passel
