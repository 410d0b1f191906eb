#include "passel/shm_torch/tensor_queue.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>

#include <array>
#include <thread>

#include "shm_torch/exchange_fixture.h"

namespace passel::shm {
namespace {

using namespace std::chrono_literals;
using test::Exchanges;

class TensorQueueTest : public Exchanges {};

TEST_F(TensorQueueTest, BringsATensorsValuesSizesStridesAndType) {
  auto out = create_queue("q", 1);
  auto in = open_queue("q", 1);
  const at::Tensor square = at::arange(12, at::kFloat).reshape({3, 4});
  const std::vector<at::Tensor> tensors = {
      square,
      square.t(),
      square.slice(1, 1, 3),
      at::arange(5, at::kLong),
      at::ones({}, at::kDouble),
      at::ones({2, 3}, at::kBool),
      at::arange(4, at::kFloat).to(at::kBFloat16),
      at::arange(4, at::kFloat).to(at::kHalf),
      at::ones({2}, at::kComplexFloat),
      at::zeros({0}),
      at::zeros({3, 0, 2}),
      at::ones({1}).expand({4, 5}),
  };
  for (const at::Tensor& sent : tensors) {
    out.put(sent);
    const auto got = in.get();
    ASSERT_TRUE(got);
    EXPECT_EQ(got->sizes(), sent.sizes());
    EXPECT_EQ(got->strides(), sent.strides());
    EXPECT_EQ(got->scalar_type(), sent.scalar_type());
    EXPECT_TRUE(got->equal(sent)) << sent;
  }
}

TEST_F(TensorQueueTest, KeepsWhetherALeafRequiresGrad) {
  auto out = create_queue("q", 1);
  auto in = open_queue("q", 1);
  out.put(at::ones({2}).requires_grad_());
  out.put(at::ones({2}));
  EXPECT_TRUE(in.get()->requires_grad());
  EXPECT_FALSE(in.get()->requires_grad());
}

TEST_F(TensorQueueTest, RefusesANonLeafThatRequiresGradAndSaysWhatToSend) {
  auto out = create_queue("q", 1);
  const at::Tensor leaf = at::ones({2}).requires_grad_();
  try {
    out.put(leaf.mul(2));
    FAIL() << "was sent";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("detach()"), std::string::npos) << error.what();
  }
}

TEST_F(TensorQueueTest, NamesItselfInARefusal) {
  auto out = create_queue("batches", 1);
  try {
    out.put(at::ones({2, 2}).to_sparse());
    FAIL() << "it was sent";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("queue 'batches'"), std::string::npos) << error.what();
  }
}

TEST_F(TensorQueueTest, RefusesATensorOfAnotherDeviceAndSaysWhichItIs) {
  auto out = create_queue("q", 1);
  try {
    out.put(at::empty({2}, at::TensorOptions().device(at::kMeta)));
    FAIL() << "was sent";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("on meta; send tensor.cpu()"), std::string::npos)
        << error.what();
  }
}

TEST_F(TensorQueueTest, MovesAStorageOnceSoThatViewsSentLaterAreAliases) {
  auto out = create_queue("q", 1);
  auto in = open_queue("q", 1);
  const at::Tensor whole = at::zeros({10});
  out.put(whole.slice(0, 0, 5));
  out.put(whole.slice(0, 3, 10));
  const at::Tensor front = *in.get();
  const at::Tensor back = *in.get();
  front[4].fill_(7);
  EXPECT_EQ(back[1].item<float>(), 7);
  EXPECT_EQ(whole[4].item<float>(), 7) << "the sender's tensor is the same memory";
}

TEST_F(TensorQueueTest, CopiesNothingThatIsSharedAlready) {
  auto out = create_queue("q", 1);
  auto in = open_queue("q", 1);
  const at::Tensor shared = at(0).empty({100}, at::kFloat);
  const std::uint64_t before = in_use(0);
  out.put(shared);
  out.put(shared);
  EXPECT_EQ(in_use(0), before);
  EXPECT_EQ(in.get()->const_data_ptr(), shared.const_data_ptr());
}

TEST_F(TensorQueueTest, UsesTheBytesAgainWhenTheLastHolderDropsThem) {
  auto out = create_queue("q", 1);
  auto in = open_queue("q", 1);
  const void* first = nullptr;
  for (int i = 0; i < 1000; ++i) {
    const at::Tensor sent = at(0).empty({1000}, at::kFloat);
    if (i == 0) first = sent.const_data_ptr();
    sent.fill_(i);
    out.put(sent);
    const at::Tensor got = *in.get();
    ASSERT_EQ(got[999].item<float>(), static_cast<float>(i));
    ASSERT_LE(in_use(0), 2 * 4096U);
  }
  EXPECT_EQ(in_use(0), 0U);
  const at::Tensor last = at(0).empty({1000}, at::kFloat);
  EXPECT_LE(static_cast<const char*>(last.const_data_ptr()) - static_cast<const char*>(first),
            8192);
}

