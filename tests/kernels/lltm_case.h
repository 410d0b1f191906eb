#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "passel/kernels/lltm.h"
#include "passel/kernels/lltm_reference.h"

namespace passel::kernels::test {

/// An array that starts as NaN, between guards that show writes beyond its ends.
/// Its first element is aligned to its own type only.
template <typename T>
class Guarded {
 public:
  explicit Guarded(std::size_t size = 0)
      : size_(size), all_(size + 2 * kGuard, std::numeric_limits<T>::quiet_NaN()) {
    std::fill_n(all_.begin(), kGuard, kPattern);
    std::fill_n(all_.end() - kGuard, kGuard, kPattern);
  }

  T* data() { return all_.data() + kGuard; }
  const T* data() const { return all_.data() + kGuard; }
  std::size_t size() const { return size_; }
  T& operator[](std::size_t i) { return data()[i]; }
  T operator[](std::size_t i) const { return data()[i]; }
  std::span<T> values() { return {data(), size_}; }
  std::span<const T> values() const { return {data(), size_}; }

  bool guards_intact() const {
    const auto intact = [](T x) { return x == kPattern; };
    return std::all_of(all_.begin(), all_.begin() + kGuard, intact) &&
           std::all_of(all_.end() - kGuard, all_.end(), intact);
  }

 private:
  static constexpr std::ptrdiff_t kGuard = 33;
  static constexpr T kPattern = T(-12345.5);

  std::size_t size_;
  std::vector<T> all_;
};

/// All arrays of one forward and backward run, inputs drawn from `seed`: W and b
/// uniform in +-1/sqrt(S), as LLTM modules start, the rest in +-1.
template <typename T>
struct LltmCase {
  LltmShape shape;
  LltmPlan plan;
  Guarded<T> x, weight, bias, h0, c0;
  Guarded<T> hidden, c_last, cells, gates, packed;
  Guarded<T> grad_hidden, grad_h_last, grad_c_last;
  Guarded<T> grad_x, grad_weight, grad_bias, grad_h0, grad_c0, workspace;

  explicit LltmCase(const LltmShape& s, const LltmPlan& p = {}) : shape(s), plan(p) {
    const auto rows = static_cast<std::size_t>(s.steps * s.batch);
    const auto state = static_cast<std::size_t>(s.state);
    const auto input = static_cast<std::size_t>(s.input);
    const auto batch = static_cast<std::size_t>(s.batch);
    for (auto* a : {&x, &grad_x}) *a = Guarded<T>(rows * input);
    for (auto* a : {&weight, &grad_weight}) *a = Guarded<T>(3 * state * (state + input));
    for (auto* a : {&bias, &grad_bias}) *a = Guarded<T>(3 * state);
    for (auto* a : {&h0, &c0, &c_last, &grad_h_last, &grad_c_last, &grad_h0, &grad_c0}) {
      *a = Guarded<T>(batch * state);
    }
    for (auto* a : {&hidden, &grad_hidden}) *a = Guarded<T>(rows * state);
    cells = Guarded<T>(static_cast<std::size_t>(lltm_cells_kept(s, plan)) * batch * state);
    gates = Guarded<T>(plan.keep_every > 0 ? 0 : rows * 3 * state);
    packed = Guarded<T>(lltm_packed_size(s));
    workspace = Guarded<T>(lltm_backward_workspace(s, plan));
  }

  LltmCase(const LltmShape& s, std::uint64_t seed, double weight_scale = 1, const LltmPlan& p = {})
      : LltmCase(s, p) {
    std::mt19937_64 engine(seed);
    const double bound =
        weight_scale / std::sqrt(static_cast<double>(std::max<std::int64_t>(s.state, 1)));
    const auto draw = [&](Guarded<T>& a, double scale) {
      for (T& value : a.values()) {
        value = static_cast<T>((static_cast<double>(engine() >> 11) * 0x1p-52 - 1) * scale);
      }
    };
    draw(weight, bound);
    draw(bias, bound);
    for (auto* a : inputs()) draw(*a, 1);
  }

  /// The same inputs in another type.
  template <typename U>
  LltmCase<U> as() {
    LltmCase<U> other(shape);
    const auto copy = [](const Guarded<T>& from, Guarded<U>& to) {
      for (std::size_t i = 0; i < from.size(); ++i) to[i] = static_cast<U>(from[i]);
    };
    copy(weight, other.weight);
    copy(bias, other.bias);
    const auto to = other.inputs();
    for (std::size_t i = 0; i < to.size(); ++i) copy(*inputs()[i], *to[i]);
    return other;
  }

  std::vector<Guarded<T>*> inputs() {
    return {&x, &h0, &c0, &grad_hidden, &grad_h_last, &grad_c_last};
  }
  std::vector<Guarded<T>*> outputs() { return {&hidden, &c_last, &cells, &gates}; }
  std::vector<Guarded<T>*> gradients() {
    return {&grad_x, &grad_weight, &grad_bias, &grad_h0, &grad_c0};
  }
  std::vector<Guarded<T>*> results() {
    auto all = outputs();
    for (auto* a : gradients()) all.push_back(a);
    return all;
  }

  LltmForward<T> forward_arrays() {
    return {.x = x.data(),
            .weight = weight.data(),
            .bias = bias.data(),
            .h0 = h0.data(),
            .c0 = c0.data(),
            .hidden = hidden.data(),
            .c_last = c_last.data(),
            .cells = cells.data(),
            .gates = gates.data(),
            .packed = packed.data()};
  }
  LltmBackward<T> backward_arrays() {
    return {.x = x.data(),
            .h0 = h0.data(),
            .c0 = c0.data(),
            .hidden = hidden.data(),
            .cells = cells.data(),
            .gates = gates.data(),
            .packed = packed.data(),
            .grad_hidden = grad_hidden.data(),
            .grad_h_last = grad_h_last.data(),
            .grad_c_last = grad_c_last.data(),
            .grad_x = grad_x.data(),
            .grad_weight = grad_weight.data(),
            .grad_bias = grad_bias.data(),
            .grad_h0 = grad_h0.data(),
            .grad_c0 = grad_c0.data(),
            .workspace = workspace.data()};
  }

  LltmCase& forward() {
    lltm_forward(shape, forward_arrays(), plan);
    return *this;
  }
  LltmCase& run() {
    forward();
    lltm_backward(shape, backward_arrays(), plan);
    return *this;
  }
  LltmCase& run_reference() requires std::is_same_v<T, double> {
    lltm_reference_forward(shape, forward_arrays());
    lltm_reference_backward(shape, backward_arrays());
    return *this;
  }
};

/// |a - b| / |b| in the Euclidean norm; infinite where a holds a NaN.
template <typename A, typename B>
double relative_error(std::span<A> a, std::span<B> b) {
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    if (!std::isfinite(d)) return std::numeric_limits<double>::infinity();
    difference += d * d;
    norm += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  return difference == 0 ? 0 : std::sqrt(difference / norm);
}

template <typename T>
bool same_bits(std::span<const T> a, std::span<const T> b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

template <typename T>
bool same_bits(const Guarded<T>& a, const Guarded<T>& b) {
  return same_bits(a.values(), b.values());
}

}  // namespace passel::kernels::test
