#pragma once

#include <cstdint>
#include <string>

namespace bench {

/// A sequence that is measured: T steps, batch B, input I, state S.
struct Shape {
  std::int64_t t, b, i, s;

  std::string name() const {
    return std::string("t")
        .append(std::to_string(t))
        .append("_b")
        .append(std::to_string(b))
        .append("_i")
        .append(std::to_string(i))
        .append("_s")
        .append(std::to_string(s));
  }
};

/// Floating point operations that a pass must do, and bytes of the arrays that it must read or
/// write once. Pointwise work is not counted, neither here nor for the peers.
struct Work {
  double flops, bytes;

  friend Work operator+(Work a, Work b) { return {a.flops + b.flops, a.bytes + b.bytes}; }
};

/// Which gradients are asked for: of all arguments, or of weight and bias alone, as the trainer
/// asks.
enum class Gradients { kAll, kWeights };

/// Gates from h and x: 3S columns each.
inline Work forward_work(const Shape& n) {
  const auto t = static_cast<double>(n.t), b = static_cast<double>(n.b),
             i = static_cast<double>(n.i), s = static_cast<double>(n.s);
  return {6 * t * b * s * (i + s), 4 * (t * b * i + 3 * s * (s + i) + 5 * t * b * s)};
}

/// Without dx and dh0: dh of all steps but the first, and dW.
inline Work backward_work(const Shape& n, Gradients gradients) {
  const auto t = static_cast<double>(n.t), b = static_cast<double>(n.b),
             i = static_cast<double>(n.i), s = static_cast<double>(n.s);
  const double weights = 6 * t * b * s * (i + s);
  const double bytes = 4 * (t * b * i + 6 * s * (s + i) + 5 * t * b * s);
  if (gradients == Gradients::kAll) return {2 * weights, bytes + 4 * t * b * i};
  return {weights + 6 * (t - 1) * b * s * s, bytes};
}

/// `count` products [rows, depth] [depth, columns].
inline Work product_work(std::int64_t count, std::int64_t rows, std::int64_t depth,
                         std::int64_t columns) {
  const auto c = static_cast<double>(count), m = static_cast<double>(rows),
             k = static_cast<double>(depth), n = static_cast<double>(columns);
  return {2 * c * m * k * n, 4 * c * (m * k + k * n + m * n)};
}

}  // namespace bench
