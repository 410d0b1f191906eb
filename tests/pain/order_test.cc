// What arrives is what was sent: aliases, types, generations, and after many hands.
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <thread>

#include "pain/pain.h"

namespace passel::pain {
namespace {

/// Gets two tensors in two messages, writes through the first and answers with what
/// the second shows.
void pain_write_through(Worker& self) {
  auto to = self.queue("to");
  auto back = self.queue("back");
  const at::Tensor front = next(to);
  const at::Tensor behind = next(to);
  front.fill_(7);
  back.put(behind.clone());
}
PASSEL_ENTRY(pain_write_through);

TEST(ViewsOfOneStorage, AreAliasesInTheReceiverToo) {
  Shared shared({});
  auto to = shared.queue("to");
  auto back = shared.queue("back", {.read_by = ReadBy::kParent});
  auto workers = spawn(pain_write_through, shared);
  const at::Tensor whole = at::zeros({10});
  to.put(whole.slice(0, 0, 5));
  to.put(whole.slice(0, 3, 10));
  EXPECT_TRUE(next(back).slice(0, 0, 2).equal(at::full({2}, 7.0)));
  EXPECT_TRUE(whole.slice(0, 0, 5).equal(at::full({5}, 7.0))) << "and for the sender";
  EXPECT_TRUE(whole.slice(0, 5).equal(at::zeros({5})));
  join(*workers);
}

void pain_negate_in_place(Worker& self) {
  auto to = self.queue("to");
  while (const auto part = to.get()) part->neg_();
}
PASSEL_ENTRY(pain_negate_in_place);

TEST(ViewsOfOneStorage, StayAliasesWhenManyThreadsSendThemAtOnce) {
  constexpr std::int64_t kThreads = 8;
  for (int round = 0; round < 2; ++round) {
    Shared shared({.workers = 2});
    auto to = shared.queue("to");
    auto workers = spawn(pain_negate_in_place, shared);
    const at::Tensor whole = at::arange(800);
    std::vector<std::jthread> senders;
    for (std::int64_t t = 0; t < kThreads; ++t) {
      senders.emplace_back([&, t] { to.put(whole.slice(0, 100 * t, 100 * (t + 1))); });
    }
    senders.clear();
    to.close();
    join(*workers);
    ASSERT_TRUE(whole.equal(at::arange(800).neg())) << "round " << round;
  }
}

void pain_return(Worker& self) {
  auto to = self.queue("to");
  auto back = self.queue("back");
  while (const auto tensor = to.get()) back.put(*tensor);
}
PASSEL_ENTRY(pain_return);

TEST(ATensor, ComesBackWithItsTypeSizesStridesAndValues) {
  Shared shared({});
  auto to = shared.queue("to");
  auto back = shared.queue("back", {.read_by = ReadBy::kParent});
  auto workers = spawn(pain_return, shared);
  const at::Tensor numbers = at::arange(24).reshape({4, 6});
  for (const at::ScalarType type :
       {at::kBool, at::kByte, at::kChar, at::kShort, at::kInt, at::kLong, at::kHalf, at::kBFloat16,
        at::kFloat, at::kDouble, at::kComplexFloat, at::kComplexDouble}) {
    const at::Tensor square = numbers.to(type);
    for (const at::Tensor& sent :
         {square, square.t(), square.slice(1, 1, 6, 2), square[2][3], square[0].expand({3, 6})}) {
      to.put(sent);
      const at::Tensor got = next(back);
      EXPECT_EQ(got.scalar_type(), type);
      EXPECT_EQ(got.sizes(), sent.sizes());
      EXPECT_EQ(got.strides(), sent.strides());
      EXPECT_TRUE(got.equal(sent)) << sent;
      EXPECT_EQ(got.const_data_ptr(), sent.const_data_ptr()) << "not copied, there nor back";
    }
  }
  to.put(at::ones({2}).requires_grad_());
  EXPECT_TRUE(next(back).requires_grad());
  const std::string text = error_of([&] { to.put(at::ones({2}).requires_grad_().mul(2)); });
  EXPECT_NE(text.find("detach()"), std::string::npos) << text;
  to.close();
  join(*workers);
}

TEST(AHandle, OfMemoryThatWasUsedAgainIsStaleAndBringsNoOthersData) {
  Shared shared({});
  shm::TensorExchange& exchange = shared.exchange();
  at::Tensor first = shared.empty({100}, at::kFloat);
  const shm::TensorHandle old = exchange.handle(first);
  first.reset();
  const at::Tensor second = shared.empty({100}, at::kFloat);
  ASSERT_EQ(exchange.handle(second).offset, old.offset) << "the same place";
  EXPECT_EQ(exchange.claim(old), shm::HandleStatus::kStale);
}

/// The arena's offset of a tensor's first element.
std::int64_t offset_of(const at::Tensor& tensor, shm::TensorExchange& exchange) {
  return static_cast<const std::byte*>(tensor.const_data_ptr()) - exchange.arena()->data();
}

/// Worker 0 makes a tensor and sends it around: 0 -> 1 -> 2 -> 0, each adding 1.
/// Returns where it lay.
std::int64_t pain_forward(Worker& self) {
  auto mine = self.queue("to " + std::to_string(self.slot()));
  auto following = self.queue("to " + std::to_string((self.slot() + 1) % 3));
  if (self.slot() == 0) following.put(self.empty({1000}, at::kLong).fill_(0));
  const at::Tensor tensor = next(mine);
  tensor.add_(1);
  if (self.slot() != 0) following.put(tensor);
  if (self.slot() == 0) self.queue("back").put(tensor);
  return offset_of(tensor, self.exchange());
}
PASSEL_ENTRY(pain_forward);

TEST(ATensor, ThatIsHandedOnFromProcessToProcessIsNeverCopied) {
  Shared shared({.workers = 3});
  for (std::uint32_t slot = 0; slot < 3; ++slot) {
    shared.queue("to " + std::to_string(slot), {.read_by = ReadBy::kWorker, .worker = slot});
  }
  auto back = shared.queue("back", {.read_by = ReadBy::kParent});
  auto workers = spawn(pain_forward, shared);
  const at::Tensor tensor = next(back);
  join(*workers);
  EXPECT_TRUE(tensor.equal(at::full({1000}, 3, at::kLong)));
  const std::int64_t offset = offset_of(tensor, shared.exchange());
  for (std::uint32_t slot = 0; slot < 3; ++slot) {
    EXPECT_EQ(workers->result<std::int64_t>(slot), offset) << "in worker " << slot;
  }
}

/// Worker 0 hands on what it gets, worker 1 drops it.
void pain_hand_on(Worker& self) {
  auto mine = self.queue("to " + std::to_string(self.slot()));
  auto following = self.queue("to 1");
  while (const auto tensor = mine.get()) {
    if (self.slot() == 0) following.put(*tensor);
  }
  if (self.slot() == 0) following.close();
}
PASSEL_ENTRY(pain_hand_on);

TEST(ATensor, ThatWasHandedOnIsFreeWhenTheLastWhoGotItLetsGo) {
  Shared shared({.workers = 2, .region = 4096});
  auto first = shared.queue("to 0", {.read_by = ReadBy::kWorker, .worker = 0});
  shared.queue("to 1", {.read_by = ReadBy::kWorker, .worker = 1});
  auto workers = spawn(pain_hand_on, shared);
  for (int i = 0; i < 200; ++i) {
    // All there is, so it must have come back from both, of whom the first waits for more.
    first.put(shared.exchange().empty({4096}, at::kByte, patience()));
  }
  first.close();
  join(*workers);
}

}  // namespace
}  // namespace passel::pain
