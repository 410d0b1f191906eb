// A torch::nn module that several processes train at once.
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <sched.h>
#include <torch/nn/modules/linear.h>

#include <array>
#include <set>

#include "pain/pain.h"

namespace passel::pain {
namespace {

struct NetImpl : torch::nn::Module {
  NetImpl() : hidden(2, 16), output(16, 1) {
    register_module("hidden", hidden);
    register_module("output", output);
  }
  at::Tensor loss(std::int64_t batch) {
    const at::Tensor x = at::rand({batch, 2}) * 2 - 1;
    return (output(at::tanh(hidden(x))) - x.prod(1, true)).square().mean();
  }
  torch::nn::Linear hidden, output;
};
TORCH_MODULE(Net);

struct Threads {
  int budget = 0;
  std::size_t tasks = 0;
};

/// All threads of the process after work that would use as many as it may.
Threads pain_count_threads(Worker&) {
  at::mm(at::ones({512, 512}), at::ones({512, 512}));
  return {.budget = at::get_num_threads(), .tasks = shm::test::names_in("/proc/self/task").size()};
}
PASSEL_ENTRY(pain_count_threads);

TEST(Workers, ShareTheProcessorsInsteadOfTakingAllOfThemEach) {
  cpu_set_t allowed;
  ASSERT_EQ(::sched_getaffinity(0, sizeof allowed, &allowed), 0);
  for (const std::uint32_t workers : {1U, 2U, 5U}) {
    const int share = std::max(1, CPU_COUNT(&allowed) / static_cast<int>(workers));
    Shared shared({.workers = workers, .region = kMiB});
    auto context = spawn(pain_count_threads, shared);
    join(*context);
    for (std::uint32_t slot = 0; slot < workers; ++slot) {
      const auto threads = context->result<Threads>(slot).value();
      EXPECT_EQ(threads.budget, share) << workers << " workers";
      EXPECT_LE(threads.tasks, static_cast<std::size_t>(share)) << workers << " workers";
    }
  }
}

using Draws = std::array<float, 8>;

Draws pain_draw(Worker&) {
  const at::Tensor drawn = at::rand({8});
  Draws draws;
  std::copy_n(drawn.const_data_ptr<float>(), draws.size(), draws.begin());
  return draws;
}
PASSEL_ENTRY(pain_draw);

std::vector<Draws> draws_of_run(std::uint64_t seed) {
  Shared shared({.workers = 3, .region = kMiB, .seed = seed});
  auto workers = spawn(pain_draw, shared);
  join(*workers);
  std::vector<Draws> all;
  for (std::uint32_t slot = 0; slot < 3; ++slot) {
    all.push_back(workers->result<Draws>(slot).value());
  }
  return all;
}

TEST(RandomNumbers, DifferBetweenWorkersAndAreTheSameInEveryRun) {
  const auto first = draws_of_run(1);
  EXPECT_EQ(std::set(first.begin(), first.end()).size(), 3U);
  EXPECT_EQ(draws_of_run(1), first);
  const auto other = draws_of_run(2);
  EXPECT_EQ(std::set(other.begin(), other.end()).size(), 3U);
  for (std::size_t slot = 0; slot < 3; ++slot) EXPECT_NE(other[slot], first[slot]);
}

/// Whether a backward pass of worker 0 left anything in the gradients of worker 1.
bool pain_see_gradients(Worker& self) {
  Net net;
  self.bind("net", net);
  auto done = Tally::open(self, "done");
  if (self.slot() == 0) net->loss(8).backward();
  if (self.slot() == 0) done.add();
  done.await(1);
  return std::ranges::any_of(net->parameters(), [](const at::Tensor& p) {
    return p.grad().defined() && p.grad().abs().sum().item<float>() > 0;
  });
}
PASSEL_ENTRY(pain_see_gradients);

TEST(Gradients, ArePrivateToTheWorkerThatComputedThem) {
  Shared shared({.workers = 2});
  Tally::create(shared, "done");
  Net net;
  shared.share("net", net);
  auto workers = spawn(pain_see_gradients, shared);
  join(*workers);
  EXPECT_EQ(workers->result<bool>(0), true);
  EXPECT_EQ(workers->result<bool>(1), false);
  for (const at::Tensor& parameter : net->parameters()) EXPECT_FALSE(parameter.grad().defined());
}

TEST(Gradients, AreOneForAllWhereTheyAreAskedFor) {
  Shared shared({.workers = 2});
  Tally::create(shared, "done");
  Net net;
  shared.share("net", net, {.gradients = true});
  auto workers = spawn(pain_see_gradients, shared);
  join(*workers);
  EXPECT_EQ(workers->result<bool>(1), true) << "of worker 0's backward pass";
  EXPECT_GT(net->output->weight.grad().abs().sum().item<float>(), 0) << "and so here";
}

void pain_lose_sharing(Worker& self) {
  Net net;
  self.bind("net", net);
  auto batches = self.queue("batches");
  while (const auto batch = batches.get()) {
    net->output->weight.set_data(net->output->weight.clone());
  }
}
PASSEL_ENTRY(pain_lose_sharing);

TEST(AParameterThatWasReplaced, IsReportedByNameInsteadOfTrainingInPrivate) {
  Shared shared({});
  Net net;
  shared.share("net", net);
  auto batches = shared.queue("batches");
  auto workers = spawn(pain_lose_sharing, shared);
  batches.put(at::ones({1}));
  batches.put(at::ones({1}));
  const auto failures = failures_of(*workers);
  ASSERT_EQ(failures.size(), 1U);
  EXPECT_NE(failures[0].text.find("net/output.weight"), std::string::npos) << failures[0].text;
}

void pain_train(Worker& self) {
  Net net;
  self.bind("net", net);
  auto steps = Tally::open(self, self.incarnation() == 1 ? "steps" : "steps of successors");
  while (!self.stop_requested()) {
    net->zero_grad();
    net->loss(32).backward();
    for (at::Tensor& parameter : net->parameters()) {
      parameter.detach().sub_(parameter.grad(), 0.1);
    }
    self.check_sharing();
    steps.add();
  }
}
PASSEL_ENTRY(pain_train);

TEST(Training, GoesOnAfterAWorkerWasKilled) {
  at::manual_seed(3);
  Shared shared({.workers = 2, .seed = 3});
  auto steps = Tally::create(shared, "steps");
  auto successors = Tally::create(shared, "steps of successors");
  Net net;
  // The very sequence that hangs after a fork(): the parent has trained first.
  for (int i = 0; i < 3; ++i) net->loss(512).backward();
  net->zero_grad();
  shared.share("net", net);
  const auto loss = [&] {
    const at::NoGradGuard guard;
    return net->loss(4096).item<double>();
  };
  const double at_start = loss();
  auto workers = spawn(pain_train, shared, {.on_death = OnDeath::kRespawn});
  ASSERT_TRUE(steps.reaches(100));
  ASSERT_TRUE(workers->kill(0, SIGKILL));
  ASSERT_TRUE(successors.reaches(500));
  workers->request_stop();
  join(*workers);
  EXPECT_EQ(workers->respawns(), 1U);
  EXPECT_LT(loss(), at_start / 2);
}

}  // namespace
}  // namespace passel::pain
