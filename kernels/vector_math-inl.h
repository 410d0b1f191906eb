// Activations of the LLTM cell and the logarithm on Highway vectors, compiled once
// per instruction set (hence no #pragma once). Highway's own Exp turns NaN into 0
// and breaks for large arguments; these propagate NaN, are right at infinities and
// stay within 4 ULP (log: 2), small arguments included. Each step is an exactly specified IEEE
// operation, so every instruction set gives the same bits.
#if defined(PASSEL_KERNELS_VECTOR_MATH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PASSEL_KERNELS_VECTOR_MATH_INL_H
#undef PASSEL_KERNELS_VECTOR_MATH_INL_H
#else
#define PASSEL_KERNELS_VECTOR_MATH_INL_H
#endif

#include <hwy/highway.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace passel::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
inline constexpr std::size_t kLanes = hn::MaxLanes(D());

/// a * b + c, rounded once on every instruction set.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V mul_add([[maybe_unused]] D d, V a, V b, V c) {
#if HWY_NATIVE_FMA
  return hn::MulAdd(a, b, c);
#else
  using T = hn::TFromD<D>;
  HWY_ALIGN T x[kLanes<D>], y[kLanes<D>], z[kLanes<D>];
  hn::Store(a, d, x);
  hn::Store(b, d, y);
  hn::Store(c, d, z);
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) x[i] = std::fma(x[i], y[i], z[i]);
  return hn::Load(d, x);
#endif
}

template <typename T>
struct ExpConstants;

// kQ: (expm1(r) - r) / r^2 on [-ln 2 / 2, ln 2 / 2], interpolated at Chebyshev
// nodes; relative error of expm1 5e-10 in float, 4e-17 in double.
// kRound: adding it leaves the nearest integer in the low bits of the mantissa.
// ln 2 = kLn2High + kLn2Low, the high part with enough zero bits at its end that
// a small integer times it is exact.
template <>
struct ExpConstants<float> {
  using Bits = std::int32_t;
  static constexpr int kMantissaBits = 23;
  static constexpr Bits kBias = 127;
  static constexpr Bits kDenormalShift = 64;
  static constexpr float kDenormalScale = 0x1p-64F;
  static constexpr float kRound = 0x1.8p23F;
  static constexpr float kLog2E = 1.44269504F;
  static constexpr float kLn2High = 0x1.62e4p-1F;
  static constexpr float kLn2Low = 0x1.7f7d1cp-20F;
  static constexpr float kExpIsZero = -105.0F;
  static constexpr float kExpm1IsMinusOne = -25.0F;
  static constexpr float kQ[] = {0.5F,         0.1666666668F,   0.04166646493F, 0.008333310925F,
                                 0.001393365F, 0.0001989099082F};
};

template <>
struct ExpConstants<double> {
  using Bits = std::int64_t;
  static constexpr int kMantissaBits = 52;
  static constexpr Bits kBias = 1023;
  static constexpr Bits kDenormalShift = 512;
  static constexpr double kDenormalScale = 0x1p-512;
  static constexpr double kRound = 0x1.8p52;
  static constexpr double kLog2E = 1.4426950408889634074;
  static constexpr double kLn2High = 0x1.62e42fefa38p-1;
  static constexpr double kLn2Low = 0x1.ef35793c7673p-45;
  static constexpr double kExpIsZero = -746.0;
  static constexpr double kExpm1IsMinusOne = -40.0;
  static constexpr double kQ[] = {0.5,
                                  0.16666666666666667453,
                                  0.041666666666624127873,
                                  0.0083333333333300618325,
                                  0.0013888888917213716901,
                                  0.00019841269863053616878,
                                  0.000024801521295954375131,
                                  2.7557268459997064772e-6,
                                  2.7620088445409748161e-7,
                                  2.5100385495510319078e-8};
};

template <typename T>
struct LogConstants;

