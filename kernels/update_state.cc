#include <array>

#include "passel/kernels/update.h"

namespace passel::kernels {

std::span<const std::string_view> state_names(const UpdateOptions& options) noexcept {
  static constexpr std::array<std::string_view, 1> kMomentum = {"momentum_buffer"};
  static constexpr std::array<std::string_view, 2> kRmsprop = {"square_avg", "momentum_buffer"};
  static constexpr std::array<std::string_view, 1> kAdagrad = {"sum"};
  static constexpr std::array<std::string_view, 2> kAdam = {"exp_avg", "exp_avg_sq"};
  const bool momentum = options.momentum != 0;
  switch (options.rule) {
    case UpdateRule::kSgd:
      return std::span(kMomentum).first(momentum ? 1 : 0);
    case UpdateRule::kRmsprop:
      return std::span(kRmsprop).first(momentum ? 2 : 1);
    case UpdateRule::kAdagrad:
      return kAdagrad;
    case UpdateRule::kAdam:
    case UpdateRule::kAdamw:
      return kAdam;
  }
  return {};
}

int state_blocks(const UpdateOptions& options) noexcept {
  return static_cast<int>(state_names(options).size());
}

}  // namespace passel::kernels
