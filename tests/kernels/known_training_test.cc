// A whole training with the kernels alone: cell, head, loss, clipping and update, ordered with
// staleness 1 as `--mode ordered` has it. Its parameters have the same bits on every machine:
// `make neon` runs it as ARM code.

#include <numeric>

#include "bits_hash.h"
#include "each_target.h"
#include "lltm_case.h"
#include "passel/kernels/linear_loss.h"
#include "passel/kernels/update.h"

namespace passel::kernels::test {
namespace {

constexpr LltmShape kCell{.steps = 9, .batch = 12, .input = 5, .state = 37};
constexpr LinearShape kHead{.batch = 12, .input = 37, .output = 5};
constexpr std::int64_t kTickets = 50;
constexpr UpdateOptions kAdam{.rule = UpdateRule::kAdam};

/// Where each parameter stands in one array.
enum Part { kWeight, kBias, kHeadWeight, kHeadBias, kParts };
constexpr std::size_t kSizes[kParts] = {3 * 37 * (37 + 5), 3 * 37, 5 * 37, 5};
constexpr std::size_t kAll = kSizes[0] + kSizes[1] + kSizes[2] + kSizes[3];

template <typename T>
T* part(T* all, Part which) {
  return std::accumulate(kSizes, kSizes + which, all);
}

std::vector<float> start() {
  std::mt19937_64 engine(7);
  std::vector<float> parameters(kAll);
  for (float& p : parameters) p = (static_cast<float>(engine() >> 40) * 0x1p-23F - 1) / 8;
  return parameters;
}

/// Sequences in which one input is larger than the others at each step but one, and that is the
/// class.
struct Batch {
  std::vector<float> x = std::vector<float>(kCell.steps * kCell.batch * kCell.input);
  std::vector<std::int64_t> target = std::vector<std::int64_t>(kCell.batch);

  explicit Batch(std::int64_t ticket) {
    std::mt19937_64 engine(static_cast<std::uint64_t>(100 + ticket));
    for (float& value : x) value = static_cast<float>(engine() >> 40) * 0x1p-24F;
    for (std::int64_t b = 0; b < kCell.batch; ++b) {
      const std::int64_t label = static_cast<std::int64_t>(engine() % 5);
      target[static_cast<std::size_t>(b)] = label;
      for (std::int64_t t = 1; t < kCell.steps; ++t) {
        x[static_cast<std::size_t>((t * kCell.batch + b) * kCell.input + label)] += 1;
      }
    }
  }
};

/// A worker: loss and gradient of a batch at given parameters.
class Trainer {
 public:
  float gradient_of(const Batch& batch, const float* parameters, float* gradient) {
    lltm_forward(kCell, {.x = batch.x.data(),
                         .weight = part(parameters, kWeight),
                         .bias = part(parameters, kBias),
                         .h0 = zeros_.data(),
                         .c0 = zeros_.data(),
                         .hidden = hidden_.data(),
                         .c_last = c_last_.data(),
                         .cells = cells_.data(),
                         .gates = gates_.data(),
                         .packed = packed_.data()});
    const float* last = hidden_.data() + (kCell.steps - 1) * kCell.batch * kCell.state;
    linear_forward(kHead, {.x = last,
                           .weight = part(parameters, kHeadWeight),
                           .bias = part(parameters, kHeadBias),
                           .output = logits_.data(),
                           .packed = head_packed_.data()});
    float loss = 0;
    const auto bad_row = cross_entropy(kHead.batch, kHead.output,
                                       CrossEntropy<float>{.logits = logits_.data(),
                                                           .target = batch.target.data(),
                                                           .slopes = logits_.data(),
                                                           .loss = &loss});
    EXPECT_FALSE(bad_row.has_value());
    linear_backward(kHead, {.x = last,
                            .packed = head_packed_.data(),
                            .grad_output = logits_.data(),
                            .scale = 1,
                            .grad_x = grad_last_.data(),
                            .grad_weight = part(gradient, kHeadWeight),
                            .grad_bias = part(gradient, kHeadBias),
                            .workspace = head_workspace_.data()});
    lltm_backward(kCell, {.x = batch.x.data(),
                          .h0 = zeros_.data(),
                          .c0 = zeros_.data(),
                          .hidden = hidden_.data(),
                          .cells = cells_.data(),
                          .gates = gates_.data(),
                          .packed = packed_.data(),
                          .grad_hidden = nullptr,
                          .grad_h_last = grad_last_.data(),
                          .grad_c_last = nullptr,
                          .grad_x = nullptr,
                          .grad_weight = part(gradient, kWeight),
                          .grad_bias = part(gradient, kBias),
                          .grad_h0 = nullptr,
                          .grad_c0 = nullptr,
                          .workspace = workspace_.data()});
    return loss;
  }

 private:
  static constexpr std::size_t kState = kCell.batch * kCell.state;
  using Floats = std::vector<float>;
  Floats zeros_ = Floats(kState), grad_last_ = Floats(kState), c_last_ = Floats(kState);
  Floats hidden_ = Floats(kCell.steps * kState), cells_ = Floats(kCell.steps * kState);
  Floats gates_ = Floats(3 * kCell.steps * kState);
  Floats packed_ = Floats(lltm_packed_size(kCell));
  Floats workspace_ = Floats(lltm_backward_workspace(kCell));
  Floats logits_ = Floats(kHead.batch * kHead.output);
  Floats head_packed_ = Floats(linear_packed_size(kHead));
  Floats head_workspace_ = Floats(linear_backward_workspace(kHead));
};

struct Training {
  std::vector<float> losses;
  std::uint64_t hash;
};

/// Ticket k's gradient is of version max(0, k - 1), and makes version k + 1 of version k.
Training train() {
  std::vector<float> before = start(), now = before, gradient(kAll), mean(kAll), square(kAll);
  const std::vector<float*> state = {mean.data(), square.data()};
  Trainer trainer;
  Training training;
  for (std::int64_t ticket = 0; ticket < kTickets; ++ticket) {
    const Batch batch(ticket);
    training.losses.push_back(trainer.gradient_of(batch, before.data(), gradient.data()));
    before = now;
    const float scale = clip_scale(squared_norm(gradient.data(), kAll), 1);
    apply_update(kAdam, {.lr = 0.01, .step = ticket + 1, .grad_scale = scale}, now.data(),
                 gradient.data(), state, kAll);
  }
  Hash hash;
  hash.add(std::span<const float>(now));
  training.hash = hash.value();
  return training;
}

TEST(KnownTraining, OfFiftyTicketsEndsWithTheSameBitsOnEveryInstructionSet) {
  with_each_target([] {
    const Training training = train();
    EXPECT_LT(training.losses.back(), training.losses.front() / 2);
    EXPECT_EQ(training.hash, 0xcdb889de2a6fa43dU) << std::hex << "0x" << training.hash;
  });
}

}  // namespace
}  // namespace passel::kernels::test
