#include "rounds.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace bench {
namespace {
using Clock = std::chrono::steady_clock;

template <class T>
T median(std::vector<T> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// One turn: so many runs of all parts. Of each part's times the median is kept: an interruption
/// must not count for a contestant either, as it does not for the peak.
struct Turn {
  double peak = 0;
  std::vector<double> seconds;
  std::optional<Counters::Values> counters;
};

Turn take_turn(const Contestant& contestant, int runs, const FmaPeak& peak,
               const Counters& counters) {
  Turn turn{.peak = peak.flops_per_second()};
  std::vector<std::vector<double>> seconds(contestant.parts.size());
  const auto before = counters.read();
  for (int run = 0; run < runs; ++run) {
    for (std::size_t part = 0; part < seconds.size(); ++part) {
      const auto start = Clock::now();
      contestant.parts[part].run();
      seconds[part].push_back(seconds_since(start));
    }
  }
  if (const auto after = counters.read(); before && after) {
    const auto n = static_cast<std::uint64_t>(runs);
    turn.counters = {.cycles = (after->cycles - before->cycles) / n,
                     .instructions = (after->instructions - before->instructions) / n};
  }
  for (auto& of_part : seconds) turn.seconds.push_back(median(std::move(of_part)));
  return turn;
}

/// Also warms up.
int runs_in(const Contestant& contestant, double seconds) {
  double once = 0;
  for (int warm_up = 0; warm_up < 2; ++warm_up) {
    const auto start = Clock::now();
    for (const auto& part : contestant.parts) part.run();
    once = seconds_since(start);
  }
  return std::max(1, static_cast<int>(seconds / once));
}

/// The parts [first, last) taken together.
Result::Part summary(std::string name, const Contestant& contestant, const std::vector<Turn>& turns,
                     std::size_t first, std::size_t last) {
  Work work{};
  for (std::size_t part = first; part < last; ++part) work = work + contestant.parts[part].work;
  std::vector<double> fractions, times;
  for (const Turn& turn : turns) {
    double seconds = 0;
    for (std::size_t part = first; part < last; ++part) seconds += turn.seconds[part];
    times.push_back(seconds);
    fractions.push_back(work.flops / seconds / turn.peak);
  }
  return {std::move(name), work, median(std::move(fractions)), median(std::move(times))};
}

template <class Member>
auto median_of(const std::vector<Turn>& turns, Member&& member) {
  std::vector<decltype(member(turns[0]))> values;
  for (const Turn& turn : turns) values.push_back(member(turn));
  return median(std::move(values));
}

Result result_of(const Contestant& contestant, const std::vector<Turn>& turns) {
  Result result{.kind = contestant.kind, .side = contestant.side};
  const std::size_t count = contestant.parts.size();
  for (std::size_t part = 0; part < count; ++part) {
    result.parts.push_back(summary(contestant.parts[part].name, contestant, turns, part, part + 1));
  }
  if (count > 1) result.parts.push_back(summary("training", contestant, turns, 0, count));
  result.peak = median_of(turns, [](const Turn& turn) { return turn.peak; });
  if (std::ranges::all_of(turns, [](const Turn& turn) { return turn.counters.has_value(); })) {
    result.counters = {
        .cycles = median_of(turns, [](const Turn& turn) { return turn.counters->cycles; }),
        .instructions =
            median_of(turns, [](const Turn& turn) { return turn.counters->instructions; })};
  }
  return result;
}

}  // namespace

std::vector<Result> run_rounds(const std::vector<Contestant>& contestants, const FmaPeak& peak,
                               const Counters& counters, const RoundsOptions& options) {
  std::vector<int> runs;
  for (const Contestant& c : contestants) runs.push_back(runs_in(c, options.seconds_per_turn));
  std::vector<std::vector<Turn>> turns(contestants.size());
  for (int round = 0; round < options.rounds; ++round) {
    for (std::size_t c = 0; c < contestants.size(); ++c) {
      turns[c].push_back(take_turn(contestants[c], runs[c], peak, counters));
    }
  }
  std::vector<Result> results;
  for (std::size_t c = 0; c < contestants.size(); ++c) {
    results.push_back(result_of(contestants[c], turns[c]));
  }
  return results;
}

}  // namespace bench
