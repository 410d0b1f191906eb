// The one file with intended data races. In Hogwild mode several processes run
// apply_update() on the same parameters and the same state without locks. Plain
// vector loads and stores are used on purpose: relaxed atomics would keep the
// compiler from vectorising. It holds because each element is loaded once and
// stored once, aligned 4-byte elements do not tear on any supported machine, and
// any mixture of old and new elements is a legal state for Hogwild.
// ThreadSanitizer rightly reports the races when the processes are threads.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "update.cc"
#include "simd_targets.h"
// Between these two: Highway includes this file once per instruction set.
#include <hwy/foreach_target.h>
// Highway's own order of includes.
#include <hwy/highway.h>

#include <atomic>
#include <cmath>

#include "passel/kernels/update.h"
#include "settle_isa.h"
#include "vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace passel::kernels::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

/// UpdateOptions and UpdateStep with the scalars of the formulas, in float.
struct Factors {
  float grad_scale;
  float weight_decay;  // added to the gradient
  float shrink;        // factor on the parameters: decoupled weight decay
  float step_size;     // lr, for Adam lr / (1 - beta1^t)
  float momentum;
  bool nesterov;
  float alpha;
  float one_minus_alpha;
  float one_minus_beta1;
  float beta2;
  float one_minus_beta2;
  float correction;  // 1 / sqrt(1 - beta2^t)
  float eps;
};

Factors factors(const UpdateOptions& o, const UpdateStep& step) {
  const bool adamw = o.rule == UpdateRule::kAdamw;
  const bool adam = o.rule == UpdateRule::kAdam || adamw;
  const auto t = static_cast<double>(step.step);
  const double bias1 = adam ? 1 - std::pow(o.beta1, t) : 1;
  const double bias2 = adam ? 1 - std::pow(o.beta2, t) : 1;
  return {.grad_scale = step.grad_scale,
          .weight_decay = static_cast<float>(adamw ? 0 : o.weight_decay),
          .shrink = static_cast<float>(adamw ? 1 - step.lr * o.weight_decay : 1),
          .step_size = static_cast<float>(step.lr / bias1),
          .momentum = static_cast<float>(o.momentum),
          .nesterov = o.nesterov,
          .alpha = static_cast<float>(o.alpha),
          .one_minus_alpha = static_cast<float>(1 - o.alpha),
          .one_minus_beta1 = static_cast<float>(1 - o.beta1),
          .beta2 = static_cast<float>(o.beta2),
          .one_minus_beta2 = static_cast<float>(1 - o.beta2),
          .correction = static_cast<float>(1 / std::sqrt(bias2)),
          .eps = static_cast<float>(o.eps)};
}

/// Where parameters and state are read and where they are written: the same arrays in place,
/// others out of place.
struct Arrays {
  const float* parameters;
  const float* const* state;
  float* new_parameters;
  float* const* new_state;
};

/// Element i on of state array `block`.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V load_state(D d, const Arrays& a, std::size_t block, std::size_t i) {
  return hn::LoadU(d, a.state[block] + i);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V store_state(D d, const Arrays& a, std::size_t block, std::size_t i, V next) {
  hn::StoreU(next, d, a.new_state[block] + i);
  return next;
}

/// buffer = momentum * buffer + g
template <class D, class V = hn::Vec<D>>
HWY_INLINE V momentum_of(D d, const Factors& f, V g, const Arrays& a, std::size_t block,
                         std::size_t i) {
  const V old = load_state(d, a, block, i);
  return store_state(d, a, block, i, mul_add(d, hn::Set(d, f.momentum), old, g));
}

/// average = decay * average + gain * g^2
template <class D, class V = hn::Vec<D>>
HWY_INLINE V square_average(D d, float decay, float gain, V g, const Arrays& a, std::size_t block,
                            std::size_t i) {
  const V old = hn::Mul(hn::Set(d, decay), load_state(d, a, block, i));
  return store_state(d, a, block, i, mul_add(d, hn::Mul(hn::Set(d, gain), g), g, old));
}

