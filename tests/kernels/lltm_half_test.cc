// 16-bit inputs: the float kernels, step by step, with h rounded after each step,
// are the oracle, bit for bit.
#include <sstream>
#include <string>

#include "each_target.h"
#include "lltm_case.h"
#include "passel/kernels/half.h"

namespace passel::kernels::test {
namespace {

/// Numbers of a 16-bit type between guards, starting as NaN.
template <typename Half>
class Halves {
 public:
  explicit Halves(std::size_t size = 0) : size_(size), all_(size + 2 * kGuard, Half{0x7fff}) {
    std::fill_n(all_.begin(), kGuard, kPattern);
    std::fill_n(all_.end() - kGuard, kGuard, kPattern);
  }

  /// The numbers of `from`, rounded, which are then put back into it.
  explicit Halves(Guarded<float>& from) : Halves(from.size()) {
    for (std::size_t i = 0; i < size_; ++i) {
      data()[i] = from_float<Half>(from[i]);
      from[i] = to_float(data()[i]);
    }
  }

  Half* data() { return all_.data() + kGuard; }
  std::size_t size() const { return size_; }
  std::vector<float> floats() const {
    std::vector<float> values(size_);
    for (std::size_t i = 0; i < size_; ++i) values[i] = to_float(all_[kGuard + i]);
    return values;
  }
  bool guards_intact() const {
    const auto intact = [](Half h) { return h.bits == kPattern.bits; };
    return std::all_of(all_.begin(), all_.begin() + kGuard, intact) &&
           std::all_of(all_.end() - kGuard, all_.end(), intact);
  }

 private:
  static constexpr std::ptrdiff_t kGuard = 33;
  static constexpr Half kPattern{0x1234};

  std::size_t size_;
  std::vector<Half> all_;
};

/// A run on 16-bit arrays. What it shares with one on floats is in `floats`, with
/// all inputs rounded.
template <typename Half>
struct HalfCase {
  LltmCase<float> floats;
  Halves<Half> x, weight, bias, h0, grad_hidden, grad_h_last, hidden;
  Guarded<float> forward_workspace;

  HalfCase(const LltmShape& shape, const LltmPlan& plan)
      : floats(shape, 31, 1, plan),
        x(floats.x),
        weight(floats.weight),
        bias(floats.bias),
        h0(floats.h0),
        grad_hidden(floats.grad_hidden),
        grad_h_last(floats.grad_h_last),
        hidden(floats.hidden.size()),
        forward_workspace(lltm_forward_workspace(shape)) {}

