// One hash over workers x repeats x load x disturbances x stops. All of it is `make stress`; the
// short form is a shorter run and takes one cell of each rule.
//
// A failing cell says how to run it alone: PASSEL_SEED=... PASSEL_CELL=... and a filter. Another
// PASSEL_SEED draws other moments of stops and other victims.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <future>
#include <iostream>
#include <span>
#include <thread>

#include "data/temporary_folder.h"
#include "matrix_cell.h"
#include "passel/kernels/isa.h"
#include "passel_program.h"
#include "short_fashion_mnist.h"
#include "support/stress.h"

namespace passel::testing {
namespace {

using Options = std::vector<std::string>;

const Options kAdam = {"--optimizer", "adam", "--lr", "0.002"};
const Options kMomentum = {"--optimizer", "sgd", "--momentum", "0.9", "--lr", "0.01"};
const Options kAdding = {"--dataset", "adding", "--adding-steps", "30"};
const Options kFashion = {"--dataset", "fashion-mnist"};
const Options kOrdered = {"--mode", "ordered", "--staleness", "1"};
const Options kStaler = {"--mode", "ordered", "--staleness", "3"};
const Options kSync = {"--mode", "sync", "--shards", "4"};

struct MatrixRule {
  const char* name;
  std::vector<Options> options;
};

// GoogleTest looks for this name.
// NOLINTNEXTLINE(readability-identifier-naming)
void PrintTo(const MatrixRule& rule, std::ostream* out) {
  *out << rule.name;
}

constexpr int kRepeats = 3;
constexpr std::size_t kAtOnce = 3;  // loaded cells

std::int64_t tickets() {
  return stress_size(200, 320);
}

/// A thread a core that does nothing but take time.
class Load {
 public:
  Load() {
    for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i) {
      threads_.emplace_back([this] {
        while (!over_) {
        }
      });
    }
  }
  ~Load() {
    over_ = true;
    for (auto& thread : threads_) thread.join();
  }
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

 private:
  std::atomic<bool> over_ = false;
  std::vector<std::thread> threads_;
};

std::uint64_t seed() {
  const char* const given = std::getenv("PASSEL_SEED");
  return given == nullptr ? 1 : std::strtoull(given, nullptr, 10);
}

class SameBitsMatrix : public ::testing::TestWithParam<MatrixRule> {
 protected:
  void SetUp() override {
    write_short_fashion_mnist(data_.path(), 2400, 320);
    job_.train = {"train",          "--data", data_.path(),     "--quiet",
                  "--hidden-size",  "64",     "--batch-size",   "48",
                  "--epochs",       "8",      "--max-tickets",  std::to_string(tickets()),
                  "--log-interval", "5",      "--max-respawns", "100000"};
    for (const Options& options : GetParam().options) {
      job_.train.insert(job_.train.end(), options.begin(), options.end());
    }
    const Trial trial = run_cell(job_, {1, 0, false, Disturbance::kNone, false});
    reference_ = trial.hash;
    ASSERT_FALSE(reference_.empty()) << trial.story;
  }

  void judge(const Cell& cell, const Trial& trial) {
    if (cell.disturbance == Disturbance::kKills) kills_ += trial.disturbed;
    if (cell.disturbance != Disturbance::kNone && trial.disturbed == 0)
      unreached_ += cell.name() + " ";
    EXPECT_EQ(trial.hash, reference_)
        << cell.name() << ": other parameters than one undisturbed worker makes. Again, alone:\n"
        << (stress_size(false, true) ? "  PASSEL_STRESS=1" : " ") << " PASSEL_SEED=" << job_.seed
        << " PASSEL_CELL=" << cell.name() << " same_bits_matrix_test --gtest_filter=Of/*/"
        << GetParam().name << "\nIt was\n"
        << trial.story;
  }

  // Beside a thread a core that only takes time.
  void run_at_once(std::span<const Cell> cells) {
    const Load load;
    std::vector<std::future<Trial>> trials;
    for (const Cell& cell : cells) {
      trials.push_back(std::async(std::launch::async, run_cell, std::cref(job_), std::cref(cell)));
    }
    for (std::size_t i = 0; i < cells.size(); ++i) judge(cells[i], trials[i].get());
  }

  void run_with_each_instruction_set() {
    const auto available = kernels::available_isas();
    for (const std::string isa : {"avx512", "avx2"}) {
      if (std::ranges::count(available, isa) == 0) continue;
      setenv("PASSEL_ISA", isa.c_str(), 1);
      for (const bool resumed : {false, true}) {
        const Cell cell{2, 0, false, Disturbance::kNone, resumed};
        const Trial trial = run_cell(job_, cell);
        EXPECT_EQ(trial.hash, reference_) << "PASSEL_ISA=" << isa << "\n" << trial.story;
      }
      unsetenv("PASSEL_ISA");
    }
  }

  TemporaryFolder data_;
  Job job_{.train = {}, .tickets = tickets(), .seed = seed()};
  std::string reference_;
  int kills_ = 0;
  std::string unreached_;  // cells that ended before anything disturbed them
};

std::vector<Cell> chosen_cells() {
  std::vector<Cell> cells = all_cells(kRepeats);
  const char* const name = std::getenv("PASSEL_CELL");
  if (name == nullptr && stress_size(false, true)) return cells;
  const std::string wanted = name == nullptr ? "3-workers-idle-killed-resumed-0" : name;
  std::erase_if(cells, [&](const Cell& cell) { return cell.name() != wanted; });
  return cells;
}

TEST_P(SameBitsMatrix, OneHash) {
  std::vector<Cell> cells = chosen_cells();
  ASSERT_FALSE(cells.empty()) << "PASSEL_CELL names none";
  const auto loaded = std::stable_partition(cells.begin(), cells.end(),
                                            [](const Cell& cell) { return !cell.loaded; });
  for (auto idle = cells.begin(); idle != loaded; ++idle) judge(*idle, run_cell(job_, *idle));
  for (std::span<const Cell> left(loaded, cells.end()); !left.empty();) {
    const std::size_t next = std::min(left.size(), kAtOnce);
    run_at_once(left.first(next));
    left = left.subspan(next);
  }
  if (cells.size() > 1) run_with_each_instruction_set();
  std::cout << GetParam().name << ": " << cells.size() << " cells, " << kills_ << " kills, seed "
            << job_.seed << ", hash " << reference_ << "\n";
  EXPECT_EQ(unreached_, "") << "ended before anything disturbed them, and prove nothing";
}

INSTANTIATE_TEST_SUITE_P(
    Of, SameBitsMatrix,
    ::testing::Values(MatrixRule{"OrderedAdamFashion", {kOrdered, kAdam, kFashion}},
                      MatrixRule{"OrderedMomentumFashion", {kStaler, kMomentum, kFashion}},
                      MatrixRule{"OrderedAdamAdding", {kOrdered, kAdam, kAdding}},
                      MatrixRule{"OrderedMomentumAdding", {kStaler, kMomentum, kAdding}},
                      MatrixRule{"SyncAdamFashion", {kSync, kAdam, kFashion}},
                      MatrixRule{"SyncMomentumFashion", {kSync, kMomentum, kFashion}},
                      MatrixRule{"SyncAdamAdding", {kSync, kAdam, kAdding}},
                      MatrixRule{"SyncMomentumAdding", {kSync, kMomentum, kAdding}}),
    [](const auto& rule) { return rule.param.name; });

}  // namespace
}  // namespace passel::testing
