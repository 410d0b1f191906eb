#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lltm_case.h"
#include "passel/kernels/linear_loss.h"

namespace passel::kernels::test {

/// All arrays of a linear layer, inputs uniform in +-1, drawn from `seed`.
template <typename T>
struct LinearCase {
  LinearShape shape;
  Guarded<T> x, weight, bias, grad_output;
  Guarded<T> output, packed;
  Guarded<T> grad_x, grad_weight, grad_bias, workspace;
  T scale = T(0.75);

  LinearCase(const LinearShape& s, std::uint64_t seed) : shape(s) {
    const auto batch = static_cast<std::size_t>(s.batch);
    const auto input = static_cast<std::size_t>(s.input);
    const auto output_size = static_cast<std::size_t>(s.output);
    for (auto* a : {&x, &grad_x}) *a = Guarded<T>(batch * input);
    for (auto* a : {&weight, &grad_weight}) *a = Guarded<T>(output_size * input);
    for (auto* a : {&bias, &grad_bias}) *a = Guarded<T>(output_size);
    for (auto* a : {&output, &grad_output}) *a = Guarded<T>(batch * output_size);
    packed = Guarded<T>(linear_packed_size(s));
    workspace = Guarded<T>(linear_backward_workspace(s));
    std::mt19937_64 engine(seed);
    for (auto* a : {&x, &weight, &bias, &grad_output}) {
      for (T& value : a->values()) {
        value = static_cast<T>(static_cast<double>(engine() >> 11) * 0x1p-52 - 1);
      }
    }
  }

  LinearForward<T> forward_arrays() {
    return {.x = x.data(),
            .weight = weight.data(),
            .bias = bias.data(),
            .output = output.data(),
            .packed = packed.data()};
  }
  LinearBackward<T> backward_arrays() {
    return {.x = x.data(),
            .packed = packed.data(),
            .grad_output = grad_output.data(),
            .scale = scale,
            .grad_x = grad_x.data(),
            .grad_weight = grad_weight.data(),
            .grad_bias = grad_bias.data(),
            .workspace = workspace.data()};
  }
  LinearCase& forward() {
    linear_forward(shape, forward_arrays());
    return *this;
  }
  LinearCase& run() {
    forward();
    linear_backward(shape, backward_arrays());
    return *this;
  }

  std::vector<Guarded<T>*> gradients() { return {&grad_x, &grad_weight, &grad_bias}; }
  std::vector<Guarded<T>*> results() { return {&output, &grad_x, &grad_weight, &grad_bias}; }
};

/// What LinearCase::run() should give, as plain loops in double.
struct LinearReference {
  std::vector<double> output, grad_x, grad_weight, grad_bias;

  template <typename T>
  explicit LinearReference(const LinearCase<T>& c)
      : output(c.output.size()),
        grad_x(c.x.size()),
        grad_weight(c.weight.size()),
        grad_bias(c.bias.size()) {
    const auto input = static_cast<std::size_t>(c.shape.input);
    const auto outputs = static_cast<std::size_t>(c.shape.output);
    for (std::size_t i = 0; i < output.size(); ++i) {
      const std::size_t b = i / outputs;
      const std::size_t j = i % outputs;
      const double grad = static_cast<double>(c.grad_output[i]) * static_cast<double>(c.scale);
      output[i] = static_cast<double>(c.bias[j]);
      grad_bias[j] += grad;
      for (std::size_t k = 0; k < input; ++k) {
        const auto weight = static_cast<double>(c.weight[j * input + k]);
        const auto value = static_cast<double>(c.x[b * input + k]);
        output[i] += value * weight;
        grad_x[b * input + k] += grad * weight;
        grad_weight[j * input + k] += grad * value;
      }
    }
  }

  std::vector<std::vector<double>*> results() {
    return {&output, &grad_x, &grad_weight, &grad_bias};
  }
};

template <typename T>
struct LossResult {
  std::optional<std::int64_t> bad_row;
  T loss;
  Guarded<T> slopes;
};

template <typename T>
LossResult<T> cross_entropy_of(const Guarded<T>& logits, const std::vector<std::int64_t>& target,
                               std::int64_t classes) {
  LossResult<T> r{.bad_row = {}, .loss = T{-1}, .slopes = Guarded<T>(logits.size())};
  r.bad_row = cross_entropy(static_cast<std::int64_t>(target.size()), classes,
                            CrossEntropy<T>{.logits = logits.data(),
                                            .target = target.data(),
                                            .slopes = r.slopes.data(),
                                            .loss = &r.loss});
  return r;
}

template <typename T>
LossResult<T> squared_error_of(const Guarded<T>& output, const Guarded<T>& target) {
  LossResult<T> r{.bad_row = {}, .loss = T{-1}, .slopes = Guarded<T>(output.size())};
  squared_error(static_cast<std::int64_t>(output.size()), SquaredError<T>{.output = output.data(),
                                                                          .target = target.data(),
                                                                          .slopes = r.slopes.data(),
                                                                          .loss = &r.loss});
  return r;
}

}  // namespace passel::kernels::test
