#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace passel::train {

/// The factors [batch, units] by which inverted dropout (Srivastava et al. 2014, as
/// torch.nn.Dropout) multiplies the activations of a ticket: 0 with probability `p`, else
/// 1 / (1 - p). Philox(seed, kDropout, ticket) in row order: a function of the arguments alone,
/// whoever computes the ticket and how often. Undefined where p is 0: there is nothing to multiply.
at::Tensor dropout_factors(double p, std::uint64_t seed, std::int64_t ticket, std::int64_t batch,
                           std::int64_t units);

}  // namespace passel::train
