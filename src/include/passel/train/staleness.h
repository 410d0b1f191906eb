#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace passel::train {

/// Counts of staleness values: the version an update was applied to minus the
/// version its gradient was computed from. One per worker; merge() adds them up.
///
/// Trivially copyable and without pointers, so it may lie in shared memory; one
/// process or thread writes it at a time.
class StalenessHistogram {
 public:
  static constexpr std::size_t kBuckets = 32;  ///< exact counts for 0 ... 31

  void add(std::uint64_t staleness) noexcept {
    ++counts_[std::min<std::uint64_t>(staleness, kBuckets)];
    ++total_;
    sum_ += static_cast<double>(staleness);
    max_ = std::max(max_, staleness);
  }

  void merge(const StalenessHistogram& other) noexcept {
    for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
    total_ += other.total_;
    sum_ += other.sum_;
    max_ = std::max(max_, other.max_);
  }

  /// Updates whose staleness was `bucket` [0, kBuckets).
  std::uint64_t count(std::size_t bucket) const noexcept { return counts_[bucket]; }
  /// Updates whose staleness was kBuckets or more.
  std::uint64_t overflow() const noexcept { return counts_[kBuckets]; }
  std::uint64_t total() const noexcept { return total_; }
  std::uint64_t max() const noexcept { return max_; }
  /// 0 when nothing was counted.
  double mean() const noexcept { return total_ == 0 ? 0 : sum_ / static_cast<double>(total_); }

 private:
  std::array<std::uint64_t, kBuckets + 1> counts_{};
  std::uint64_t total_ = 0;
  std::uint64_t max_ = 0;
  double sum_ = 0;
};

}  // namespace passel::train