/// Direction of the update, to be multiplied by -step_size. `momentum` says that
/// the rule keeps a momentum buffer.
template <UpdateRule kRule, class D, class V = hn::Vec<D>>
HWY_INLINE V direction(D d, const Factors& f, bool momentum, V g, const Arrays& a, std::size_t i) {
  const V eps = hn::Set(d, f.eps);
  if constexpr (kRule == UpdateRule::kSgd) {
    if (!momentum) return g;
    const V velocity = momentum_of(d, f, g, a, 0, i);
    return f.nesterov ? mul_add(d, hn::Set(d, f.momentum), velocity, g) : velocity;
  } else if constexpr (kRule == UpdateRule::kRmsprop) {
    const V average = square_average(d, f.alpha, f.one_minus_alpha, g, a, 0, i);
    const V scaled = hn::Div(g, hn::Add(hn::Sqrt(average), eps));
    return momentum ? momentum_of(d, f, scaled, a, 1, i) : scaled;
  } else if constexpr (kRule == UpdateRule::kAdagrad) {
    const V sum = square_average(d, 1.0F, 1.0F, g, a, 0, i);
    return hn::Div(g, hn::Add(hn::Sqrt(sum), eps));
  } else {
    const V old = load_state(d, a, 0, i);
    const V mean =
        store_state(d, a, 0, i, mul_add(d, hn::Sub(g, old), hn::Set(d, f.one_minus_beta1), old));
    const V square = square_average(d, f.beta2, f.one_minus_beta2, g, a, 1, i);
    return hn::Div(mean, mul_add(d, hn::Sqrt(square), hn::Set(d, f.correction), eps));
  }
}

template <UpdateRule kRule, class D>
HWY_INLINE void update_lanes(D d, const Factors& f, bool momentum, const Arrays& a,
                             const float* gradient, std::size_t i) {
  const auto old = hn::LoadU(d, a.parameters + i);
  const auto scaled = hn::Mul(hn::LoadU(d, gradient + i), hn::Set(d, f.grad_scale));
  const auto g = mul_add(d, old, hn::Set(d, f.weight_decay), scaled);
  const auto way = direction<kRule>(d, f, momentum, g, a, i);
  const auto kept = hn::Mul(old, hn::Set(d, f.shrink));
  hn::StoreU(mul_add(d, way, hn::Set(d, -f.step_size), kept), d, a.new_parameters + i);
}

template <UpdateRule kRule>
HWY_INLINE void update_all(const Factors& f, bool momentum, const Arrays& a, const float* gradient,
                           std::size_t n) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> d1;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) update_lanes<kRule>(d, f, momentum, a, gradient, i);
  for (; i < n; ++i) update_lanes<kRule>(d1, f, momentum, a, gradient, i);
}

void update(const UpdateOptions& options, const UpdateStep& step, const UpdateSource& from,
            const float* gradient, float* parameters, float* const* state, std::size_t n) {
  const Arrays a{from.parameters, from.state.data(), parameters, state};
  const Factors f = factors(options, step);
  const bool momentum = options.momentum != 0;
  switch (options.rule) {
    case UpdateRule::kSgd:
      return update_all<UpdateRule::kSgd>(f, momentum, a, gradient, n);
    case UpdateRule::kRmsprop:
      return update_all<UpdateRule::kRmsprop>(f, momentum, a, gradient, n);
    case UpdateRule::kAdagrad:
      return update_all<UpdateRule::kAdagrad>(f, momentum, a, gradient, n);
    case UpdateRule::kAdam:
    case UpdateRule::kAdamw:
      return update_all<UpdateRule::kAdam>(f, momentum, a, gradient, n);
  }
}

}  // namespace
}  // namespace passel::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace passel::kernels {
namespace {
HWY_EXPORT(update);
}  // namespace

void apply_update(const UpdateOptions& options, const UpdateStep& step, const UpdateSource& from,
                  const float* gradient, float* parameters, std::span<float* const> state,
                  std::size_t n) noexcept {
  settle_isa();
  HWY_DYNAMIC_DISPATCH(update)(options, step, from, gradient, parameters, state.data(), n);
}

void apply_update(const UpdateOptions& options, const UpdateStep& step, float* parameters,
                  const float* gradient, std::span<float* const> state, std::size_t n) noexcept {
  apply_update(options, step, {parameters, state}, gradient, parameters, state, n);
}

void add_atomically(float* values, const float* deltas, std::size_t n) noexcept {
  for (std::size_t i = 0; i < n; ++i) {
    // Relaxed: each element is a sum of its own; nothing else is published through it.
    std::atomic_ref(values[i]).fetch_add(deltas[i], std::memory_order_relaxed);
  }
}

}  // namespace passel::kernels
#endif
