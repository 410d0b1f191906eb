#include <cmath>

#include "passel/kernels/update.h"

namespace passel::kernels {

float clip_scale(double squared_norm, double limit) noexcept {
  const double scale = limit / (std::sqrt(squared_norm) + 1e-6);
  return scale > 1 ? 1.0F : static_cast<float>(scale);
}

}  // namespace passel::kernels
