// What several processes do to the same parameters and the same optimiser state.
#include <ATen/ops/full_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <string_view>

#include "passel/device/cpu_device.h"
#include "passel/kernels/update.h"
#include "passel/shm/doorbell.h"
#include "passel/shm/process_context.h"
#include "passel/shm/worker.h"
#include "passel/train/hogwild.h"

namespace passel::pain {
namespace {

using shm::ProcessContext;
using shm::WorkerContext;
using train::Config;
using train::HogwildMode;
using train::Model;
using train::TrainingMemory;

/// Where all processes of a test wait for each other.
struct Meeting {
  shm::Doorbell bell;
  std::atomic<std::uint32_t> arrived;
};

/// Waits in every process until all of them have come here.
void meet(WorkerContext& context) {
  auto& meeting = *context.arena.get<Meeting>("meeting");
  ++meeting.arrived;
  meeting.bell.wake_all();
  const bool met = meeting.bell.wait([&] { return meeting.arrived >= context.nprocs; },
                                     shm::after(std::chrono::minutes(1)));
  if (!met) throw std::runtime_error("the others did not come");
}

std::uint64_t hash_of(std::span<const float> values) {
  return std::hash<std::string_view>()(
      {reinterpret_cast<const char*>(values.data()), values.size_bytes()});
}

std::uint64_t hash_of(const TrainingMemory& memory) {
  std::uint64_t hash = hash_of(memory.parameters.values());
  for (const auto& optimizer : memory.optimizers) {
    for (const auto block : optimizer.blocks) hash = hash * 31 + hash_of(block);
  }
  return hash;
}

/// A worker's view of the run's memory.
struct Trainee {
  explicit Trainee(const WorkerContext& context) : Trainee(context.arena, context.slot) {}
  Trainee(const shm::Arena& arena, std::uint32_t slot)
      : config(TrainingMemory::read_config(arena)),
        model(TrainingMemory::read_shape(arena), config.hidden_size, config.seed),
        memory(TrainingMemory::open(arena, config, model)),
        device(*memory.blocks),
        mode(config, memory,
             device.bind(model.parameters(), memory.parameters.spans(), memory.versions), slot) {}

  std::vector<at::Tensor> gradients(double value) const {
    std::vector<at::Tensor> all;
    for (const auto& [name, parameter] : model.parameters()) {
      all.push_back(at::full_like(parameter.detach(), value));
    }
    return all;
  }

  bool commit(const std::vector<at::Tensor>& gradients) {
    const auto gradient = device.gradient(at::zeros({}), gradients);
    return mode.commit({.lr = 0.001}, gradient).applied != train::Done::kRejected;
  }

  Config config;
  Model model;
  TrainingMemory memory;
  device::CpuDevice device;
  HogwildMode mode;
};

/// A run's memory without the trainer around it.
class SharedUpdates : public ::testing::Test {
 protected:
  void create(const std::string& optimizer) {
    config_.optimizer = optimizer;
    config_.hidden_size = 5;
    config_.clip_norm = 0;
    arena_.emplace(
        shm::Arena::create("test", TrainingMemory::capacity(config_, model_) + (1 << 20)));
    memory_.emplace(TrainingMemory::create(*arena_, config_, model_));
    arena_->construct<Meeting>("meeting");
  }

  template <class R>
  std::vector<R> run(const std::string& entry, std::uint32_t workers) {
    ProcessContext context(*arena_, entry, {.nprocs = workers});
    context.start();
    EXPECT_TRUE(context.join_for(std::chrono::minutes(1)));
    std::vector<R> results;
    for (std::uint32_t slot = 0; slot < workers; ++slot) {
      results.push_back(context.result<R>(slot).value());
    }
    return results;
  }

  bool all_finite() const {
    return std::ranges::all_of(memory_->parameters.values(),
                               [](float value) { return std::isfinite(value); });
  }

