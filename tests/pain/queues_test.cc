// Queues that are full, empty or closed, and who waits for whom.
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

#include "pain/pain.h"

namespace passel::pain {
namespace {

using namespace std::chrono_literals;

std::uint64_t pain_fill_up(Worker& self) {
  auto queue = self.queue("unread");
  std::uint64_t sent = 0;
  while (queue.try_put(at::ones({1000})) == QueueStatus::kOk) ++sent;
  return sent;
}
PASSEL_ENTRY(pain_fill_up);

TEST(AWorkerThatFilledAQueueNobodyReads, CanBeJoined) {
  Shared shared({});
  auto queue = shared.queue("unread", {.capacity = 512, .read_by = ReadBy::kParent});
  auto workers = spawn(pain_fill_up, shared);
  join(*workers);
  EXPECT_EQ(workers->result<std::uint64_t>(0), 512U);
  EXPECT_TRUE(next(queue).equal(at::ones({1000}))) << "and what it left can be read";
}

void pain_idle(Worker& self) {
  auto queue = self.queue("in");
  Tally::open(self, "go").await(1);
  while (queue.get()) {
  }
}
PASSEL_ENTRY(pain_idle);

struct Count {
  std::uint64_t number;
};

void pain_ask_twice(Worker& self) {
  for (std::uint64_t i = 0; i < 100; ++i) {
    auto once = self.queue<Count, 0>("numbers");
    auto again = self.queue<Count, 0>("numbers");
    once.put({2 * i});
    again.put({2 * i + 1});
  }
}
PASSEL_ENTRY(pain_ask_twice);

TEST(AQueueThatAWorkerAsksForTwice, IsTheSameQueue) {
  Shared shared({});
  auto numbers = shared.queue<Count, 0>("numbers", {.read_by = ReadBy::kParent});
  auto workers = spawn(pain_ask_twice, shared);
  for (std::uint64_t i = 0; i < 200; ++i) {
    Record<Count> record;
    ASSERT_EQ(numbers.get(record, patience()), QueueStatus::kOk);
    ASSERT_EQ(record.data.number, i);
  }
  join(*workers);
}

void pain_ask_otherwise(Worker& self) {
  self.queue<Count, 0>("numbers");
  self.queue<Count, 1>("numbers");
}
PASSEL_ENTRY(pain_ask_otherwise);

TEST(AQueueThatAWorkerTakesForAnother, IsRefusedByName) {
  Shared shared({});
  shared.queue<Count, 0>("numbers", {.read_by = ReadBy::kParent});
  auto workers = spawn(pain_ask_otherwise, shared);
  const std::string text = error_of([&] { workers->join(); });
  EXPECT_NE(text.find("queue 'numbers"), std::string::npos) << text;
}

TEST(AFullQueue, GivesUpAtTheDeadlineAndNotBefore) {
  Shared shared({});
  auto go = Tally::create(shared, "go");
  auto queue = shared.queue("in", {.capacity = 8});
  auto back = shared.queue("back", {.read_by = ReadBy::kParent});
  auto workers = spawn(pain_idle, shared);
  const at::Tensor tensor = shared.empty({4}, at::kFloat);
  for (int i = 0; i < 8; ++i) ASSERT_EQ(queue.try_put(tensor), QueueStatus::kOk);
  EXPECT_EQ(queue.try_put(tensor), QueueStatus::kFull);
  auto start = Clock::now();
  EXPECT_EQ(queue.put(tensor, after(100ms)), QueueStatus::kTimeout);
  EXPECT_GE(Clock::now() - start, 100ms);

  start = Clock::now();
  at::Tensor got;
  EXPECT_EQ(back.get(got, after(100ms)), QueueStatus::kTimeout) << "an empty queue, too";
  EXPECT_GE(Clock::now() - start, 100ms);
  EXPECT_EQ(back.try_get(got), QueueStatus::kEmpty);

  go.add();
  EXPECT_EQ(queue.put(tensor, patience()), QueueStatus::kOk);
  queue.close();
  join(*workers);
}

struct Exchanged {
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
};

/// Puts until there is no room, and takes only when the other is as far.
Exchanged pain_put_first(Worker& self) {
  auto mine = self.queue("to " + std::to_string(self.slot()));
  auto other = self.queue("to " + std::to_string(1 - self.slot()));
  auto full = Tally::open(self, "full");
  Exchanged count;
  while (other.put(at::ones({100}), after(50ms)) == QueueStatus::kOk) ++count.sent;
  full.add();
  full.await(2);
  other.close();
  while (mine.get()) ++count.received;
  return count;
}
PASSEL_ENTRY(pain_put_first);

TEST(TwoPeersThatOnlyPut, AreBothToldThatThereIsNoRoomAndThenExchangeAll) {
  Shared shared({.workers = 2});
  Tally::create(shared, "full");
  for (std::uint32_t slot = 0; slot < 2; ++slot) {
    shared.queue("to " + std::to_string(slot), {.read_by = ReadBy::kWorker, .worker = slot});
  }
  auto workers = spawn(pain_put_first, shared);
  join(*workers);
  const auto first = workers->result<Exchanged>(0).value();
  const auto second = workers->result<Exchanged>(1).value();
  EXPECT_EQ(first.sent, 64U);
  EXPECT_EQ(second.sent, 64U);
  EXPECT_EQ(first.received, second.sent);
  EXPECT_EQ(second.received, first.sent);
}

void pain_produce_and_exit(Worker& self) {
  auto queue = self.queue("back");
  for (std::int64_t i = 0; i < 50; ++i) queue.put(at::full({1000}, i, at::kLong));
}
PASSEL_ENTRY(pain_produce_and_exit);

TEST(TensorsOfAProducerThatHasExited, AreReadWithTheirExactValues) {
  Shared shared({});
  auto queue = shared.queue("back", {.read_by = ReadBy::kParent});
  auto workers = spawn(pain_produce_and_exit, shared);
  join(*workers);
  EXPECT_FALSE(workers->alive(0));
  for (std::int64_t i = 0; i < 50; ++i) {
    EXPECT_TRUE(next(queue).equal(at::full({1000}, i, at::kLong))) << i;
  }
  EXPECT_FALSE(queue.get()) << "nobody is left who could put";
}

TEST(AQueueWhoseSendersEnd, IsDrainedBeforeItReportsTheEnd) {
  for (int round = 0; round < 3; ++round) {
    Shared shared({.workers = 1});
    auto queue = shared.queue("back", {.read_by = ReadBy::kParent});
    auto workers = spawn(pain_produce_and_exit, shared);
    int received = 0;
    while (queue.get()) ++received;
    ASSERT_EQ(received, 50) << "round " << round;
    join(*workers);
  }
}

void pain_hold_until_stopped(Worker& self) {
  auto queue = self.queue("back");
  auto started = Tally::open(self, "started");
  std::vector<at::Tensor> sent;
  started.add();
  // More than the region holds while the parent keeps all of it.
  for (;;) queue.put(at::ones({1 << 10}));
}
PASSEL_ENTRY(pain_hold_until_stopped);

TEST(AWorkerThatWaitsForMemory, EndsInOrderWhenTheRunIsStopped) {
  Shared shared({.region = kMiB / 4});
  Tally::create(shared, "started");
  auto queue = shared.queue("back", {.capacity = 1024, .read_by = ReadBy::kParent});
  auto workers = spawn(pain_hold_until_stopped, shared);
  std::vector<at::Tensor> held;
  at::Tensor tensor;
  while (queue.get(tensor, held.size() < 32 ? patience() : after(100ms)) == QueueStatus::kOk) {
    held.push_back(tensor);
  }
  EXPECT_GE(held.size(), 32U);
  workers->request_stop();
  join(*workers);
  EXPECT_TRUE(workers->failures().empty());
}

}  // namespace
}  // namespace passel::pain
