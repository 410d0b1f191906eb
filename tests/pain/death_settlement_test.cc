// What a dead worker sent, held and was to get.
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <unistd.h>

#include <algorithm>

#include "pain/pain.h"

namespace passel::pain {
namespace {

const auto kPolicies = ::testing::Values(OnDeath::kAbort, OnDeath::kRespawn, OnDeath::kContinue);

std::string name_of(const ::testing::TestParamInfo<OnDeath>& policy) {
  switch (policy.param) {
    case OnDeath::kAbort:
      return "Abort";
    case OnDeath::kRespawn:
      return "Respawn";
    default:
      return "Continue";
  }
}

at::Tensor page(std::int64_t number) {
  return at::full({512}, number, at::kLong);
}

/// The first of its slot sends pages and waits; successors fill all of the region.
void pain_send_and_wait(Worker& self) {
  auto back = self.queue("back");
  if (self.incarnation() == 1) {
    for (std::int64_t i = 0; i < 20; ++i) back.put(page(i));
    Tally::open(self, "sent").add();
    for (;;) ::pause();
  }
  for (int i = 0; i < 1000; ++i) self.empty({512}, at::kLong).fill_(-1);
  std::vector<at::Tensor> all;
  try {
    for (;;) {
      const auto soon = after(std::chrono::milliseconds(10));
      all.push_back(self.exchange().empty({512}, at::kLong, soon).fill_(-1));
    }
  } catch (const Error&) {  // no room left
  }
  if (all.size() < 100) throw std::runtime_error("the region is not used");
}
PASSEL_ENTRY(pain_send_and_wait);

class TensorsOfADeadSender : public ::testing::TestWithParam<OnDeath> {};

TEST_P(TensorsOfADeadSender, StayReadableWhateverItsSuccessorWrites) {
  Shared shared({.region = kMiB});
  auto sent = Tally::create(shared, "sent");
  auto back = shared.queue("back", {.read_by = ReadBy::kParent});
  auto workers = spawn(pain_send_and_wait, shared, {.on_death = GetParam()});
  std::vector<at::Tensor> pages;
  for (int i = 0; i < 5; ++i) pages.push_back(next(back));  // 5 are taken, 15 under way
  ASSERT_TRUE(sent.reaches(1));
  ASSERT_TRUE(workers->kill(0, SIGKILL));
  failures_of(*workers);
  for (int i = 0; i < 15; ++i) pages.push_back(next(back));
  for (std::int64_t i = 0; i < 20; ++i) EXPECT_TRUE(pages[i].equal(page(i))) << i;
}

INSTANTIATE_TEST_SUITE_P(OnDeath, TensorsOfADeadSender, kPolicies, name_of);

void pain_hold_all(Worker& self) {
  auto to = self.queue("to");
  auto held = Tally::open(self, "held");
  std::vector<at::Tensor> tensors;
  while (const auto tensor = to.get()) {
    tensors.push_back(*tensor);
    held.add();
  }
}
PASSEL_ENTRY(pain_hold_all);

class MemoryOfAKilledReceiver : public ::testing::TestWithParam<OnDeath> {};

TEST_P(MemoryOfAKilledReceiver, ComesBackToTheSender) {
  Shared shared({.region = kMiB});
  auto held = Tally::create(shared, "held");
  auto to = shared.queue("to");
  auto workers = spawn(pain_hold_all, shared, {.on_death = GetParam()});
  const auto in_use = [&] {
    shared.state()->collect();
    return shared.exchange().ledger().bytes_in_use();
  };
  for (std::int64_t i = 0; i < 50; ++i) to.put(page(i));
  ASSERT_TRUE(held.reaches(50));
  EXPECT_GE(in_use(), 50 * 4096U) << "this process itself has dropped them";
  ASSERT_TRUE(workers->kill(0, SIGKILL));
  EXPECT_TRUE(comes_to([&] { return in_use() == 0; })) << in_use() << " bytes are still in use";
  to.close();
  failures_of(*workers);
}

INSTANTIATE_TEST_SUITE_P(OnDeath, MemoryOfAKilledReceiver, kPolicies, name_of);

/// Worker 0 takes nothing; the others return what they get once they may.
void pain_return_or_pause(Worker& self) {
  Tally::open(self, "started").add();
  if (self.slot() == 0) {
    for (;;) ::pause();
  }
  auto to = self.queue("to");
  auto back = self.queue("back");
  Tally::open(self, "go").await(1);
  while (const auto tensor = to.get()) back.put(*tensor);
}
PASSEL_ENTRY(pain_return_or_pause);

TEST(MessagesThatWaitForADeadWorker, GoToTheOthersWhenItHasNoSuccessor) {
  Shared shared({.workers = 3});
  auto started = Tally::create(shared, "started");
  auto go = Tally::create(shared, "go");
  auto to = shared.queue("to", {.capacity = 16});
  auto back = shared.queue("back", {.read_by = ReadBy::kParent});
  auto workers = spawn(pain_return_or_pause, shared, {.on_death = OnDeath::kContinue});
  ASSERT_TRUE(started.reaches(3));
  for (std::int64_t i = 0; i < 48; ++i) to.put(page(i));  // 16 wait for each
  EXPECT_EQ(to.try_put(page(48)), QueueStatus::kFull);
  ASSERT_TRUE(workers->kill(0, SIGKILL));
  ASSERT_TRUE(comes_to([&] { return !workers->alive(0); }));
  go.add();
  std::vector<int> seen(48);
  for (int i = 0; i < 48; ++i) {
    const at::Tensor got = next(back);
    const auto number = got[0].item<std::int64_t>();
    ASSERT_TRUE(got.equal(page(number)));
    ++seen.at(number);
  }
  EXPECT_EQ(seen, std::vector<int>(48, 1)) << "each once";
  to.close();
  EXPECT_EQ(failures_of(*workers).size(), 1U);
}

/// The rings of the others are full when one dies, and the queue is closed before there is room.
TEST(MessagesThatWaitForADeadWorker, GoToTheOthersAlsoThroughAQueueThatIsClosedMeanwhile) {
  Shared shared({.workers = 3});
  auto started = Tally::create(shared, "started");
  auto go = Tally::create(shared, "go");
  auto to = shared.queue("to", {.capacity = 4});
  auto back = shared.queue("back", {.read_by = ReadBy::kParent});
  auto workers = spawn(pain_return_or_pause, shared, {.on_death = OnDeath::kContinue});
  ASSERT_TRUE(started.reaches(3));
  for (std::int64_t i = 0; i < 12; ++i) to.put(page(i));
  ASSERT_TRUE(workers->kill(0, SIGKILL));
  ASSERT_TRUE(comes_to([&] { return !workers->alive(0); }));
  to.close();
  go.add();
  std::vector<int> seen(12);
  while (const auto got = back.get()) {
    ++seen.at((*got)[0].item<std::int64_t>());
    if (std::ranges::count(seen, 1) == 12) break;
  }
  EXPECT_EQ(seen, std::vector<int>(12, 1)) << "each once";
  EXPECT_EQ(failures_of(*workers).size(), 1U);
}

/// A worker's child would keep the arena's memory, and the terminal's pipe, for ever.
void pain_fork_and_wait(Worker& self) {
  if (::fork() == 0) {
    for (;;) ::pause();
  }
  Tally::open(self, "forked").add();
  for (;;) ::pause();
}
PASSEL_ENTRY(pain_fork_and_wait);

TEST(ProcessesThatAWorkerStarted, EndWithIt) {
  Shared shared({});
  auto forked = Tally::create(shared, "forked");
  auto workers = spawn(pain_fork_and_wait, shared, {.environment = {mark()}});
  ASSERT_TRUE(forked.reaches(1));
  ASSERT_EQ(marked_processes(), 2U);
  workers->terminate();
  EXPECT_TRUE(marked_processes_go());
}

}  // namespace
}  // namespace passel::pain
