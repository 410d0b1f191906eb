// How a run is carried out must not change a bit of its results: what is kept
// for the backward pass, the caller's threads, weights that are packed already.
#include <sstream>
#include <string>
#include <thread>

#include "each_target.h"
#include "lltm_case.h"

namespace passel::kernels::test {
namespace {

constexpr std::uint64_t kSeed = 21;

/// Runs each part on a thread of its own, the last part first.
void run_on_threads(void* calls, std::int64_t parts, void (*task)(void*, std::int64_t),
                    void* context) {
  if (calls != nullptr) ++*static_cast<int*>(calls);
  std::vector<std::thread> threads;
  for (std::int64_t part = parts - 1; part >= 0; --part) threads.emplace_back(task, context, part);
  for (std::thread& thread : threads) thread.join();
}

std::string text(const LltmShape& s, const LltmPlan& plan) {
  std::ostringstream out;
  out << "T " << s.steps << " B " << s.batch << " I " << s.input << " S " << s.state
      << ", keep every " << plan.keep_every << ", threads " << plan.threads.count;
  return out.str();
}

template <typename T>
void expect_same_results(const LltmShape& shape, const LltmPlan& plan) {
  SCOPED_TRACE(text(shape, plan));
  LltmCase<T> plain(shape, kSeed);
  LltmCase<T> planned(shape, kSeed, 1, plan);
  plain.run();
  planned.run();
  EXPECT_TRUE(same_bits(planned.hidden, plain.hidden));
  EXPECT_TRUE(same_bits(planned.c_last, plain.c_last));
  for (std::size_t i = 0; i < plain.gradients().size(); ++i) {
    EXPECT_TRUE(same_bits(*planned.gradients()[i], *plain.gradients()[i])) << "gradient " << i;
    EXPECT_TRUE(planned.gradients()[i]->guards_intact()) << "gradient " << i;
  }
  for (const auto* array :
       {&planned.hidden, &planned.c_last, &planned.cells, &planned.packed, &planned.workspace}) {
    EXPECT_TRUE(array->guards_intact());
  }
}

TEST(LltmKeepEvery, ChangesNoBitOfTheResults) {
  for (const std::int64_t steps : {0, 1, 2, 7, 33}) {
    for (const std::int64_t every : {1, 2, 3, 7, 32, 33, 100}) {
      for (const std::int64_t batch : {0, 1, 9, 40}) {
        expect_same_results<float>({steps, batch, 5, 19}, {.keep_every = every});
        expect_same_results<double>({steps, batch, 3, 17}, {.keep_every = every});
      }
    }
  }
  expect_same_results<float>({9, 5, 0, 16}, {.keep_every = 4});
  expect_same_results<float>({9, 5, 3, 0}, {.keep_every = 4});
}

TEST(LltmKeepEvery, ChangesNoBitOnAnyInstructionSet) {
  with_each_target([] { expect_same_results<float>({20, 19, 21, 37}, {.keep_every = 6}); });
}

TEST(LltmKeepEvery, KeepsTheCellsOfThoseStepsAndOfTheLast) {
  constexpr LltmShape kShape{.steps = 11, .batch = 3, .input = 4, .state = 10};
  LltmCase<float> all(kShape, kSeed, 1, {.keep_every = 1});
  LltmCase<float> some(kShape, kSeed, 1, {.keep_every = 4});
  all.forward();
  some.forward();
  const std::size_t block = all.c0.size();
  ASSERT_EQ(some.cells.size(), 3 * block);
  const std::span<const float> kept = some.cells.values();
  const std::span<const float> cells = all.cells.values();
  const std::size_t steps[] = {3, 7, 10};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(same_bits(kept.subspan(i * block, block), cells.subspan(steps[i] * block, block)));
  }
  EXPECT_TRUE(same_bits<float>(kept.last(block), some.c_last.values()));
}

TEST(LltmKeepEvery, MakesTheMemoryOfALongSequenceSmall) {
  constexpr LltmShape kShape{.steps = 10000, .batch = 16, .input = 32, .state = 128};
  const auto elements = [&](const LltmPlan& plan) {
    const std::int64_t state = kShape.batch * kShape.state;
    const std::int64_t gates = plan.keep_every > 0 ? 0 : 3 * kShape.steps * state;
    return gates + lltm_cells_kept(kShape, plan) * state +
           static_cast<std::int64_t>(lltm_backward_workspace(kShape, plan));
  };
  EXPECT_LT(elements({.keep_every = 100}), elements({}) / 50);
}

TEST(LltmThreads, ChangeNoBitOfTheResults) {
  for (const std::int64_t threads : {1, 2, 3, 8}) {
    for (const std::int64_t batch : {0, 1, 8, 17, 40, 300}) {
      const LltmPlan plan{.threads = {.count = threads, .run = run_on_threads}};
      expect_same_results<float>({5, batch, 6, 21}, plan);
      expect_same_results<double>({2, batch, 0, 3}, plan);
    }
  }
  const LltmThreads three{.count = 3, .run = run_on_threads};
  expect_same_results<float>({0, 9, 2, 5}, {.threads = three});
  expect_same_results<float>({9, 9, 2, 0}, {.threads = three});
  expect_same_results<float>({33, 20, 50, 70}, {.keep_every = 5, .threads = three});
}

TEST(LltmThreads, AreNotAskedForWhereThereIsNothingToSplit) {
  int calls = 0;
  const LltmThreads one{.count = 1, .run = run_on_threads, .caller = &calls};
  LltmCase<float>({4, 20, 3, 20}, kSeed, 1, {.threads = one}).run();
  EXPECT_EQ(calls, 0);
  LltmThreads two = one;
  two.count = 2;
  LltmCase<float>({4, 8, 3, 20}, kSeed, 1, {.threads = two}).forward();
  EXPECT_EQ(calls, 0);
  LltmCase<float>({4, 9, 3, 20}, kSeed, 1, {.threads = two}).forward();
  EXPECT_EQ(calls, 1) << "for all steps at once";
}

TEST(LltmPack, ServesSequencesOfAnyLengthAndBatch) {
  for (const LltmShape& shape : {LltmShape{1, 1, 5, 18}, LltmShape{7, 9, 5, 18}}) {
    LltmCase<float> live(shape, kSeed);
    LltmCase<float> packed(shape, kSeed);
    live.run();
    lltm_pack({.steps = 3, .batch = 2, .input = 5, .state = 18}, packed.weight.data(),
              packed.bias.data(), packed.packed.data());
    std::ranges::fill(packed.weight.values(), 1e9F);
    auto arrays = packed.forward_arrays();
    arrays.weight = nullptr;
    arrays.bias = nullptr;
    lltm_forward(shape, arrays);
    lltm_backward(shape, packed.backward_arrays());
    for (std::size_t i = 0; i < live.results().size(); ++i) {
      EXPECT_TRUE(same_bits(*packed.results()[i], *live.results()[i])) << "array " << i;
    }
  }
}

}  // namespace
}  // namespace passel::kernels::test
