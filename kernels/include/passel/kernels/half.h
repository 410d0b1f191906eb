#pragma once

#include <bit>
#include <cstdint>

namespace passel::kernels {

/// 16-bit floating point numbers as their bits, laid out as c10::BFloat16 and
/// c10::Half. Only for storage: sums are in float.
struct Bfloat16 {
  std::uint16_t bits;  ///< the upper half of a float
};
struct Float16 {
  std::uint16_t bits;  ///< IEEE 754 binary16
};

/// The same number as a float: exact. The conversions choose by selection, not by
/// branches, so that compilers turn loops over them into vector code; they use
/// integers and exact float operations only, so their bits are the same everywhere.
constexpr float to_float(Bfloat16 half) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(half.bits) << 16);
}

constexpr float to_float(Float16 half) {
  constexpr std::uint32_t kExponent = 0x7c00U << 13;
  constexpr std::uint32_t kRebias = (127U - 15U) << 23;
  const std::uint32_t magnitude = (half.bits & 0x7fffU) << 13;
  const std::uint32_t exponent = magnitude & kExponent;
  const std::uint32_t normal = magnitude + kRebias;
  const std::uint32_t special = normal + ((128U - 16U) << 23);  // infinity, NaN
  const float denormal =
      std::bit_cast<float>(normal + (1U << 23)) - std::bit_cast<float>(kRebias + (1U << 23));
  const std::uint32_t finite = exponent == 0 ? std::bit_cast<std::uint32_t>(denormal) : normal;
  const std::uint32_t sign = (half.bits & 0x8000U) << 16;
  return std::bit_cast<float>((exponent == kExponent ? special : finite) | sign);
}

constexpr float to_float(float value) {
  return value;
}
constexpr double to_float(double value) {
  return value;
}

/// The nearest number of type Half, the even one of two. What is too large becomes
/// infinity; NaN becomes a quiet NaN.
template <typename Half>
constexpr Half from_float(float value);

template <>
constexpr Bfloat16 from_float<Bfloat16>(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const std::uint32_t quiet = (bits >> 16) | 0x40U;
  const bool nan = (bits & 0x7fffffffU) > 0x7f800000U;
  return {static_cast<std::uint16_t>(nan ? quiet : rounded)};
}

template <>
constexpr Float16 from_float<Float16>(float value) {
  constexpr std::uint32_t kSmallestNormal = 113U << 23;
  constexpr std::uint32_t kTooLarge = 143U << 23;
  constexpr std::uint32_t kInfinity = 255U << 23;
  constexpr std::uint32_t kDenormal = ((127U - 15U) + (23U - 10U) + 1U) << 23;
  const auto all = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t bits = all & 0x7fffffffU;
  // Adding this power of two moves a denormal's bits to the end of the mantissa,
  // rounded by the addition itself.
  const float shifted = std::bit_cast<float>(bits) + std::bit_cast<float>(kDenormal);
  const std::uint32_t denormal = std::bit_cast<std::uint32_t>(shifted) - kDenormal;
  const std::uint32_t normal = (bits - ((127U - 15U) << 23) + 0xfffU + ((bits >> 13) & 1U)) >> 13;
  const std::uint32_t special = bits > kInfinity ? 0x7e00U : 0x7c00U;
  const std::uint32_t finite = bits < kSmallestNormal ? denormal : normal;
  const std::uint32_t sign = (all >> 16) & 0x8000U;
  return {static_cast<std::uint16_t>((bits >= kTooLarge ? special : finite) | sign)};
}

/// The type that sums over elements of type T are formed and kept in.
template <typename T>
struct SumOf {
  using type = T;
};
template <>
struct SumOf<Bfloat16> {
  using type = float;
};
template <>
struct SumOf<Float16> {
  using type = float;
};

}  // namespace passel::kernels
