#include "read_bandwidth.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

namespace bench {
namespace {

constexpr std::size_t kLanes = 64;  // sums side by side, for a loop of vector additions
constexpr double kBytesPerRun = 256e6;
constexpr int kRuns = 3;

std::uint32_t sum(const std::vector<std::uint32_t>& words) {
  std::uint32_t sums[kLanes] = {};
  for (std::size_t i = 0; i + kLanes <= words.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] += words[i + lane];
  }
  std::uint32_t all = 0;
  for (const std::uint32_t lane : sums) all += lane;
  return all;
}

}  // namespace

double read_bandwidth(std::size_t bytes) {
  using Clock = std::chrono::steady_clock;
  const std::vector<std::uint32_t> words(bytes / sizeof(std::uint32_t), 1);
  const auto passes =
      std::max<std::size_t>(1, static_cast<std::size_t>(kBytesPerRun / static_cast<double>(bytes)));
  volatile std::uint32_t used = 0;
  double best = 0;
  for (int run = 0; run < kRuns; ++run) {
    const auto start = Clock::now();
    for (std::size_t pass = 0; pass < passes; ++pass) used = sum(words);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    best = std::max(best, static_cast<double>(passes * bytes) / seconds);
  }
  static_cast<void>(used);
  return best;
}

}  // namespace bench
