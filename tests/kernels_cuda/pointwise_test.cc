#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels_cuda/host_grid.h"

// The bodies of the kernels, run for every thread of simulated grids, against the
// formulas of one element. Outputs lie over inputs where that is allowed, so that an
// element computed twice has another value, as has one that is left out.
namespace passel::kernels {
namespace {

template <typename T>
T stored(double value) {
  using Sum = typename SumOf<T>::type;
  if constexpr (std::is_same_v<T, Sum>) {
    return static_cast<T>(value);
  } else {
    return from_float<T>(static_cast<float>(value));
  }
}

/// 64-byte aligned, with poisoned elements before and after.
template <typename T>
class Guarded {
 public:
  explicit Guarded(std::int64_t count, std::int64_t misaligned = 0)
      : memory_(static_cast<std::size_t>(count) + 2 * kGuard + 128), count_(count) {
    const auto address = std::bit_cast<std::uintptr_t>(memory_.data() + kGuard);
    const auto skip = (64 - address % 64) % 64 / sizeof(T);
    data_ = memory_.data() + kGuard + skip + misaligned;
    std::memset(static_cast<void*>(memory_.data()), kPoison, memory_.size() * sizeof(T));
  }
  Guarded(std::int64_t count, std::mt19937& random, std::int64_t misaligned = 0)
      : Guarded(count, misaligned) {
    std::normal_distribution<double> normal;
    for (std::int64_t i = 0; i < count; ++i) data_[i] = stored<T>(normal(random));
  }

  T* data() { return data_; }
  T operator[](std::int64_t i) const { return data_[i]; }

  bool guards_whole() const {
    const auto poisoned = [](const T* from, const T* to) {
      const auto* bytes = reinterpret_cast<const unsigned char*>(from);
      const auto* end = reinterpret_cast<const unsigned char*>(to);
      return std::all_of(bytes, end, [](unsigned char byte) { return byte == kPoison; });
    };
    return poisoned(memory_.data(), data_) &&
           poisoned(data_ + count_, memory_.data() + memory_.size());
  }

 private:
  static constexpr std::size_t kGuard = 32;
  static constexpr unsigned char kPoison = 0xff;  // a NaN in every type