TEST_F(TensorQueueTest, KeepsTheBytesWhileOnlyAnEntryUnderWayNeedsThem) {
  auto out = create_queue("q", 1);
  auto in = open_queue("q", 1);
  out.put(at::full({100}, 5.0));
  for (int i = 0; i < 50; ++i) at(0).empty({100}, at::kFloat).fill_(9);
  EXPECT_TRUE(in.get()->equal(at::full({100}, 5.0)));
}

TEST_F(TensorQueueTest, ForwardsAReceivedTensorWithoutACopyAroundACircle) {
  auto to_1 = create_queue("0 to 1", 1);
  auto to_2 = create_queue("1 to 2", 2);
  auto to_0 = create_queue("2 to 0", 0);
  for (int i = 0; i < 100; ++i) {
    at::Tensor sent = at(0).empty({1000}, at::kFloat);
    sent.fill_(i);
    const void* const data = sent.const_data_ptr();
    to_1.put(sent);
    sent.reset();
    open_queue("1 to 2", 1).put(*open_queue("0 to 1", 1).get());
    open_queue("2 to 0", 2).put(*open_queue("1 to 2", 2).get());
    const at::Tensor back = *to_0.get();
    ASSERT_EQ(back.const_data_ptr(), data);
    ASSERT_EQ(back[500].item<float>(), static_cast<float>(i));
  }
  at(1).ledger().collect();
  at(2).ledger().collect();
  EXPECT_EQ(in_use(0), 0U);
  EXPECT_EQ(in_use(1) + in_use(2), 0U) << "forwarding must not allocate";
}

TEST_F(TensorQueueTest, TellsAFullQueueAnEmptyOneAndAClosedOneApart) {
  auto out = create_queue("q", 1, 4);
  auto in = open_queue("q", 1);
  at::Tensor got;
  EXPECT_EQ(in.try_get(got), QueueStatus::kEmpty);
  EXPECT_EQ(in.get(got, after(10ms)), QueueStatus::kTimeout);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(out.try_put(at::ones({1})), QueueStatus::kOk);
  EXPECT_EQ(out.try_put(at::ones({1})), QueueStatus::kFull);
  EXPECT_EQ(out.put(at::ones({1}), after(10ms)), QueueStatus::kTimeout);
  out.close();
  EXPECT_EQ(out.try_put(at::ones({1})), QueueStatus::kClosed);
  EXPECT_THROW(out.put(at::ones({1})), Error);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(in.get()) << "what was put before is still delivered";
  EXPECT_FALSE(in.get());
}

TEST_F(TensorQueueTest, DealsMessagesToTheReaderForWhomTheFewestWait) {
  auto out = create_queue("q", 1, 8, 2);
  auto first = open_queue("q", 1);
  auto second = open_queue("q", 2);
  for (int i = 0; i < 6; ++i) out.put(at::full({1}, i));
  at::Tensor got;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(first.try_get(got), QueueStatus::kOk);
  EXPECT_EQ(first.try_get(got), QueueStatus::kEmpty);
  for (int i = 6; i < 9; ++i) out.put(at::full({1}, i));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(first.try_get(got), QueueStatus::kOk);
  EXPECT_EQ(first.try_get(got), QueueStatus::kEmpty) << "the other has three waiting, too";
  for (int i = 0; i < 3; ++i) EXPECT_EQ(second.try_get(got), QueueStatus::kOk);
}

TEST_F(TensorQueueTest, TellsAProcessThatIsNoReader) {
  auto out = create_queue("q", 1);
  try {
    out.get();
    FAIL() << "got something";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("read by worker 0"), std::string::npos)
        << error.what();
  }
}

TEST_F(TensorQueueTest, SendsViewsOfOneStorageFromManyThreadsAsAliases) {
  auto out = create_queue("q", 1, 64);
  auto in = open_queue("q", 1);
  const at::Tensor whole = at::zeros({8, 16});
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] { out.put(whole[i]); });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 8; ++i) in.get()->fill_(1);
  EXPECT_EQ(whole.sum().item<float>(), 8 * 16);
}

