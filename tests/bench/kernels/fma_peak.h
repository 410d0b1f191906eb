#pragma once

#include <cstdint>

namespace bench {

/// The most multiply-adds a second that one core does now, on the widest vectors it has, whatever
/// PASSEL_ISA says. Make it before any kernel runs: the kernels narrow the choice down.
class FmaPeak {
 public:
  FmaPeak();

  /// Takes about a millisecond. The best of three, so that an interruption does not count.
  double flops_per_second() const;

 private:
  /// Runs so many rounds and returns the operations done.
  double (*chains_)(std::int64_t rounds);
  std::int64_t rounds_;
};

}  // namespace bench
