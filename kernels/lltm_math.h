#pragma once

#include <cmath>

#ifdef __CUDACC__
#define PASSEL_HOST_DEVICE __host__ __device__
#else
#define PASSEL_HOST_DEVICE
#endif

namespace passel::kernels {

// The formulas of the LLTM cell for one element, for any backend. They select
// where a derivative changes branch and never multiply by a mask: 0 * inf is NaN.

template <typename T>
PASSEL_HOST_DEVICE T sigmoid_of(T z) {
  return T{1} / (T{1} + std::exp(-z));
}

template <typename T>
PASSEL_HOST_DEVICE T elu_of(T z) {
  return z > T{0} ? z : std::expm1(z);
}

/// sigmoid' and elu' from the activation's value.
template <typename T>
PASSEL_HOST_DEVICE T sigmoid_slope(T activation) {
  return activation * (T{1} - activation);
}

template <typename T>
PASSEL_HOST_DEVICE T elu_slope(T activation) {
  return activation > T{0} ? T{1} : activation + T{1};
}

template <typename T>
struct LltmUnit {
  T input;      // i
  T output;     // o
  T candidate;  // g
  T cell;       // c after the step
  T squashed;   // tanh(c) after the step
  T hidden;     // h after the step
};

/// From the gates before their activations and the cell before the step.
template <typename T>
PASSEL_HOST_DEVICE LltmUnit<T> lltm_unit(T input, T output, T candidate, T cell) {
  LltmUnit<T> unit;
  unit.input = sigmoid_of(input);
  unit.output = sigmoid_of(output);
  unit.candidate = elu_of(candidate);
  unit.cell = cell + unit.candidate * unit.input;
  unit.squashed = std::tanh(unit.cell);
  unit.hidden = unit.squashed * unit.output;
  return unit;
}

template <typename T>
struct LltmUnitGrad {
  T input;  // dL/d(gate before its activation)
  T output;
  T candidate;
  T cell;  // dL/dc before the step, which is also dL/dc after it in all
};

/// From the activations i, o, g, tanh(c) after the step, and the gradients by h
/// and c after the step.
template <typename T>
PASSEL_HOST_DEVICE LltmUnitGrad<T> lltm_unit_grad(T input, T output, T candidate, T squashed,
                                                  T grad_hidden, T grad_cell) {
  LltmUnitGrad<T> grad;
  grad.cell = grad_cell + grad_hidden * output * (T{1} - squashed * squashed);
  grad.input = grad.cell * candidate * sigmoid_slope(input);
  grad.output = grad_hidden * squashed * sigmoid_slope(output);
  grad.candidate = grad.cell * input * elu_slope(candidate);
  return grad;
}

}  // namespace passel::kernels
