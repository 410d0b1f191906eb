#pragma once

#include <vector>

#include "contestant.h"

namespace bench {

/// The products that an LLTM over a sequence is made of, each through Passel's public kernels and
/// through at::mm, with operands stored as the LLTM has them:
///
///   f1  gates from x          [T B, I] [I, 3S]      passel::kernels::linear_forward, which also
///                                                   packs the weights
///   f2  gates from h          T x [B, S] [S, 3S]    lltm_forward without x: activations included
///   b1  dh from dgates        T x [B, 3S] [3S, S]   linear_backward
///   b2  dW's columns for h    [3S, T B] [T B, S]    linear_backward
///   b3  dW's columns for x    [3S, T B] [T B, I]    linear_backward
///   b4  dx                    [T B, 3S] [3S, I]     linear_backward
///
/// Throws std::runtime_error where the two do not compute the same.
std::vector<Contestant> product_contestants(const Shape& shape);

}  // namespace bench
