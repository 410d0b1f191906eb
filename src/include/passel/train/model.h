#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "passel/shm_torch/shared_parameters.h"
#include "passel/train/dataset.h"

namespace passel::train {

/// An LLTM layer over the sequence and a linear head on its last hidden state:
/// a classifier with cross-entropy, or a regressor with squared error where the
/// data set has no classes. Parameters, in this order: lltm.weight [3S, S + I],
/// lltm.bias [3S], head.weight [C, S], head.bias [C]; C = 1 for regression.
///
/// torch/nn stays out of this header: files that include it compile in seconds.
class Model {
 public:
  /// h and c of every layer, [layers, B, S] each.
  struct State {
    at::Tensor h, c;
  };

  /// Initialised from `seed`: the same in every process.
  Model(const SampleShape& shape, std::int64_t hidden_size, std::uint64_t seed);
  ~Model();
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;

  /// x [T, B, I] -> [B, C]: class scores, or the predicted value.
  /// @param state what the sequences begin with, and then what they end with, without its history;
  /// nullptr: they begin with zeros
  at::Tensor predict(const at::Tensor& x, State* state = nullptr);
  /// Mean loss over the batch, a scalar. target: int64 labels [B] or float values [B].
  /// @param dropout factors [B, S] on the last hidden state (see dropout_factors()); undefined:
  /// none
  /// @param state as in predict()
  at::Tensor loss(const at::Tensor& x, const at::Tensor& target, const at::Tensor& dropout = {},
                  State* state = nullptr);

  /// Zeros, for a batch of so many.
  State initial_state(std::int64_t batch) const;

  const std::vector<shm::NamedTensor>& parameters() const { return parameters_; }
  const SampleShape& shape() const { return shape_; }

 private:
  struct Module;

  SampleShape shape_;
  std::shared_ptr<Module> module_;
  std::vector<shm::NamedTensor> parameters_;
};

}  // namespace passel::train
