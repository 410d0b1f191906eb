#include <gmock/gmock.h>
#include <sched.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "passel/shm/process_context.h"
#include "passel/shm/worker.h"
#include "support.h"

namespace passel::shm {
namespace {

using test::error_of;
using ::testing::HasSubstr;

double result_is_a_number(WorkerContext& context) {
  return context.slot + 0.25;
}
PASSEL_ENTRY(result_is_a_number);

struct Summary {
  std::uint32_t slot;
  std::uint32_t nprocs;
  std::array<float, 200> losses;
};

/// A worker's own type, as the torch layer has one.
struct Wrapped {
  explicit Wrapped(WorkerContext& given) : context(given) {}
  WorkerContext& context;
};

Summary result_is_a_struct(Wrapped& self) {
  Summary summary{.slot = self.context.slot, .nprocs = self.context.nprocs, .losses = {}};
  summary.losses.back() = 3.5F;
  return summary;
}
PASSEL_ENTRY(result_is_a_struct);

void result_is_none(WorkerContext&) {}
PASSEL_ENTRY(result_is_none);

/// The first incarnation leaves a result and dies after its entry returned.
int result_of_the_second(WorkerContext& context) {
  if (context.incarnation == 1) {
    std::atexit([] { std::_Exit(1); });
    return 111;
  }
  std::_Exit(0);
}
PASSEL_ENTRY(result_of_the_second);

struct Threads {
  std::array<char, 32> omp;
  std::array<char, 32> mkl;
};

Threads result_is_threads(WorkerContext&) {
  Threads threads{};
  const auto copy = [](std::array<char, 32>& to, const char* name) {
    if (const char* value = std::getenv(name)) std::string(value).copy(to.data(), to.size() - 1);
  };
  copy(threads.omp, "OMP_NUM_THREADS");
  copy(threads.mkl, "MKL_NUM_THREADS");
  return threads;
}
PASSEL_ENTRY(result_is_threads);

void result_is_printed(WorkerContext& context) {
  std::printf("slot %u\n", context.slot);
}
PASSEL_ENTRY(result_is_printed);

class ResultTest : public ::testing::Test {
 protected:
  ProcessContext& run(const std::string& entry, SpawnSettings settings) {
    context_.emplace(arena_, entry, std::move(settings));
    context_->start();
    context_->join();
    return *context_;
  }

  Arena arena_ = Arena::create("test", 1 << 20);
  std::optional<ProcessContext> context_;
};

TEST_F(ResultTest, OfEachWorkerReachesTheParent) {
  ProcessContext& context = run("result_is_a_number", {.nprocs = 3});
  for (std::uint32_t slot = 0; slot < 3; ++slot) {
    EXPECT_EQ(context.result<double>(slot), slot + 0.25);
  }
  EXPECT_THAT(error_of([&] { (void)context.result<double>(3); }), HasSubstr("3 workers"));
}

TEST_F(ResultTest, MayBeAStructOfAWorkerOfItsOwnType) {
  ProcessContext& context = run("result_is_a_struct", {.nprocs = 2});
  const auto summary = context.result<Summary>(1);
  ASSERT_TRUE(summary.has_value());
  EXPECT_EQ(summary->slot, 1U);
  EXPECT_EQ(summary->nprocs, 2U);
  EXPECT_EQ(summary->losses.back(), 3.5F);
}

TEST_F(ResultTest, IsEmptyWhenTheEntryReturnsNothing) {
  EXPECT_EQ(run("result_is_none", {}).result<double>(0), std::nullopt);
}

TEST_F(ResultTest, OfAnotherTypeIsRefused) {
  ProcessContext& context = run("result_is_a_number", {});
  EXPECT_THAT(error_of([&] { (void)context.result<float>(0); }), HasSubstr("another type"));
  EXPECT_THAT(error_of([&] { (void)context.result<std::uint64_t>(0); }), HasSubstr("another type"))
      << "of the same size";
}

TEST_F(ResultTest, OfADeadWorkerIsNotTakenForThatOfItsSuccessor) {
  ProcessContext& context = run("result_of_the_second", {.on_death = OnDeath::kRespawn});
  EXPECT_EQ(context.incarnation(0), 2U);
  EXPECT_EQ(context.result<int>(0), std::nullopt);
}

TEST_F(ResultTest, ShowsTheShareOfTheProcessorsThatEachWorkerGets) {
  cpu_set_t allowed;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  const int share = std::max(1, CPU_COUNT(&allowed) / 2);
  ProcessContext& context = run("result_is_threads", {.nprocs = 2});
  for (std::uint32_t slot = 0; slot < 2; ++slot) {
    const Threads threads = context.result<Threads>(slot).value();
    EXPECT_EQ(std::string(threads.omp.data()), std::to_string(share));
    EXPECT_EQ(std::string(threads.mkl.data()), std::to_string(share));
  }
}

TEST_F(ResultTest, ShowsTheThreadsThatWereAskedForAndTheEnvironment) {
  ProcessContext& context =
      run("result_is_threads", {.environment = {"MKL_NUM_THREADS=5"}, .threads = 7});
  const Threads threads = context.result<Threads>(0).value();
  EXPECT_EQ(std::string(threads.omp.data()), "7");
  EXPECT_EQ(std::string(threads.mkl.data()), "5") << "what the user names is stronger";
}

TEST_F(ResultTest, MayBeOutputInAFilePerWorker) {
  std::string folder = (std::filesystem::temp_directory_path() / "passel-out-XXXXXX").string();
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  run("result_is_printed", {.nprocs = 2, .output = folder + "/log"});
  for (int slot = 0; slot < 2; ++slot) {
    std::ifstream in(folder + "/log." + std::to_string(slot));
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    EXPECT_EQ(text, "slot " + std::to_string(slot) + "\n");
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace passel::shm
