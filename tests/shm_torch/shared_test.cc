#include "passel/shm_torch/shared.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "passel/shm/process_context.h"
#include "passel/shm/worker.h"
#include "passel/shm_torch/bindings.h"
#include "passel/shm_torch/shared_tensors.h"

namespace passel::shm {
namespace {

// A worker's view of what was shared, in this process.
class SharedTest : public ::testing::Test {
 protected:
  SharedTest()
      : worker_(std::make_shared<TensorExchange>(
            std::shared_ptr<const Arena>(&shared_.arena(), [](const Arena*) {}), 1)) {}

  std::vector<NamedTensor> seen(const std::string& name) { return open_group(*worker_, name); }

  Shared shared_{{.workers = 1, .memory = kMiB, .region = kMiB}};
  std::shared_ptr<TensorExchange> worker_;
};

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "expected an Error, came none";
  return {};
}

TEST_F(SharedTest, MovesATensorInPlaceSoThatWritesShowOnBothSides) {
  const at::Tensor mine = at::arange(6, at::kFloat).reshape({2, 3});
  shared_.share("x", mine);
  const at::Tensor theirs = seen("x")[0].second;
  EXPECT_TRUE(theirs.equal(at::arange(6, at::kFloat).reshape({2, 3})));
  theirs.fill_(3);
  EXPECT_EQ(mine.sum().item<float>(), 18);
}

TEST_F(SharedTest, KeepsTiedTensorsTied) {
  const at::Tensor weight = at::ones({4, 4});
  const std::vector<NamedTensor> tied = {{"encoder", weight}, {"decoder", weight.t()}};
  shared_.share("model", tied);
  const auto theirs = seen("model");
  theirs[0].second[1][2].fill_(5);
  EXPECT_EQ(theirs[1].second[2][1].item<float>(), 5);
  EXPECT_EQ(weight[1][2].item<float>(), 5);
}

TEST_F(SharedTest, KeepsRequiresGradAndEveryDtypeOfAModule) {
  const std::vector<NamedTensor> state = {{"weight", at::ones({2}).requires_grad_()},
                                          {"mean", at::zeros({2}, at::kDouble)},
                                          {"batches", at::zeros({}, at::kLong)},
                                          {"none", at::zeros({0})}};
  shared_.share("model", state);
  const auto theirs = seen("model");
  ASSERT_EQ(theirs.size(), 4U);
  for (std::size_t i = 0; i < state.size(); ++i) {
    EXPECT_EQ(theirs[i].first, state[i].first);
    EXPECT_EQ(theirs[i].second.requires_grad(), state[i].second.requires_grad());
    EXPECT_EQ(theirs[i].second.scalar_type(), state[i].second.scalar_type());
    EXPECT_EQ(theirs[i].second.sizes(), state[i].second.sizes());
  }
}

TEST_F(SharedTest, RefusesToBindAModelThatWasBuiltOtherwiseAndNamesTheFirstDifference) {
  shared_.share("model", std::vector<NamedTensor>{{"weight", at::ones({2, 3})}});
  Bindings bindings;
  const auto bind = [&](const std::vector<NamedTensor>& mine) {
    return error_of([&] { bindings.bind("model", mine, seen("model")); });
  };
  EXPECT_NE(bind({{"weight", at::ones({3, 2})}}).find("Float [2, 3], got 'weight' Float [3, 2]"),
            std::string::npos);
  EXPECT_NE(bind({{"bias", at::ones({2, 3})}}).find("got 'bias'"), std::string::npos);
  EXPECT_NE(bind({{"weight", at::ones({2, 3}, at::kDouble)}}).find("Double"), std::string::npos);
  EXPECT_NE(bind({}).find("Expected 1 tensors, got 0"), std::string::npos);
}

TEST_F(SharedTest, TellsWhichTensorLeftSharedMemory) {
  shared_.share("model", std::vector<NamedTensor>{{"a", at::ones({2})}, {"b", at::ones({2})}});
  const std::vector<NamedTensor> mine = {{"a", at::zeros({2})}, {"b", at::zeros({2})}};
  Bindings bindings;
  bindings.bind("model", mine, seen("model"));
  mine[1].second.add_(1);
  EXPECT_NO_THROW(bindings.check()) << "a write in place";
  mine[1].second.set_data(at::ones({2}));
  try {
    bindings.check();
    FAIL() << "was not noticed";
  } catch (const SharingLost& lost) {
    EXPECT_NE(std::string(lost.what()).find("model/b"), std::string::npos) << lost.what();
  }
}

TEST_F(SharedTest, TellsTheParentTooWhichTensorLeftSharedMemory) {
  const at::Tensor weight = at::ones({2});
  const std::vector<NamedTensor> model = {{"weight", weight}};
  shared_.share("model", model);
  EXPECT_NO_THROW(shared_.exchange().check_sharing());
  weight.set_data(at::ones({2}));
  EXPECT_NE(error_of([&] { shared_.exchange().check_sharing(); }).find("model/weight"),
            std::string::npos);
}

TEST_F(SharedTest, SharesGradientsOnlyWhenAsked) {
  const at::Tensor quiet = at::ones({2}).requires_grad_();
  const at::Tensor loud = at::ones({2}).requires_grad_();
  shared_.share("private", std::vector<NamedTensor>{{"w", quiet}});
  shared_.share("open", std::vector<NamedTensor>{{"w", loud}}, {.gradients = true});
  const at::Tensor mine_quiet = at::ones({2}).requires_grad_();
  const at::Tensor mine_loud = at::ones({2}).requires_grad_();
  Bindings bindings;
  bindings.bind("private", std::vector<NamedTensor>{{"w", mine_quiet}}, seen("private"));
  bindings.bind("open", std::vector<NamedTensor>{{"w", mine_loud}}, seen("open"));
  EXPECT_FALSE(mine_quiet.grad().defined());
  ASSERT_TRUE(mine_loud.grad().defined());
  mine_loud.mutable_grad().add_(2);
  EXPECT_EQ(loud.grad()[1].item<float>(), 2);
}

TEST_F(SharedTest, RefusesWhatItCannotShare) {
  const at::Tensor shared = at::ones({2});
  shared_.share("once", shared);
  EXPECT_NE(error_of([&] { shared_.share("twice", shared); }).find("in shared memory already"),
            std::string::npos);
  EXPECT_NE(error_of([&] { shared_.share("once", at::ones({2})); }).find("unique"),
            std::string::npos);
  EXPECT_NE(
      error_of([&] {
        shared_.share("same", std::vector<NamedTensor>{{"a", at::ones({1})}, {"a", at::ones({1})}});
      }).find("Two of its tensors are named 'a'"),
      std::string::npos);
  EXPECT_NE(error_of([&] { shared_.share("big", at::zeros({1 << 20})); }).find("4194304 bytes"),
            std::string::npos);
  const std::string sparse = error_of([&] {
    shared_.share("group", std::vector<NamedTensor>{{"odd", at::ones({2, 2}).to_sparse()}});
  });
  EXPECT_NE(sparse.find("'group'"), std::string::npos) << sparse;
  EXPECT_NE(sparse.find("'odd'"), std::string::npos) << sparse;
  EXPECT_NE(error_of([&] { (void)seen("nothing"); }).find("nothing"), std::string::npos);
}

TEST(SharedSettingsTest, ThatAskForMoreMemoryThanThereIsAreRefusedWithTheBytes) {
  const std::string text =
      error_of([] { const Shared shared({.workers = 1, .memory = std::size_t{1} << 50}); });
  EXPECT_NE(text.find("bytes"), std::string::npos) << text;
  EXPECT_FALSE(error_of([] { const Shared shared({.workers = 0}); }).empty());
  EXPECT_FALSE(
      error_of([] { const Shared shared({.workers = 1, .region = ~std::size_t{0}}); }).empty());
}

TEST_F(SharedTest, LeavesTensorsOfAnotherSharedWhereTheyAre) {
  Shared other({.workers = 1, .memory = kMiB, .region = kMiB});
  auto queue = other.queue("q");
  const at::Tensor mine = at::ones({3});
  shared_.share("x", mine);
  EXPECT_NE(error_of([&] { other.share("x", mine); }).find("another Shared"), std::string::npos);
  EXPECT_NE(error_of([&] { queue.put(mine); }).find("clone()"), std::string::npos);
  mine.fill_(2);
  EXPECT_EQ(seen("x")[0].second.sum().item<float>(), 6);
}

TEST_F(SharedTest, RefusesToSpawnInAProgramThatDidNotCallInit) {
  SpawnSettings settings;
  const auto started = [&] {
    ProcessContext context(shared_.arena(), "nobody", settings);
    context.start();
  };
  EXPECT_NE(error_of(started).find("registered"), std::string::npos);
  register_entry("somebody", [](WorkerContext&) {});
  Shared other({.workers = 1, .memory = kMiB, .region = kMiB});
  EXPECT_NE(error_of([&] {
              ProcessContext context(other.arena(), "somebody", settings);
              context.start();
            }).find("Call passel::init"),
            std::string::npos);
}

TEST_F(SharedTest, KeepsTensorsAliveBeyondItself) {
  at::Tensor kept;
  {
    Shared gone({.workers = 1, .memory = kMiB, .region = kMiB});
    kept = gone.empty({1000}, at::kFloat);
    kept.fill_(4);
  }
  EXPECT_EQ(kept.sum().item<float>(), 4000);
}

}  // namespace
}  // namespace passel::shm
