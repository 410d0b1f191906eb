#pragma once

#include <array>
#include <cstdint>
#include <limits>

namespace passel::train {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

/// Philox4x32-10: ten rounds over one counter give four independent 32-bit values.
/// Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
PhiloxCounter philox4x32_10(PhiloxCounter counter, PhiloxKey key) noexcept;

/// What a stream of random numbers is for. The numbers enter every result: never reuse one.
enum class RandomPurpose : std::uint32_t {
  kShuffle = 1,
  kAddingProblem = 2,
  kParameters = 3,
  kInitialState = 4,
  kDropout = 5,
  kAddingStream = 6,
};

/// The random numbers of (seed, purpose, stream), where a stream is a ticket, an epoch or the
/// index of a sample. The seed is the key and (block, purpose, stream) the counter, so two
/// different triples never share a value, and there is no state to save or to hand over.
/// A UniformRandomBitGenerator. At most 2^34 values; one thread at a time.
class Philox {
 public:
  using result_type = std::uint32_t;

  Philox(std::uint64_t seed, RandomPurpose purpose, std::uint64_t stream) noexcept;

  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return std::numeric_limits<result_type>::max(); }
  result_type operator()() noexcept;

  /// Uniform in [0, 1), a multiple of 2^-24.
  float uniform_float() noexcept;

  /// Uniform in [0, bound), without bias; bound > 0.
  /// Lemire: "Fast random integer generation in an interval", ACM TOMACS 29(1), 2019.
  std::uint32_t uniform_below(std::uint32_t bound) noexcept;

 private:
  PhiloxKey key_;
  PhiloxCounter counter_;
  PhiloxCounter block_{};
  std::uint32_t used_ = 4;
};

}  // namespace passel::train