// kP: ((log(1 + f) / s) - 2) / s^2 as a polynomial of s^2, where s = f / (2 + f) and
// 1 + f in [sqrt(1/2), sqrt(2)], interpolated at Chebyshev nodes; relative error of
// log 3e-10 in float, 5e-18 in double.
template <>
struct LogConstants<float> {
  static constexpr std::int32_t kSqrtHalfBits = 0x3f3504f3;
  static constexpr std::int32_t kMantissaMask = 0x7fffff;
  static constexpr float kSmallestNormal = 0x1p-126F;
  static constexpr float kDenormalShift = 23;
  static constexpr float kDenormalScale = 0x1p23F;
  static constexpr float kP[] = {0.6666666655F, 0.4000012184F, 0.2855082082F, 0.2333046722F};
};

template <>
struct LogConstants<double> {
  static constexpr std::int64_t kSqrtHalfBits = 0x3fe6a09e667f3bcd;
  static constexpr std::int64_t kMantissaMask = 0xfffffffffffff;
  static constexpr double kSmallestNormal = 0x1p-1022;
  static constexpr double kDenormalShift = 52;
  static constexpr double kDenormalScale = 0x1p52;
  static constexpr double kP[] = {0.66666666666666696862, 0.3999999999989950449,
                                  0.28571428625975484921, 0.22222211134795079855,
                                  0.1818288912526172208,  0.15331721600556041269,
                                  0.1461644968504340586};
};

/// x or `low`, whichever is larger; NaN stays NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V at_least(D d, V x, hn::TFromD<D> low) {
  const V limit = hn::Set(d, low);
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR
  return hn::Max(limit, x);  // the second operand where either is NaN
#else
  return hn::IfThenElse(hn::Lt(x, limit), limit, x);
#endif
}

/// -|x|
template <class D, class V = hn::Vec<D>>
HWY_INLINE V negative(D d, V x) {
  return hn::Or(x, hn::SignBit(d));
}

/// exp(x) = 2^n (1 + fraction); `shifted` holds n in its low bits.
template <class V>
struct ReducedExp {
  V shifted;
  V fraction;  // expm1 of the remainder
};

template <class D, class V = hn::Vec<D>>
HWY_INLINE ReducedExp<V> reduce_exp(D d, V x) {
  using C = ExpConstants<hn::TFromD<D>>;
  const V shifted = mul_add(d, x, hn::Set(d, C::kLog2E), hn::Set(d, C::kRound));
  const V n = hn::Sub(shifted, hn::Set(d, C::kRound));
  V r = mul_add(d, n, hn::Set(d, -C::kLn2High), x);
  r = mul_add(d, n, hn::Set(d, -C::kLn2Low), r);
  constexpr int kDegree = static_cast<int>(std::size(C::kQ)) - 1;
  V q = hn::Set(d, C::kQ[kDegree]);
  for (int i = kDegree - 1; i >= 0; --i) q = mul_add(d, q, r, hn::Set(d, C::kQ[i]));
  return {shifted, mul_add(d, hn::Mul(r, r), q, r)};
}

/// 2^(n + extra) of a ReducedExp, which must be a normal number.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V power_of_two(D d, V shifted, typename ExpConstants<hn::TFromD<D>>::Bits extra) {
  using C = ExpConstants<hn::TFromD<D>>;
  const hn::Rebind<typename C::Bits, D> di;
  const auto bits = hn::Add(hn::BitCast(di, shifted), hn::Set(di, C::kBias + extra));
  return hn::BitCast(d, hn::ShiftLeft<C::kMantissaBits>(bits));
}

/// exp(x) for x <= 0, denormal results included.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_of_negative(D d, V x) {
  using C = ExpConstants<hn::TFromD<D>>;
  const auto e = reduce_exp(d, at_least(d, x, C::kExpIsZero));
  const V scale = power_of_two(d, e.shifted, C::kDenormalShift);
  return hn::Mul(mul_add(d, scale, e.fraction, scale), hn::Set(d, C::kDenormalScale));
}

