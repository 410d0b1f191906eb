#include "passel/train/dropout.h"

#include <ATen/ops/empty.h>

#include "passel/train/philox.h"

namespace passel::train {

at::Tensor dropout_factors(double p, std::uint64_t seed, std::int64_t ticket, std::int64_t batch,
                           std::int64_t units) {
  if (p == 0) return {};
  at::Tensor factors = at::empty({batch, units}, at::kFloat);
  Philox random(seed, RandomPurpose::kDropout, static_cast<std::uint64_t>(ticket));
  const auto kept = static_cast<float>(1 / (1 - p));
  float* const values = factors.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < factors.numel(); ++i) {
    values[i] = random.uniform_float() < p ? 0 : kept;
  }
  return factors;
}

}  // namespace passel::train
