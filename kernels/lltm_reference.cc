#include "passel/kernels/lltm_reference.h"

#include <algorithm>
#include <vector>

#include "lltm_math.h"

namespace passel::kernels {
namespace {

const double* row_or_null(const double* rows, std::int64_t index, std::int64_t width) {
  return rows == nullptr ? nullptr : rows + index * width;
}

double value_or_zero(const double* row, std::int64_t i) {
  return row == nullptr ? 0.0 : row[i];
}

/// The weights as the forward pass kept them: W, then b.
struct Snapshot {
  const double* weight;
  const double* bias;

  Snapshot(const LltmShape& s, const double* packed)
      : weight(packed), bias(packed + 3 * s.state * (s.state + s.input)) {}
};

double gate_sum(const LltmShape& s, const Snapshot& w, std::int64_t gate, const double* h,
                const double* x) {
  const double* row = w.weight + gate * (s.state + s.input);
  double sum = w.bias[gate];
  for (std::int64_t k = 0; k < s.state; ++k) sum += row[k] * h[k];
  for (std::int64_t k = 0; k < s.input; ++k) sum += row[s.state + k] * x[k];
  return sum;
}

/// The states before step t of batch row b.
const double* before(const LltmShape& s, const double* first, const double* all, std::int64_t t,
                     std::int64_t b) {
  return t == 0 ? first + b * s.state : all + ((t - 1) * s.batch + b) * s.state;
}

void forward_row(const LltmShape& s, const LltmForward<double>& a, std::int64_t t, std::int64_t b) {
  const Snapshot w(s, a.packed);
  const std::int64_t row = t * s.batch + b;
  const double* h = before(s, a.h0, a.hidden, t, b);
  const double* c = (t == 0 ? a.c0 : a.c_last) + b * s.state;
  const double* x = a.x + row * s.input;
  double* gates = a.gates + row * 3 * s.state;
  for (std::int64_t u = 0; u < s.state; ++u) {
    const auto unit = lltm_unit(gate_sum(s, w, u, h, x), gate_sum(s, w, s.state + u, h, x),
                                gate_sum(s, w, 2 * s.state + u, h, x), c[u]);
    gates[u] = unit.input;
    gates[s.state + u] = unit.output;
    gates[2 * s.state + u] = unit.candidate;
    a.c_last[b * s.state + u] = unit.cell;
    a.cells[row * s.state + u] = unit.squashed;
    a.hidden[row * s.state + u] = unit.hidden;
  }
}

/// Gradients carried backward through time, for one batch row.
struct Carried {
  std::vector<double> h;
  std::vector<double> c;
};

/// dL/dgates of one row [3S]; updates `carried.c`.
std::vector<double> gate_gradients(const LltmShape& s, const LltmBackward<double>& a,
                                   std::int64_t row, Carried& carried) {
  const double* gates = a.gates + row * 3 * s.state;
  const double* grad_hidden = row_or_null(a.grad_hidden, row, s.state);
  std::vector<double> grads(3 * s.state);
  for (std::int64_t u = 0; u < s.state; ++u) {
    const auto grad = lltm_unit_grad(gates[u], gates[s.state + u], gates[2 * s.state + u],
                                     a.cells[row * s.state + u],
                                     carried.h[u] + value_or_zero(grad_hidden, u), carried.c[u]);
    grads[u] = grad.input;
    grads[s.state + u] = grad.output;
    grads[2 * s.state + u] = grad.candidate;
    carried.c[u] = grad.cell;
  }
  return grads;
}

/// Sends one row's gate gradients to the weights, the inputs and h before it.
void spread(const LltmShape& s, const LltmBackward<double>& a, const std::vector<double>& grads,
            const double* h, std::int64_t row, Carried& carried) {
  const Snapshot w(s, a.packed);
  const std::int64_t columns = s.state + s.input;
  const double* x = a.x + row * s.input;
  std::vector<double> inputs(columns);
  for (std::int64_t gate = 0; gate < 3 * s.state; ++gate) {
    for (std::int64_t k = 0; k < columns; ++k) {
      inputs[k] += grads[gate] * w.weight[gate * columns + k];
      if (a.grad_weight != nullptr) {
        a.grad_weight[gate * columns + k] += grads[gate] * (k < s.state ? h[k] : x[k - s.state]);
      }
    }
    if (a.grad_bias != nullptr) a.grad_bias[gate] += grads[gate];
  }
  std::copy_n(inputs.begin(), s.state, carried.h.begin());
  if (a.grad_x != nullptr) {
    std::copy(inputs.begin() + s.state, inputs.end(), a.grad_x + row * s.input);
  }
}

}  // namespace

void lltm_reference_forward(const LltmShape& s, const LltmForward<double>& arrays) {
  const std::int64_t weights = 3 * s.state * (s.state + s.input);
  std::copy_n(arrays.weight, weights, arrays.packed);
  std::copy_n(arrays.bias, 3 * s.state, arrays.packed + weights);
  if (s.steps == 0) std::copy_n(arrays.c0, s.batch * s.state, arrays.c_last);
  for (std::int64_t t = 0; t < s.steps; ++t) {
    for (std::int64_t b = 0; b < s.batch; ++b) forward_row(s, arrays, t, b);
  }
}

void lltm_reference_backward(const LltmShape& s, const LltmBackward<double>& a) {
  if (a.grad_weight != nullptr) {
    std::fill_n(a.grad_weight, 3 * s.state * (s.state + s.input), 0.0);
  }
  if (a.grad_bias != nullptr) std::fill_n(a.grad_bias, 3 * s.state, 0.0);
  for (std::int64_t b = 0; b < s.batch; ++b) {
    Carried carried{std::vector<double>(s.state), std::vector<double>(s.state)};
    for (std::int64_t u = 0; u < s.state; ++u) {
      carried.h[u] = value_or_zero(a.grad_h_last, b * s.state + u);
      carried.c[u] = value_or_zero(a.grad_c_last, b * s.state + u);
    }
    for (std::int64_t t = s.steps - 1; t >= 0; --t) {
      const std::int64_t row = t * s.batch + b;
      const auto grads = gate_gradients(s, a, row, carried);
      spread(s, a, grads, before(s, a.h0, a.hidden, t, b), row, carried);
    }
    if (a.grad_h0 != nullptr) std::ranges::copy(carried.h, a.grad_h0 + b * s.state);
    if (a.grad_c0 != nullptr) std::ranges::copy(carried.c, a.grad_c0 + b * s.state);
  }
}

}  // namespace passel::kernels