/// exp(x) - 1 for x <= 0, without cancellation near 0.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V expm1_of_negative(D d, V x) {
  using C = ExpConstants<hn::TFromD<D>>;
  const auto e = reduce_exp(d, at_least(d, x, C::kExpm1IsMinusOne));
  const V scale = power_of_two(d, e.shifted, 0);
  return mul_add(d, scale, e.fraction, hn::Sub(scale, hn::Set(d, hn::TFromD<D>{1})));
}

/// The natural logarithm: -infinity at 0, NaN below.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V log(D d, V x) {
  using T = hn::TFromD<D>;
  using C = LogConstants<T>;
  const hn::Rebind<typename ExpConstants<T>::Bits, D> di;
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  // x = 2^n (1 + f); denormals are scaled to normal numbers first.
  const auto small = hn::Lt(x, hn::Set(d, C::kSmallestNormal));
  const V normal = hn::IfThenElse(small, hn::Mul(x, hn::Set(d, C::kDenormalScale)), x);
  const auto offset = hn::Set(di, C::kSqrtHalfBits);
  const auto bits = hn::Sub(hn::BitCast(di, normal), offset);
  const V n = hn::Sub(hn::ConvertTo(d, hn::ShiftRight<ExpConstants<T>::kMantissaBits>(bits)),
                      hn::IfThenElseZero(small, hn::Set(d, C::kDenormalShift)));
  const auto mantissa = hn::And(bits, hn::Set(di, C::kMantissaMask));
  const V f = hn::Sub(hn::BitCast(d, hn::Add(mantissa, offset)), hn::Set(d, T{1}));

  const V s = hn::Div(f, hn::Add(f, hn::Set(d, T{2})));
  const V z = hn::Mul(s, s);
  constexpr int kDegree = static_cast<int>(std::size(C::kP)) - 1;
  V p = hn::Set(d, C::kP[kDegree]);
  for (int i = kDegree - 1; i >= 0; --i) p = mul_add(d, p, z, hn::Set(d, C::kP[i]));
  // log(1 + f) = f - half + s (half + z p), in the order that loses least.
  const V half = hn::Mul(hn::Mul(hn::Set(d, T(0.5)), f), f);
  const V low =
      mul_add(d, n, hn::Set(d, ExpConstants<T>::kLn2Low), hn::Mul(s, mul_add(d, z, p, half)));
  const V rest = hn::Sub(f, hn::Sub(half, low));
  const V result = mul_add(d, n, hn::Set(d, ExpConstants<T>::kLn2High), rest);

  const V zero = hn::Zero(d);
  const V from_zero = hn::IfThenElse(hn::Eq(x, zero), hn::Set(d, -kInfinity), result);
  const V not_negative =
      hn::IfThenElse(hn::Lt(x, zero), hn::Set(d, std::numeric_limits<T>::quiet_NaN()), from_zero);
  return hn::IfThenElse(hn::Lt(x, hn::Set(d, kInfinity)), not_negative, x);
}

/// 1 / (1 + exp(-x)), from exp(-|x|), which cannot overflow.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V sigmoid(D d, V x) {
  const V one = hn::Set(d, hn::TFromD<D>{1});
  const V e = exp_of_negative(d, negative(d, x));
  return hn::Div(hn::IfThenElse(hn::Lt(x, hn::Zero(d)), e, one), hn::Add(one, e));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V tanh(D d, V x) {
  const V e = expm1_of_negative(d, negative(d, hn::Add(x, x)));
  const V magnitude = hn::Div(hn::Neg(e), hn::Add(e, hn::Set(d, hn::TFromD<D>{2})));
  return hn::CopySign(magnitude, x);
}

/// x where x > 0, exp(x) - 1 elsewhere.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V elu(D d, V x) {
  const V below = expm1_of_negative(d, negative(d, x));
  return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), x, below);
}

}  // namespace passel::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
