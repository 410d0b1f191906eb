#include <ATen/Parallel.h>
#include <malloc.h>

#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "counters.h"
#include "fma_peak.h"
#include "passel/kernels/isa.h"
#include "products.h"
#include "read_bandwidth.h"
#include "rounds.h"
#include "sequences.h"

// Measures the LLTM's kernels beside their peers, all in this process and on this thread, and
// prints what it found as JSON.
namespace bench {
namespace {
using nlohmann::json;

struct Options {
  bool quick = false;  ///< two small shapes and few rounds, to see that all runs
  bool brief = false;  ///< the LLTM beside the composed path only
};

std::vector<Shape> shapes(const Options& options) {
  if (options.quick) return {{28, 16, 28, 128}, {64, 1, 32, 128}};
  return {{28, 16, 28, 128},   {28, 64, 28, 128}, {28, 64, 28, 256}, {50, 32, 128, 512},
          {128, 16, 128, 256}, {64, 1, 32, 128},  {28, 256, 28, 128}};
}

std::vector<Contestant> contestants(const Shape& shape, const Options& options) {
  std::vector<Contestant> all;
  const auto append = [&](std::vector<Contestant> more) {
    for (Contestant& one : more) all.push_back(std::move(one));
  };
  append(sequence_contestants(shape, Gradients::kAll, !options.brief));
  append(sequence_contestants(shape, Gradients::kWeights, false));
  if (!options.brief) append(product_contestants(shape));
  return all;
}

json to_json(const Shape& shape, const Result& result) {
  json parts = json::array();
  for (const Result::Part& part : result.parts) {
    parts.push_back({{"part", part.name},
                     {"fraction", part.fraction},
                     {"seconds", part.seconds},
                     {"flops", part.work.flops},
                     {"bytes", part.work.bytes}});
  }
  json all = {{"shape", shape.name()},
              {"kind", result.kind},
              {"side", result.side},
              {"peak_flops_per_second", result.peak},
              {"parts", parts}};
  if (result.counters) {
    all["cycles"] = result.counters->cycles;
    all["instructions"] = result.counters->instructions;
  }
  return all;
}

json measure(const FmaPeak& peak, const Options& options) {
  constexpr std::size_t kInL2 = 256 << 10, kInMemory = 256 << 20;
  const Counters counters;
  const RoundsOptions rounds = options.quick ? RoundsOptions{.rounds = 2, .seconds_per_turn = 0.002}
                                             : RoundsOptions{.rounds = 9, .seconds_per_turn = 0.06};
  json results = json::array();
  for (const Shape& shape : shapes(options)) {
    std::cerr << "measuring " << shape.name() << '\n';
    check_sequences(shape);
    for (const Result& result : run_rounds(contestants(shape, options), peak, counters, rounds)) {
      results.push_back(to_json(shape, result));
    }
  }
  return {{"isa", passel::kernels::isa()},
          {"rounds", rounds.rounds},
          {"l2_bytes_per_second", read_bandwidth(kInL2)},
          {"memory_bytes_per_second", read_bandwidth(kInMemory)},
          {"counters_missing", counters.missing()},
          {"results", results}};
}

/// As workers of `passel train` do: no contestant is to give the pages of its tensors back to the
/// system and fault them in again at its next run.
void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, -1);
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  const bench::FmaPeak peak;
  bench::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--quick") {
      options.quick = true;
    } else if (argument == "--brief") {
      options.brief = true;
    } else {
      std::cerr << "usage: kernels_bench [--quick] [--brief]\n";
      return 2;
    }
  }
  bench::keep_freed_memory();
  at::set_num_threads(1);
  try {
    std::cout << bench::measure(peak, options) << '\n';
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