TEST_F(TensorQueueTest, WakesWhoWaitsForAnyOfSeveral) {
  auto first_out = create_queue("first", 1);
  auto second_out = create_queue("second", 1);
  auto first = open_queue("first", 1);
  auto second = open_queue("second", 1);
  const std::array<ExchangeQueue*, 2> both = {first.channel(), second.channel()};
  EXPECT_EQ(wait_any(both, after(10ms)), both.size());
  const std::array<ExchangeQueue*, 2> foreign = {first.channel(), second_out.channel()};
  EXPECT_THROW(wait_any(foreign, after(10ms)), Error) << "the parent reads neither";
  std::thread sender([&] { second_out.put(at::ones({1})); });
  EXPECT_EQ(wait_any(both, after(20s)), 1U);
  sender.join();
  EXPECT_TRUE(second.get());
  first_out.close();
  EXPECT_EQ(wait_any(both, after(20s)), 0U) << "a closed queue does not make its reader wait";
  EXPECT_FALSE(first.get());
}

TEST_F(TensorQueueTest, DropsAMessageWithAHandleThatIsStaleOrOfAnotherArena) {
  auto out = create_queue("q", 1);
  auto in = open_queue("q", 1);
  auto raw = SimpleQueue<TensorQueue::Channel::Entry>::open(*arena_, "q/1").producer(2);
  TensorHandle handle = this->at(0).handle(this->at(0).empty({4}, at::kFloat));  // freed by now
  const auto error_for = [&](const TensorHandle& sent) -> std::string {
    EXPECT_EQ(raw.try_put({.data = {}, .count = 1, .tensors = {sent}}), QueueStatus::kOk);
    try {
      in.get();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_NE(error_for(handle).find("stale"), std::string::npos);
  handle.arena += 2;
  EXPECT_NE(error_for(handle).find("another arena"), std::string::npos);
  EXPECT_NE(error_for({}).find("another arena"), std::string::npos);
  handle.rank = 200;
  EXPECT_NE(error_for(handle).find("damaged"), std::string::npos);
  out.put(at::ones({2}));
  EXPECT_TRUE(in.get()->equal(at::ones({2}))) << "the queue goes on";
}

class SmallRegion : public Exchanges {
 protected:
  SmallRegion() : Exchanges(std::uint64_t{64} << 10) {}
};

TEST_F(SmallRegion, RefusesATensorThatCanNeverFitAndNamesTheBytes) {
  auto out = create_queue("q", 1);
  try {
    out.put(at::zeros({1 << 16}));
    FAIL() << "was sent";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("262144 bytes"), std::string::npos) << error.what();
  }
}

TEST_F(SmallRegion, SendsACompactCopyOfAViewWhoseStorageIsTooLarge) {
  auto out = create_queue("q", 1);
  auto in = open_queue("q", 1);
  const at::Tensor whole = at::arange(1 << 16, at::kFloat);
  const at::Tensor view = whole.slice(0, 0, 1 << 16, 256);
  EXPECT_EQ(exposed_bytes(view), 4U << 16);
  const at::Tensor copy = at(0).compact(view);
  EXPECT_EQ(exposed_bytes(copy), 1024U);
  out.put(copy);
  EXPECT_TRUE(in.get()->equal(view));
}

TEST_F(SmallRegion, SaysWhenThisProcessItselfHoldsAllOfIt) {
  std::vector<at::Tensor> kept;
  for (int i = 0; i < 4; ++i) kept.push_back(at(0).empty({16 << 10}, at::kByte));
  try {
    at(0).empty({1}, at::kByte);
    FAIL() << "there was room";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("drop some"), std::string::npos) << text;
    EXPECT_NE(text.find("4 of "), std::string::npos) << "chunks are counted, too: " << text;
  }
  kept.clear();
  EXPECT_NO_THROW(at(0).empty({64 << 10}, at::kByte)) << "freed chunks are merged";
}

TEST_F(SmallRegion, WaitsForAReceiverToDropWhatItHolds) {
  auto out = create_queue("q", 1);
  auto in = open_queue("q", 1);
  out.put(at::zeros({48 << 10}, at::kByte));
  auto held = std::make_unique<at::Tensor>(*in.get());
  EXPECT_EQ(out.put(at::zeros({32 << 10}, at::kByte), after(20ms)), QueueStatus::kTimeout);
  std::thread receiver([&] { held.reset(); });
  EXPECT_EQ(out.put(at::zeros({32 << 10}, at::kByte), after(20s)), QueueStatus::kOk);
  receiver.join();
}

}  // namespace
}  // namespace passel::shm
