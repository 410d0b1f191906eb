#pragma once

#include <cmath>
#include <cstddef>
#include <iterator>
#include <random>
#include <vector>

#include "passel/kernels/update.h"

namespace passel::kernels {

/// An update rule and what it works on, the same for every backend. Values are of all magnitudes,
/// and some are zeros, subnormal, infinite or no number.
struct UpdateCase {
  UpdateOptions options;
  std::vector<float> parameters, gradient;
  std::vector<std::vector<float>> state;

  UpdateCase(const UpdateOptions& rule, std::size_t n) : options(rule) {
    std::mt19937 random(11);
    std::normal_distribution<float> normal;
    const auto values = [&](bool positive) {
      std::vector<float> made(n);
      for (float& value : made) {
        value = normal(random) * std::exp2(static_cast<float>(random() % 40) - 20);
        if (random() % 50 == 0) value = kSpecial[random() % std::size(kSpecial)];
        if (positive) value = std::abs(value);
      }
      return made;
    };
    parameters = values(false);
    gradient = values(false);
    // Averages of squares are not negative; a momentum may be anything.
    for (int s = 0; s < state_blocks(rule); ++s) state.push_back(values(true));
  }

  static constexpr float kSpecial[] = {0.0F, -0.0F, 1e-41F, 3e38F, HUGE_VALF, NAN};
};

inline std::vector<UpdateOptions> all_update_options() {
  using enum UpdateRule;
  return {{.rule = kSgd},
          {.rule = kSgd, .momentum = 0.9, .weight_decay = 0.01},
          {.rule = kSgd, .momentum = 0.9, .nesterov = true},
          {.rule = kRmsprop},
          {.rule = kRmsprop, .momentum = 0.5, .weight_decay = 0.01},
          {.rule = kAdagrad, .eps = 1e-10},
          {.rule = kAdam, .weight_decay = 0.01},
          {.rule = kAdamw, .weight_decay = 0.01}};
}

inline constexpr UpdateStep kUpdateStep{.lr = 0.013, .step = 7, .grad_scale = 0.37F};

/// Pointers to the state arrays of a case, const or not.
template <class Pointer, class Arrays>
std::vector<Pointer> pointers(Arrays& arrays) {
  std::vector<Pointer> found;
  for (auto& array : arrays) found.push_back(array.data());
  return found;
}

}  // namespace passel::kernels
