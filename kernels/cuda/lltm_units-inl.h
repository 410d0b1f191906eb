#pragma once

#include <cstdint>
#include <type_traits>

#include "lltm_math.h"
#include "passel/kernels_cuda/lltm_pointwise.h"

// What one thread of the pointwise kernels does, for the GPU and, in tests, the CPU.
// A group is kWidth neighbouring units of one row; kWidth divides S where it is not 1.
namespace passel::kernels {

/// The groups of one thread: first, first + stride, ...
struct GridShare {
  std::int64_t first;
  std::int64_t stride;
};

PASSEL_HOST_DEVICE inline GridShare share_of_thread(std::int64_t block, std::int64_t thread,
                                                    std::int64_t threads, std::int64_t blocks) {
  return {block * threads + thread, blocks * threads};
}

/// Where a group stands: in [B, S], at its first gate in [B, 3S], and in [S].
struct GroupPlace {
  std::int64_t state;
  std::int64_t gate;
  std::int64_t unit;
};

template <int kWidth>
PASSEL_HOST_DEVICE GroupPlace place_of_group(std::int64_t group, std::int64_t state) {
  const std::int64_t first = group * kWidth;
  const std::int64_t row = first / state;
  return {first, first + 2 * row * state, first - row * state};
}

/// kWidth elements that are read and written at once.
template <typename T, int kWidth>
struct alignas(sizeof(T) * kWidth) Units {
  T at[kWidth];
};

template <int kWidth, typename T>
PASSEL_HOST_DEVICE auto load_units(const T* from) {
  using Sum = typename SumOf<T>::type;
  const auto stored = *reinterpret_cast<const Units<T, kWidth>*>(from);
  Units<Sum, kWidth> units;
  for (int k = 0; k < kWidth; ++k) units.at[k] = to_float(stored.at[k]);
  return units;
}

template <int kWidth, typename T>
PASSEL_HOST_DEVICE auto load_units_or_zero(const T* from, std::int64_t offset) {
  if (from != nullptr) return load_units<kWidth>(from + offset);
  Units<typename SumOf<T>::type, kWidth> zeros;
  for (int k = 0; k < kWidth; ++k) zeros.at[k] = 0;
  return zeros;
}

template <int kWidth, typename T, typename Sum>
PASSEL_HOST_DEVICE void store_units(const Units<Sum, kWidth>& units, T* to) {
  Units<T, kWidth> stored;
  for (int k = 0; k < kWidth; ++k) {
    if constexpr (std::is_same_v<T, Sum>) {
      stored.at[k] = units.at[k];
    } else {
      stored.at[k] = from_float<T>(units.at[k]);
    }
  }
  *reinterpret_cast<Units<T, kWidth>*>(to) = stored;
}

/// A gate of a group before its activation.
template <int kWidth, typename T, typename Sum>
PASSEL_HOST_DEVICE Units<Sum, kWidth> gate_sums(const LltmPointwiseForward<T, Sum>& a,
                                                std::int64_t gate, std::int64_t column) {
  Units<Sum, kWidth> sums = load_units<kWidth>(a.from_x + gate);
  const Units<Sum, kWidth> from_h = load_units<kWidth>(a.from_h + gate);
  const Units<Sum, kWidth> bias = load_units<kWidth>(a.bias + column);
  for (int k = 0; k < kWidth; ++k) sums.at[k] += from_h.at[k] + bias.at[k];
  return sums;
}

template <int kWidth, typename T, typename Sum>
PASSEL_HOST_DEVICE void compute_group(const LltmPointwiseForward<T, Sum>& a, std::int64_t group) {
  const GroupPlace place = place_of_group<kWidth>(group, a.state);
  const std::int64_t second = a.state, third = 2 * a.state;
  Units<Sum, kWidth> i = gate_sums<kWidth>(a, place.gate, place.unit);
  Units<Sum, kWidth> o = gate_sums<kWidth>(a, place.gate + second, place.unit + second);
  Units<Sum, kWidth> g = gate_sums<kWidth>(a, place.gate + third, place.unit + third);
  Units<Sum, kWidth> c = load_units<kWidth>(a.cell_in + place.state);
  Units<Sum, kWidth> h;
  for (int k = 0; k < kWidth; ++k) {
    const LltmUnit<Sum> unit = lltm_unit(i.at[k], o.at[k], g.at[k], c.at[k]);
    i.at[k] = unit.input;
    o.at[k] = unit.output;
    g.at[k] = unit.candidate;
    c.at[k] = unit.cell;
    h.at[k] = unit.hidden;
  }
  store_units(i, a.gates + place.gate);
  store_units(o, a.gates + place.gate + second);
  store_units(g, a.gates + place.gate + third);
  store_units(c, a.cell + place.state);
  store_units(h, a.hidden + place.state);
}

template <int kWidth, typename T, typename Sum>
PASSEL_HOST_DEVICE void compute_group(const LltmPointwiseBackward<T, Sum>& a, std::int64_t group) {
  const GroupPlace place = place_of_group<kWidth>(group, a.state);
  const std::int64_t second = a.state, third = 2 * a.state;
  Units<Sum, kWidth> i = load_units<kWidth>(a.gates + place.gate);
  Units<Sum, kWidth> o = load_units<kWidth>(a.gates + place.gate + second);
  Units<Sum, kWidth> g = load_units<kWidth>(a.gates + place.gate + third);
  const Units<Sum, kWidth> c = load_units<kWidth>(a.cell + place.state);
  const Units<Sum, kWidth> by_loss = load_units_or_zero<kWidth>(a.grad_hidden, place.state);
  const Units<Sum, kWidth> carried = load_units_or_zero<kWidth>(a.grad_hidden_in, place.state);
  Units<Sum, kWidth> by_c = load_units_or_zero<kWidth>(a.grad_cell_in, place.state);
  for (int k = 0; k < kWidth; ++k) {
    const LltmUnitGrad<Sum> grad = lltm_unit_grad(i.at[k], o.at[k], g.at[k], std::tanh(c.at[k]),
                                                  by_loss.at[k] + carried.at[k], by_c.at[k]);
    i.at[k] = grad.input;
    o.at[k] = grad.output;
    g.at[k] = grad.candidate;
    by_c.at[k] = grad.cell;
  }
  store_units(i, a.grad_gates + place.gate);
  store_units(o, a.grad_gates + place.gate + second);
  store_units(g, a.grad_gates + place.gate + third);
  store_units(by_c, a.grad_cell + place.state);
}

/// All that one thread does.
template <int kWidth, typename Arrays>
PASSEL_HOST_DEVICE void compute_share(const Arrays& arrays, GridShare share) {
  const std::int64_t groups = arrays.batch * arrays.state / kWidth;
  for (std::int64_t group = share.first; group < groups; group += share.stride) {
    compute_group<kWidth>(arrays, group);
  }
}

}  // namespace passel::kernels