  std::vector<T> memory_;
  T* data_;
  std::int64_t count_;
};

template <typename T>
bool same_bits(const T& a, const T& b) {
  using Wide = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  using Bits = std::conditional_t<sizeof(T) == 2, std::uint16_t, Wide>;
  return std::bit_cast<Bits>(a) == std::bit_cast<Bits>(b);
}

struct Grid {
  std::int64_t blocks, threads;
};

constexpr Grid kGrids[] = {{1, 1}, {1, 7}, {3, 32}, {40, 128}};

template <class Types>
class Pointwise : public testing::Test {};

using Elements = testing::Types<float, double, Bfloat16, Float16>;
TYPED_TEST_SUITE(Pointwise, Elements);

template <typename T, int kWidth>
void check_forward(std::int64_t batch, std::int64_t state, Grid grid, std::int64_t misaligned) {
  using Sum = typename SumOf<T>::type;
  std::mt19937 random(static_cast<unsigned>(batch * 1000 + state));
  const std::int64_t count = batch * state;
  Guarded<Sum> gates(3 * count, random, misaligned), from_h(3 * count, random);
  Guarded<Sum> cell(count, random);
  Guarded<T> bias(3 * state, random), hidden(count);
  const Guarded<Sum> cell_before = cell;
  std::vector<LltmUnit<Sum>> expected;
  for (std::int64_t e = 0; e < count; ++e) {
    const std::int64_t row = e / state, unit = e % state;
    const auto sum = [&](std::int64_t gate) {
      const std::int64_t at = row * 3 * state + gate * state + unit;
      return gates[at] + (from_h[at] + to_float(bias[gate * state + unit]));
    };
    expected.push_back(lltm_unit(sum(0), sum(1), sum(2), cell.data()[e]));
  }
  run_grid<kWidth>(LltmPointwiseForward<T>{.batch = batch,
                                           .state = state,
                                           .from_x = gates.data(),
                                           .from_h = from_h.data(),
                                           .bias = bias.data(),
                                           .cell_in = cell.data(),
                                           .gates = gates.data(),
                                           .cell = cell.data(),
                                           .hidden = hidden.data()},
                   grid.blocks, grid.threads);
  for (std::int64_t e = 0; e < count; ++e) {
    const auto& unit = expected[static_cast<std::size_t>(e)];
    const std::int64_t gate = e / state * 3 * state + e % state;
    ASSERT_TRUE(same_bits(gates[gate], unit.input)) << e;
    ASSERT_TRUE(same_bits(gates[gate + state], unit.output)) << e;
    ASSERT_TRUE(same_bits(gates[gate + 2 * state], unit.candidate)) << e;
    ASSERT_TRUE(same_bits(cell.data()[e], unit.cell)) << e;
    ASSERT_TRUE(same_bits(hidden[e], stored<T>(unit.hidden))) << e;
  }
  EXPECT_TRUE(gates.guards_whole() && cell.guards_whole() && hidden.guards_whole());
}

template <typename T, int kWidth>
void check_backward(std::int64_t batch, std::int64_t state, Grid grid, int given) {
  using Sum = typename SumOf<T>::type;
  std::mt19937 random(static_cast<unsigned>(batch * 1000 + state));
  const std::int64_t count = batch * state;
  Guarded<Sum> gates(3 * count, random), cell(count, random), carried(count, random);
  Guarded<Sum> by_c(count, random);
  Guarded<T> by_loss(count, random), by_gates(3 * count);
  const bool has_loss = (given & 1) != 0, has_carried = (given & 2) != 0, has_c = (given & 4) != 0;
  std::vector<LltmUnitGrad<Sum>> expected;
  for (std::int64_t e = 0; e < count; ++e) {
    const std::int64_t gate = e / state * 3 * state + e % state;
    const Sum loss = has_loss ? to_float(by_loss[e]) : Sum{0};
    expected.push_back(lltm_unit_grad(
        gates[gate], gates[gate + state], gates[gate + 2 * state], std::tanh(cell[e]),
        loss + (has_carried ? carried[e] : Sum{0}), has_c ? by_c[e] : Sum{0}));
  }
  run_grid<kWidth>(
      LltmPointwiseBackward<T>{.batch = batch,
                               .state = state,
                               .gates = gates.data(),
                               .cell = cell.data(),
                               .grad_hidden = has_loss ? by_loss.data() : nullptr,
                               .grad_hidden_in = has_carried ? carried.data() : nullptr,
                               .grad_cell_in = has_c ? by_c.data() : nullptr,
                               .grad_gates = by_gates.data(),
                               .grad_cell = by_c.data()},
      grid.blocks, grid.threads);
  for (std::int64_t e = 0; e < count; ++e) {
    const auto& grad = expected[static_cast<std::size_t>(e)];
    const std::int64_t gate = e / state * 3 * state + e % state;
    ASSERT_TRUE(same_bits(by_gates[gate], stored<T>(grad.input))) << e;
    ASSERT_TRUE(same_bits(by_gates[gate + state], stored<T>(grad.output))) << e;
    ASSERT_TRUE(same_bits(by_gates[gate + 2 * state], stored<T>(grad.candidate))) << e;
    ASSERT_TRUE(same_bits(by_c[e], grad.cell)) << e;
  }
  EXPECT_TRUE(by_gates.guards_whole() && by_c.guards_whole());
}

TYPED_TEST(Pointwise, ComputesEachElementOnceForAllTails) {
  for (const Grid grid : kGrids) {
    for (const std::int64_t batch : {0, 1, 2, 3, 17}) {
      for (std::int64_t state = 0; state <= 33; ++state) {
        check_forward<TypeParam, 1>(batch, state, grid, 0);
        check_backward<TypeParam, 1>(batch, state, grid, 7);
      }
    }
  }
}

TYPED_TEST(Pointwise, ComputesEachElementOnceSixteenBytesAtATime) {
  constexpr int kWidth = kVectorWidth<TypeParam>;
  for (const Grid grid : kGrids) {
    for (const std::int64_t batch : {0, 1, 2, 3, 17}) {
      for (std::int64_t state = 0; state <= 36; state += kWidth) {
        check_forward<TypeParam, kWidth>(batch, state, grid, 0);
        check_backward<TypeParam, kWidth>(batch, state, grid, 7);
      }
    }
  }
}

TYPED_TEST(Pointwise, TakesGradientsThatAreNotThereAsZero) {
  for (int given = 0; given < 8; ++given) {
    check_backward<TypeParam, 1>(3, 5, {2, 4}, given);
    check_backward<TypeParam, kVectorWidth<TypeParam>>(3, 8, {2, 4}, given);
  }
}

TYPED_TEST(Pointwise, TakesArraysThatAreNotAlignedForVectors) {
  check_forward<TypeParam, 1>(3, 8, {2, 4}, 1);
}

TYPED_TEST(Pointwise, TakesMoreRowsThanAGridHasBlocks) {
  check_forward<TypeParam, 1>(70'001, 3, {64, 128}, 0);
  check_forward<TypeParam, kVectorWidth<TypeParam>>(70'001, 4, {64, 128}, 0);
}

// The places of groups for arrays that would not fit into any memory.
TEST(PlacesOfGroups, AreRightBeyondThirtyTwoBits) {
  const std::int64_t state = 1'000'004, row = 123'456'789;
  const std::int64_t first = row * state + 1000;
  const GroupPlace place = place_of_group<4>(first / 4, state);
  EXPECT_EQ(place.state, first);
  EXPECT_EQ(place.gate, row * 3 * state + 1000);
  EXPECT_EQ(place.unit, 1000);
}

TEST(SharesOfThreads, MakeUpTheGridOnce) {
  for (const Grid grid : kGrids) {
    std::vector<int> visits(5000);
    for (std::int64_t block = 0; block < grid.blocks; ++block) {
      for (std::int64_t thread = 0; thread < grid.threads; ++thread) {
        const GridShare share = share_of_thread(block, thread, grid.threads, grid.blocks);
        for (std::int64_t i = share.first; i < 5000; i += share.stride) {
          ++visits[static_cast<std::size_t>(i)];
        }
      }
    }
    EXPECT_TRUE(std::ranges::all_of(visits, [](int n) { return n == 1; }));
  }
}

}  // namespace
}  // namespace passel::kernels
