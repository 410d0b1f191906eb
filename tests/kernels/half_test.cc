// All 65536 numbers of each 16-bit type, and all midpoints between them.
#include "passel/kernels/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace passel::kernels {
namespace {

struct Format {
  int mantissa_bits;
  int bias;
};
constexpr Format kBfloat16{7, 127};
constexpr Format kFloat16{10, 15};

/// The number that the bits stand for, by the definition of the format.
double value_of(std::uint16_t bits, const Format& format) {
  const int mantissa = bits & ((1 << format.mantissa_bits) - 1);
  const int exponent = (bits & 0x7fff) >> format.mantissa_bits;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 2 * format.bias + 1) {
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  }
  const double significand =
      std::ldexp(mantissa, -format.mantissa_bits) + (exponent == 0 ? 0.0 : 1.0);
  return sign * std::ldexp(significand, std::max(exponent, 1) - format.bias);
}

template <typename Half>
void expect_exact_and_back(const Format& format) {
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const Half half{static_cast<std::uint16_t>(bits)};
    const double exact = value_of(half.bits, format);
    const float value = to_float(half);
    if (std::isnan(exact)) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_TRUE(std::isnan(value_of(from_float<Half>(value).bits, format))) << bits;
    } else {
      ASSERT_EQ(value, exact) << bits;
      ASSERT_EQ(std::signbit(value), std::signbit(exact)) << bits;
      ASSERT_EQ(from_float<Half>(value).bits, bits);
    }
  }
}

TEST(Half, BecomesTheSameFloatAndComesBack) {
  expect_exact_and_back<Bfloat16>(kBfloat16);
  expect_exact_and_back<Float16>(kFloat16);
}

template <typename Half>
void expect_nearest(const Format& format) {
  const auto infinity = static_cast<std::uint16_t>((2 * format.bias + 1) << format.mantissa_bits);
  for (std::uint16_t below = 0; below < infinity; ++below) {
    const auto above = static_cast<std::uint16_t>(below + 1);
    // As if the largest number had a successor.
    const double next = above == infinity
                            ? 2 * value_of(below, format) - value_of(below - 1, format)
                            : value_of(above, format);
    const auto middle = static_cast<float>((value_of(below, format) + next) / 2);
    const std::uint16_t even = below % 2 == 0 ? below : above;
    for (const float sign : {1.0F, -1.0F}) {
      const std::uint16_t bit = sign < 0 ? 0x8000 : 0;
      ASSERT_EQ(from_float<Half>(sign * middle).bits, bit | even) << middle;
      ASSERT_EQ(from_float<Half>(sign * std::nextafter(middle, 0.0F)).bits, bit | below) << middle;
      ASSERT_EQ(from_float<Half>(sign * std::nextafter(middle, INFINITY)).bits, bit | above)
          << middle;
    }
  }
}

TEST(Half, IsTheNearestAndOfTwoTheEvenOne) {
  expect_nearest<Bfloat16>(kBfloat16);
  expect_nearest<Float16>(kFloat16);
}

TEST(Half, IsInfiniteWhereAFloatIsTooLarge) {
  for (const float large : {65520.0F, 1e9F, std::numeric_limits<float>::max(), INFINITY}) {
    EXPECT_EQ(from_float<Float16>(large).bits, 0x7c00);
    EXPECT_EQ(from_float<Float16>(-large).bits, 0xfc00);
  }
  EXPECT_EQ(from_float<Bfloat16>(std::numeric_limits<float>::max()).bits, 0x7f80);
}

TEST(Half, OfATinyFloatIsAZeroOfItsSign) {
  for (const float tiny : {0.0F, 1e-44F, 1e-10F}) {
    EXPECT_EQ(from_float<Float16>(tiny).bits, 0);
    EXPECT_EQ(from_float<Float16>(-tiny).bits, 0x8000);
  }
}

}  // namespace
}  // namespace passel::kernels
