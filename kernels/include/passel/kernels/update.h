#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace passel::kernels {

/// Update rules with the formulas and defaults of torch.optim's classes SGD,
/// RMSprop, Adagrad, Adam and AdamW (not centered, not amsgrad).
enum class UpdateRule { kSgd, kRmsprop, kAdagrad, kAdam, kAdamw };

/// What stays fixed during a run. An option that a rule does not use is ignored:
/// momentum is used by kSgd and kRmsprop, nesterov by kSgd, alpha by kRmsprop,
/// beta1 and beta2 by kAdam and kAdamw, eps by all but kSgd. weight_decay is
/// added to the gradient (L2), but in kAdamw shrinks the parameters (decoupled).
struct UpdateOptions {
  UpdateRule rule;
  double momentum = 0;
  bool nesterov = false;
  double alpha = 0.99;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;  ///< torch's default; for kAdagrad that is 1e-10
  double weight_decay = 0;
};

/// What changes from step to step.
struct UpdateStep {
  double lr;
  std::int64_t step;     ///< 1 for the first update; used by kAdam and kAdamw
  float grad_scale = 1;  ///< factor on the gradient, e.g. from clipping its norm
};

/// Names of the state arrays, in the order apply_update() takes them, as in
/// torch.optim's state_dict: "momentum_buffer", "square_avg", "sum", "exp_avg",
/// "exp_avg_sq". Each array is as long as the parameters and starts as zeros.
std::span<const std::string_view> state_names(const UpdateOptions& options) noexcept;

/// Number of state arrays: state_names(options).size().
int state_blocks(const UpdateOptions& options) noexcept;

/// What an update starts from: `parameters` [n] and the state arrays [n] in the order of
/// state_names(). Only read.
struct UpdateSource {
  const float* parameters;
  std::span<const float* const> state;
};

/// Makes one update to `n` parameters: reads `from` and the `gradient`, and writes what comes out
/// to `parameters` and `state`. An array that is written may be the one of `from` that it takes
/// the place of; else it overlaps nothing that is read. Whatever that choice, the same bits.
void apply_update(const UpdateOptions& options, const UpdateStep& step, const UpdateSource& from,
                  const float* gradient, float* parameters, std::span<float* const> state,
                  std::size_t n) noexcept;

/// The same in place.
///
/// `parameters` and `state` may be read and written by other processes at the
/// same time (Hogwild): an element's new value is made from one read of the old
/// one, and aligned 4-byte stores do not tear; updates may overwrite each other.
/// `gradient` is private and not changed. Without such races the result depends
/// on the arguments alone: same bits for AVX2, AVX-512 and NEON, and for any
/// split of the arrays.
void apply_update(const UpdateOptions& options, const UpdateStep& step, float* parameters,
                  const float* gradient, std::span<float* const> state, std::size_t n) noexcept;

/// Adds `deltas` [n] to `values` [n], which other threads and processes may do at
/// the same time: unlike with apply_update() no addition is lost. Each element is
/// atomic by itself, not the array. A compare-and-swap an element, so many times
/// slower. `deltas` is private.
void add_atomically(float* values, const float* deltas, std::size_t n) noexcept;

/// Sum of the squares of `values` [n], added in double in an order that depends
/// on n alone. For clipping by the norm.
double squared_norm(const float* values, std::size_t n) noexcept;

/// The factor on a gradient that brings its norm down to `limit` where it is larger, as
/// torch.nn.utils.clip_grad_norm_: limit / (norm + 1e-6), at most 1. The squared norm
/// over several arrays is the sum of theirs. NaN for NaN, 0 for an infinite norm.
float clip_scale(double squared_norm, double limit) noexcept;

/// out = gradient + lambda * gradient * gradient * (now - then), each [n]: a gradient that was
/// computed from the parameters `then`, as it would be at `now`, to first order, with lambda *
/// gradient^2 for the diagonal of the Hessian. Zheng et al.: "Asynchronous stochastic gradient
/// descent with delay compensation", ICML 2017 (arXiv 1609.08326). `out` may be `gradient`. Same
/// bits on every instruction set.
void compensate_delay(float lambda, const float* gradient, const float* now, const float* then,
                      float* out, std::size_t n) noexcept;

}  // namespace passel::kernels
