// Waits of a process whose run ends, or that is asked to stop, meanwhile.
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "passel/shm/error.h"
#include "shm_torch/exchange_fixture.h"

namespace passel::shm {
namespace {

using namespace std::chrono_literals;
using test::Exchanges;

class InterruptionTest : public Exchanges {
 protected:
  InterruptionTest() : Exchanges(std::uint64_t{64} << 10) {}

  /// Process 1 is interrupted, and just before it sees that, a tensor comes.
  void interrupt_behind_a_last_tensor(TensorQueue& out) {
    at(1).set_interruption({.pending = [&out, sent = false]() mutable {
      if (!std::exchange(sent, true)) out.put(at::ones({3}));
      return true;
    }});
  }

  /// Nearly all of process 0's region is held by process 1.
  at::Tensor lend_region(TensorQueue& out, TensorQueue& in) {
    out.put(at::zeros({48 << 10}, at::kByte));
    return *in.get();
  }
};

TEST_F(InterruptionTest, DoesNotHideWhatCameBeforeIt) {
  auto out = create_queue("q", 1);
  auto in = open_queue("q", 1);
  interrupt_behind_a_last_tensor(out);
  EXPECT_TRUE(in.get());
  EXPECT_FALSE(in.get());
}

TEST_F(InterruptionTest, DoesNotHideItFromAWaitForAnyQueueEither) {
  auto out = create_queue("q", 1);
  auto in = open_queue("q", 1);
  interrupt_behind_a_last_tensor(out);
  const std::vector<ExchangeQueue*> queues = {in.channel()};
  EXPECT_EQ(wait_any(queues), 0U);
}

TEST_F(InterruptionTest, EndsAWorkersWaitForMemory) {
  create_queue("q", 2);
  auto out = open_queue("q", 1);
  auto in = open_queue("q", 2);
  const at::Tensor held = lend_region(out, in);
  at(1).set_interruption({.pending = [] { return true; }});
  EXPECT_THROW(at(1).empty({32 << 10}, at::kByte), Stopped);
  EXPECT_THROW(out.put(at::zeros({32 << 10}, at::kByte)), Stopped);
}

TEST_F(InterruptionTest, EndsTheParentsWaitForMemoryWithASentence) {
  auto out = create_queue("q", 1);
  auto in = open_queue("q", 1);
  const at::Tensor held = lend_region(out, in);
  at(0).set_interruption({.pending = [] { return true; }});
  try {
    at(0).empty({32 << 10}, at::kByte);
    FAIL() << "there was room";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("have ended"), std::string::npos) << error.what();
  }
}

TEST_F(InterruptionTest, IsNotWhatSaysThatAllMemoryIsLent) {
  auto out = create_queue("q", 1);
  auto in = open_queue("q", 1);
  const at::Tensor held = lend_region(out, in);
  EXPECT_EQ(out.try_put(at::zeros({32 << 10}, at::kByte)), QueueStatus::kFull);
  EXPECT_EQ(out.put(at::zeros({32 << 10}, at::kByte), after(20ms)), QueueStatus::kTimeout);
}

}  // namespace
}  // namespace passel::shm
