// The factor for clipping is the one that torch uses.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "passel/kernels/update.h"

namespace passel {
namespace {

TEST(ClipScale, IsWhatClipGradNormDoes) {
  torch::manual_seed(5);
  std::vector<torch::Tensor> parameters;
  for (const std::int64_t size : {3, 100, 1003}) {
    parameters.push_back(torch::zeros({size}, torch::requires_grad()));
  }
  for (const double limit : {0.0, 0.1, 1.0, 33.0, 1000.0}) {
    SCOPED_TRACE(limit);
    std::vector<torch::Tensor> gradients;
    double square = 0;
    for (auto& parameter : parameters) {
      gradients.push_back(torch::randn_like(parameter).detach());
      parameter.mutable_grad() = gradients.back().clone();
      square += kernels::squared_norm(gradients.back().const_data_ptr<float>(),
                                      static_cast<std::size_t>(parameter.numel()));
    }
    const double norm = torch::nn::utils::clip_grad_norm_(parameters, limit);
    EXPECT_NEAR(std::sqrt(square), norm, 1e-5 * norm);
    const float scale = kernels::clip_scale(square, limit);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      EXPECT_TRUE(torch::allclose(gradients[i] * scale, parameters[i].grad(), 1e-5, 1e-8));
    }
  }
}

}  // namespace
}  // namespace passel
