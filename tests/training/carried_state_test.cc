#include "passel/train/carried_state.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace passel::train {
namespace {

class CarriedStateTest : public testing::Test {
 protected:
  static constexpr std::int64_t kBatch = 3, kHidden = 5, kLanes = 2;

  static at::Tensor rows(std::initializer_list<bool> fresh) {
    at::Tensor tensor = at::zeros({kBatch}, at::kBool);
    std::ranges::copy(fresh, tensor.mutable_data_ptr<bool>());
    return tensor;
  }
  Model::State some_state() const {
    return {.h = at::rand({1, kBatch, kHidden}), .c = at::rand({1, kBatch, kHidden})};
  }

  Model model_{{.steps = 4, .features = 2, .classes = 0}, kHidden, 1};
  shm::Arena arena_ = shm::Arena::create("test", 1 << 16);
  shm::LaneStates lanes_ =
      shm::LaneStates::create(arena_, "states", kLanes, state_floats(model_, kBatch));
  CarriedState sut_{lanes_, model_, kBatch};
};

TEST_F(CarriedStateTest, IsReadByTheNextTicketOfTheLaneAsItWasWritten) {
  const Model::State left = some_state();
  sut_.write(5, &left);
  const Model::State read = sut_.read(7, rows({false, false, false}));
  EXPECT_TRUE(read.h.equal(left.h));
  EXPECT_TRUE(read.c.equal(left.c));
}

TEST_F(CarriedStateTest, IsZeroInTheRowsThatBeginWithoutAPast) {
  const Model::State left = some_state();
  sut_.write(0, &left);
  const Model::State read = sut_.read(2, rows({false, true, false}));
  for (const std::int64_t row : {0, 2}) {
    EXPECT_TRUE(read.h.select(1, row).equal(left.h.select(1, row)));
    EXPECT_TRUE(read.c.select(1, row).equal(left.c.select(1, row)));
  }
  EXPECT_FALSE(read.h.select(1, 1).any().item<bool>());
  EXPECT_FALSE(read.c.select(1, 1).any().item<bool>());
}

TEST_F(CarriedStateTest, IsZeroAfterATicketThatWasRejected) {
  const Model::State left = some_state();
  sut_.write(0, &left);
  sut_.write(2, nullptr);
  const Model::State read = sut_.read(4, rows({false, false, false}));
  EXPECT_FALSE(read.h.any().item<bool>());
  EXPECT_FALSE(read.c.any().item<bool>());
}

TEST_F(CarriedStateTest, IsNotAskedForWhereNoRowHasAPast) {
  const Model::State read = sut_.read(6, rows({true, true, true}));
  EXPECT_FALSE(read.c.any().item<bool>());
}

TEST_F(CarriedStateTest, ThatIsNotThereIsAnErrorAndNotOldBytes) {
  const Model::State left = some_state();
  sut_.write(2, &left);
  EXPECT_THROW(sut_.read(6, rows({false, true, true})), std::logic_error);
}

// The loss of two windows in turn is that of the whole, and the gradient of the second does not
// reach back into the first.
TEST_F(CarriedStateTest, GoesOnWhereTheWindowBeforeEnded) {
  const at::Tensor x = at::rand({8, kBatch, 2}), target = at::rand({kBatch});
  Model::State state = model_.initial_state(kBatch);
  model_.predict(x.narrow(0, 0, 4), &state);
  EXPECT_FALSE(state.h.requires_grad());
  EXPECT_FALSE(state.c.requires_grad());
  const at::Tensor loss = model_.loss(x.narrow(0, 4, 4), target, {}, &state);
  EXPECT_EQ(loss.item<float>(), model_.loss(x, target).item<float>());
  EXPECT_NE(loss.item<float>(), model_.loss(x.narrow(0, 4, 4), target).item<float>());
}

}  // namespace
}  // namespace passel::train
