#pragma once

#include <cmath>

#include "passel/kernels/update.h"

namespace passel::kernels {

/// No rule has more state arrays.
inline constexpr std::size_t kMostStateBlocks = 2;

/// UpdateOptions and UpdateStep with the scalars of the formulas, in float.
struct UpdateFactors {
  float grad_scale;
  float weight_decay;  // added to the gradient
  float shrink;        // factor on the parameters: decoupled weight decay
  float step_size;     // lr, for Adam lr / (1 - beta1^t)
  float momentum;
  bool nesterov;
  float alpha;
  float one_minus_alpha;
  float one_minus_beta1;
  float beta2;
  float one_minus_beta2;
  float correction;  // 1 / sqrt(1 - beta2^t)
  float eps;
};

inline UpdateFactors update_factors(const UpdateOptions& o, const UpdateStep& step) {
  const bool adamw = o.rule == UpdateRule::kAdamw;
  const bool adam = o.rule == UpdateRule::kAdam || adamw;
  const auto t = static_cast<double>(step.step);
  const double bias1 = adam ? 1 - std::pow(o.beta1, t) : 1;
  const double bias2 = adam ? 1 - std::pow(o.beta2, t) : 1;
  return {.grad_scale = step.grad_scale,
          .weight_decay = static_cast<float>(adamw ? 0 : o.weight_decay),
          .shrink = static_cast<float>(adamw ? 1 - step.lr * o.weight_decay : 1),
          .step_size = static_cast<float>(step.lr / bias1),
          .momentum = static_cast<float>(o.momentum),
          .nesterov = o.nesterov,
          .alpha = static_cast<float>(o.alpha),
          .one_minus_alpha = static_cast<float>(1 - o.alpha),
          .one_minus_beta1 = static_cast<float>(1 - o.beta1),
          .beta2 = static_cast<float>(o.beta2),
          .one_minus_beta2 = static_cast<float>(1 - o.beta2),
          .correction = static_cast<float>(1 / std::sqrt(bias2)),
          .eps = static_cast<float>(o.eps)};
}

/// Where parameters and state are read and where they are written: the same arrays in place,
/// others out of place.
struct UpdateArrays {
  const float* parameters;
  const float* state[kMostStateBlocks];
  float* new_parameters;
  float* new_state[kMostStateBlocks];
};

inline UpdateArrays update_arrays(const UpdateSource& from, float* parameters,
                                  std::span<float* const> state) {
  UpdateArrays arrays{from.parameters, {}, parameters, {}};
  for (std::size_t s = 0; s < state.size(); ++s) {
    arrays.state[s] = from.state[s];
    arrays.new_state[s] = state[s];
  }
  return arrays;
}

}  // namespace passel::kernels