  void run() {
    LltmCase<float>& f = floats;
    lltm_forward(f.shape,
                 LltmForward<Half>{.x = x.data(),
                                   .weight = weight.data(),
                                   .bias = bias.data(),
                                   .h0 = h0.data(),
                                   .c0 = f.c0.data(),
                                   .hidden = hidden.data(),
                                   .c_last = f.c_last.data(),
                                   .cells = f.cells.data(),
                                   .gates = f.gates.data(),
                                   .packed = f.packed.data(),
                                   .workspace = forward_workspace.data()},
                 f.plan);
    lltm_backward(f.shape,
                  LltmBackward<Half>{.x = x.data(),
                                     .h0 = h0.data(),
                                     .c0 = f.c0.data(),
                                     .hidden = hidden.data(),
                                     .cells = f.cells.data(),
                                     .gates = f.gates.data(),
                                     .packed = f.packed.data(),
                                     .grad_hidden = grad_hidden.data(),
                                     .grad_h_last = grad_h_last.data(),
                                     .grad_c_last = f.grad_c_last.data(),
                                     .grad_x = f.grad_x.data(),
                                     .grad_weight = f.grad_weight.data(),
                                     .grad_bias = f.grad_bias.data(),
                                     .grad_h0 = f.grad_h0.data(),
                                     .grad_c0 = f.grad_c0.data(),
                                     .workspace = f.workspace.data()},
                  f.plan);
  }
};

/// The forward pass of `c` with h rounded after each step.
template <typename Half>
void forward_rounding(LltmCase<float>& c) {
  LltmShape one = c.shape;
  one.steps = 1;
  const float* h = c.h0.data();
  const float* cell = c.c0.data();
  const std::int64_t state = one.batch * one.state;
  lltm_pack(c.shape, c.weight.data(), c.bias.data(), c.packed.data());
  c.c_last = c.c0;
  for (std::int64_t t = 0; t < c.shape.steps; ++t) {
    auto arrays = c.forward_arrays();
    arrays.x += t * one.batch * one.input;
    arrays.h0 = h;
    arrays.c0 = cell;
    arrays.hidden += t * state;
    arrays.cells += t * state;
    arrays.gates += 3 * t * state;
    lltm_forward(one, arrays);
    for (std::int64_t i = 0; i < state; ++i) {
      arrays.hidden[i] = to_float(from_float<Half>(arrays.hidden[i]));
    }
    h = arrays.hidden;
    cell = arrays.c_last;
  }
}

template <typename Half>
void expect_rounded_run(const LltmShape& shape, const LltmPlan& plan = {}) {
  std::ostringstream text;
  text << "T " << shape.steps << " B " << shape.batch << " I " << shape.input << " S "
       << shape.state << ", keep every " << plan.keep_every;
  SCOPED_TRACE(text.str());
  HalfCase<Half> halves(shape, plan);
  LltmCase<float> expected(shape);
  const auto inputs = halves.floats.inputs();
  for (std::size_t i = 0; i < inputs.size(); ++i) *expected.inputs()[i] = *inputs[i];
  expected.weight = halves.floats.weight;
  expected.bias = halves.floats.bias;
  forward_rounding<Half>(expected);
  lltm_backward(shape, expected.backward_arrays());
  halves.run();

  const std::vector<float> hidden = halves.hidden.floats();
  EXPECT_TRUE(same_bits<float>(hidden, expected.hidden.values()));
  EXPECT_TRUE(halves.hidden.guards_intact());
  EXPECT_TRUE(halves.forward_workspace.guards_intact());
  EXPECT_TRUE(halves.floats.workspace.guards_intact());
  EXPECT_TRUE(same_bits(halves.floats.c_last, expected.c_last));
  if (plan.keep_every == 0) {
    EXPECT_TRUE(same_bits(halves.floats.cells, expected.cells));
    EXPECT_TRUE(same_bits(halves.floats.gates, expected.gates));
  }
  for (std::size_t i = 0; i < expected.gradients().size(); ++i) {
    EXPECT_TRUE(same_bits(*halves.floats.gradients()[i], *expected.gradients()[i])) << i;
  }
}

template <typename Half>
void expect_rounded_runs() {
  for (const std::int64_t steps : {0, 1, 5}) {
    for (const std::int64_t batch : {0, 1, 9, 16}) {
      for (const std::int64_t state : {0, 1, 15, 16, 33}) {
        expect_rounded_run<Half>({steps, batch, 0, state});
        expect_rounded_run<Half>({steps, batch, 7, state});
        expect_rounded_run<Half>({steps, batch, 7, state}, {.keep_every = 2});
      }
    }
  }
  expect_rounded_run<Half>({40, 17, 50, 49});
}

TEST(LltmHalf, Bfloat16RunsAreFloatRunsWithRoundedInputsAndH) {
  expect_rounded_runs<Bfloat16>();
}
TEST(LltmHalf, Float16RunsAreFloatRunsWithRoundedInputsAndH) {
  expect_rounded_runs<Float16>();
}

TEST(LltmHalf, HasTheSameBitsOnEveryInstructionSet) {
  with_each_target([] {
    expect_rounded_run<Bfloat16>({20, 19, 21, 37});
    expect_rounded_run<Float16>({20, 19, 21, 37}, {.keep_every = 6});
  });
}

}  // namespace
}  // namespace passel::kernels::test
