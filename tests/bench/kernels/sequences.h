#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <tuple>
#include <vector>

#include "contestant.h"

namespace bench {

/// Arguments of an LLTM over a sequence, drawn from a fixed seed, and the gradients of its last h
/// and c, from which backward starts.
struct Sequence {
  at::Tensor x, weight, bias, h0, c0;
  at::Tensor grad_h, grad_c;

  Sequence(const Shape& shape, Gradients gradients);

  /// Those whose gradients are asked for.
  std::vector<at::Tensor> differentiated() const;
};

/// h and c after the last step.
using LastState = std::tuple<at::Tensor, at::Tensor>;
using Cell = std::function<LastState(const Sequence&)>;

/// passel::lltm().
LastState passel_sequence(const Sequence& arguments);
/// The formulas of PyTorch's C++ extension tutorial in ATen's operators, differentiated by
/// autograd.
LastState composed_sequence(const Sequence& arguments);
/// The same with a node of autograd a step, whose backward is written by hand in ATen's operators,
/// as the tutorial's C++ version is.
LastState tutorial_sequence(const Sequence& arguments);

/// Throws std::runtime_error unless the peers that compute the same have the same results and
/// gradients.
void check_sequences(const Shape& shape);

/// Passel and its peers. `all_peers`: not only the composed one.
std::vector<Contestant> sequence_contestants(const Shape& shape, Gradients gradients,
                                             bool all_peers);

/// torch::nn::LSTM of the same sizes: 4 gates where the LLTM has 3, so 4/3 of its work. All of
/// that work counts, which makes its fraction of the peak that of an LSTM of as many FLOPs.
Contestant lstm_contestant(const Shape& shape);

}  // namespace bench