  Config config_;
  Model model_{{.steps = 4, .features = 3, .classes = 2}, 5, 1};
  std::optional<shm::Arena> arena_;
  std::optional<TrainingMemory> memory_;
};

struct Seen {
  std::int64_t version = 0;
  std::uint64_t hash = 0;
};

Seen pain_take_adam_steps(WorkerContext& context) {
  Trainee trainee(context);
  const auto gradients = trainee.gradients(0.01 * (context.slot + 1));
  for (int step = 0; step < 100; ++step) trainee.commit(gradients);
  meet(context);
  return {trainee.memory.counters->version.load(), hash_of(trainee.memory)};
}
PASSEL_ENTRY(pain_take_adam_steps);

TEST_F(SharedUpdates, KeepOneStepCountAndTheSameMomentsForAll) {
  create("adam");
  const auto seen = run<Seen>("pain_take_adam_steps", 2);
  EXPECT_EQ(memory_->counters->version.load(), 200);
  ASSERT_EQ(memory_->optimizers.size(), 1U);
  EXPECT_EQ(memory_->optimizers[0].steps->load(), 200);
  EXPECT_NE(memory_->optimizers[0].blocks[0][0], 0);
  for (const Seen& worker : seen) {
    EXPECT_EQ(worker.version, 200);
    EXPECT_EQ(worker.hash, hash_of(*memory_));
  }
}

TEST_F(SharedUpdates, KeepAStepCountAndMomentsForEachWorkerIfAskedTo) {
  config_.optimizer_state = "private";
  create("adam");
  for (const Seen& worker : run<Seen>("pain_take_adam_steps", 2)) EXPECT_EQ(worker.version, 200);
  ASSERT_EQ(memory_->optimizers.size(), 2U);
  for (const auto& optimizer : memory_->optimizers) EXPECT_EQ(optimizer.steps->load(), 100);
  // Worker 1's gradients were twice those of worker 0, and so is its mean of them.
  const float first = memory_->optimizers[0].blocks[0][0];
  EXPECT_GT(first, 0);
  EXPECT_FLOAT_EQ(memory_->optimizers[1].blocks[0][0], 2 * first);
}

/// Of 30 gradients worker 1's 3rd has a NaN and its 7th an infinity; returns how many
/// were rejected.
std::int64_t pain_bring_nan(WorkerContext& context) {
  Trainee trainee(context);
  std::int64_t rejected = 0;
  for (int i = 1; i <= 30; ++i) {
    const auto gradients = trainee.gradients(0.01);
    if (context.slot == 1 && i == 3) {
      gradients.back().view({-1})[0].fill_(std::numeric_limits<float>::quiet_NaN());
    }
    if (context.slot == 1 && i == 7) {
      gradients.front().view({-1})[1].fill_(std::numeric_limits<float>::infinity());
    }
    rejected += trainee.commit(gradients) ? 0 : 1;
  }
  return rejected;
}
PASSEL_ENTRY(pain_bring_nan);

TEST_F(SharedUpdates, RejectAGradientThatIsNotFinite) {
  for (const std::string rule : {"sgd", "adam"}) {
    create(rule);
    EXPECT_EQ(run<std::int64_t>("pain_bring_nan", 2), (std::vector<std::int64_t>{0, 2}));
    EXPECT_EQ(memory_->counters->version.load(), 58);
    EXPECT_TRUE(all_finite());
  }
}

constexpr int kAdditions = 100'000;
constexpr std::size_t kNumbers = 64;

bool pain_add_atomically(WorkerContext& context) {
  const auto values = context.arena.get_array<float>("numbers");
  const std::vector<float> ones(kNumbers, 1);
  meet(context);
  for (int i = 0; i < kAdditions; ++i) {
    kernels::add_atomically(values.data(), ones.data(), values.size());
  }
  return true;
}
PASSEL_ENTRY(pain_add_atomically);

bool pain_add_in_a_race(WorkerContext& context) {
  const auto values = context.arena.get_array<float>("numbers");
  const std::vector<float> gradient(kNumbers, -1);
  meet(context);
  for (int i = 0; i < kAdditions; ++i) {
    kernels::apply_update({.rule = kernels::UpdateRule::kSgd}, {.lr = 1, .step = 1}, values.data(),
                          gradient.data(), {}, values.size());
  }
  return true;
}
PASSEL_ENTRY(pain_add_in_a_race);

class SharedNumbers : public SharedUpdates {
 protected:
  std::span<float> after(const std::string& entry) {
    create("sgd");
    const auto numbers = arena_->construct_array<float>("numbers", kNumbers);
    run<bool>(entry, 4);
    return numbers;
  }
};

TEST_F(SharedNumbers, AddUpExactlyWithAtomicAdditions) {
  for (const float number : after("pain_add_atomically")) ASSERT_EQ(number, 4 * kAdditions);
}

TEST_F(SharedNumbers, LoseSomeAdditionsInARaceButAreNeverTorn) {
  float least = 4 * kAdditions;
  for (const float number : after("pain_add_in_a_race")) {
    // A torn float would hardly be a whole number between what one worker added and all.
    ASSERT_EQ(number, std::floor(number));
    ASSERT_GE(number, 1);
    ASSERT_LE(number, 4 * kAdditions);
    least = std::min(least, number);
  }
  RecordProperty("lost_at_most", std::to_string(4 * kAdditions - static_cast<int>(least)));
}

}  // namespace
}  // namespace passel::pain
