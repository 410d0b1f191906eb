// What must not change a single bit, and what may change the last ones.
#include <algorithm>
#include <numeric>

#include "each_target.h"
#include "lltm_case.h"

namespace passel::kernels::test {
namespace {

constexpr LltmShape kShape{.steps = 20, .batch = 19, .input = 21, .state = 37};

template <typename T>
void expect_same_results(LltmCase<T>& a, LltmCase<T>& b) {
  for (std::size_t i = 0; i < a.results().size(); ++i) {
    EXPECT_TRUE(same_bits(*a.results()[i], *b.results()[i])) << "array " << i;
  }
}

template <typename T>
void expect_same_on_each_target() {
  LltmCase<T> usual(kShape, 5);
  usual.run();
  with_each_target([&] {
    LltmCase<T> forced(kShape, 5);
    forced.run();
    expect_same_results(forced, usual);
  });
}

TEST(LltmBits, AreEqualOnEveryInstructionSetInFloat) {
  expect_same_on_each_target<float>();
}
TEST(LltmBits, AreEqualOnEveryInstructionSetInDouble) {
  expect_same_on_each_target<double>();
}

TEST(LltmBits, AreEqualWhenRunAgainOverOldOutputs) {
  LltmCase<float> once(kShape, 6);
  LltmCase<float> twice(kShape, 6);
  once.run();
  twice.run().run();
  expect_same_results(once, twice);
}

/// Copies rows first .. first + count of the batch axis of [steps, from_batch, width].
template <typename T>
void copy_rows(const Guarded<T>& from, std::int64_t from_batch, std::int64_t first, Guarded<T>& to,
               std::int64_t to_batch, std::int64_t width, std::int64_t steps) {
  for (std::int64_t t = 0; t < steps; ++t) {
    std::copy_n(from.data() + (t * from_batch + first) * width, to_batch * width,
                to.data() + t * to_batch * width);
  }
}

TEST(LltmBits, OfARowDoNotDependOnTheOtherRows) {
  LltmCase<float> whole(kShape, 8);
  whole.run();
  constexpr std::int64_t kParts[][2] = {{0, 8}, {8, 10}, {18, 1}, {3, 5}};  // first, count
  for (const auto& rows : kParts) {
    const std::int64_t first = rows[0];
    const std::int64_t count = rows[1];
    LltmShape shape = kShape;
    shape.batch = count;
    LltmCase<float> part(shape, 8);
    const auto take = [&](const Guarded<float>& from, std::int64_t width, std::int64_t steps) {
      Guarded<float> to(static_cast<std::size_t>(steps * count * width));
      copy_rows(from, kShape.batch, first, to, count, width, steps);
      return to;
    };
    part.x = take(whole.x, shape.input, shape.steps);
    part.grad_hidden = take(whole.grad_hidden, shape.state, shape.steps);
    part.h0 = take(whole.h0, shape.state, 1);
    part.c0 = take(whole.c0, shape.state, 1);
    part.grad_h_last = take(whole.grad_h_last, shape.state, 1);
    part.grad_c_last = take(whole.grad_c_last, shape.state, 1);
    part.run();
    EXPECT_TRUE(same_bits(part.hidden, take(whole.hidden, shape.state, shape.steps)));
    EXPECT_TRUE(same_bits(part.cells, take(whole.cells, shape.state, shape.steps)));
    EXPECT_TRUE(same_bits(part.gates, take(whole.gates, 3 * shape.state, shape.steps)));
    EXPECT_TRUE(same_bits(part.grad_x, take(whole.grad_x, shape.input, shape.steps)));
    EXPECT_TRUE(same_bits(part.grad_h0, take(whole.grad_h0, shape.state, 1)));
    EXPECT_TRUE(same_bits(part.grad_c0, take(whole.grad_c0, shape.state, 1)));
  }
}

/// Steps first .. first + count of `whole`, started from `h0` and `c0`.
LltmCase<float> steps_of(const LltmCase<float>& whole, std::int64_t first, std::int64_t count,
                         const float* h0, const float* c0) {
  LltmShape shape = whole.shape;
  shape.steps = count;
  LltmCase<float> part(shape, 9);
  std::ranges::copy(whole.weight.values(), part.weight.data());
  std::ranges::copy(whole.bias.values(), part.bias.data());
  const std::int64_t row = shape.batch;
  std::copy_n(whole.x.data() + first * row * shape.input, part.x.size(), part.x.data());
  std::copy_n(whole.grad_hidden.data() + first * row * shape.state, part.hidden.size(),
              part.grad_hidden.data());
  std::copy_n(h0, part.h0.size(), part.h0.data());
  std::copy_n(c0, part.c0.size(), part.c0.data());
  return part;
}

TEST(LltmBits, DoNotDependOnASplitInTime) {
  LltmCase<float> whole(kShape, 9);
  whole.run();
  const std::int64_t cut = 7;
  LltmCase<float> early = steps_of(whole, 0, cut, whole.h0.data(), whole.c0.data());
  early.forward();
  const std::size_t last = early.hidden.size() - early.h0.size();
  LltmCase<float> late =
      steps_of(whole, cut, kShape.steps - cut, early.hidden.data() + last, early.c_last.data());
  std::ranges::copy(whole.grad_h_last.values(), late.grad_h_last.data());
  std::ranges::copy(whole.grad_c_last.values(), late.grad_c_last.data());
  late.run();
  std::ranges::copy(late.grad_h0.values(), early.grad_h_last.data());
  std::ranges::copy(late.grad_c0.values(), early.grad_c_last.data());
  lltm_backward(early.shape, early.backward_arrays());

  const std::span<const float> hidden = whole.hidden.values();
  EXPECT_TRUE(same_bits<float>(early.hidden.values(), hidden.first(early.hidden.size())));
  EXPECT_TRUE(same_bits<float>(late.hidden.values(), hidden.last(late.hidden.size())));
  const std::span<const float> grad_x = whole.grad_x.values();
  EXPECT_TRUE(same_bits<float>(early.grad_x.values(), grad_x.first(early.grad_x.size())));
  EXPECT_TRUE(same_bits<float>(late.grad_x.values(), grad_x.last(late.grad_x.size())));
  EXPECT_TRUE(same_bits(early.grad_h0, whole.grad_h0));
  EXPECT_TRUE(same_bits(early.grad_c0, whole.grad_c0));
  std::vector<float> sum(whole.grad_weight.size());
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = early.grad_weight[i] + late.grad_weight[i];
  EXPECT_LE(relative_error(std::span(sum), whole.grad_weight.values()), 1e-6);
}

TEST(Lltm, UnitsMayStandInAnyOrder) {
  LltmCase<double> plain(kShape, 10);
  LltmCase<double> mixed(kShape, 10);
  std::vector<std::size_t> order(kShape.state);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::shuffle(order, std::mt19937_64(1));
  const auto state = order.size();
  const std::size_t columns = state + kShape.input;
  const auto permute = [&](const Guarded<double>& from, Guarded<double>& to) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = from[i / state * state + order[i % state]];
  };
  for (std::size_t row = 0; row < 3 * state; ++row) {
    const std::size_t from = row / state * state + order[row % state];
    mixed.bias[row] = plain.bias[from];
    for (std::size_t k = 0; k < columns; ++k) {
      mixed.weight[row * columns + k] = plain.weight[from * columns + (k < state ? order[k] : k)];
    }
  }
  permute(plain.h0, mixed.h0);
  permute(plain.c0, mixed.c0);
  permute(plain.grad_hidden, mixed.grad_hidden);
  permute(plain.grad_h_last, mixed.grad_h_last);
  permute(plain.grad_c_last, mixed.grad_c_last);
  plain.run();
  mixed.run();
  Guarded<double> hidden(plain.hidden.size());
  permute(plain.hidden, hidden);
  EXPECT_LE(relative_error(mixed.hidden.values(), hidden.values()), 1e-12);
  EXPECT_LE(relative_error(mixed.grad_x.values(), plain.grad_x.values()), 1e-12);
}

}  // namespace
}  // namespace passel::kernels::test
