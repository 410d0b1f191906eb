// Workers that are killed, throw, or do not want to go.
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <signal.h>
#include <unistd.h>

#include <random>
#include <set>

#include "pain/pain.h"
#include "support/stress.h"

namespace passel::pain {
namespace {

using namespace std::chrono_literals;

struct Number {
  std::int64_t value;
};

at::Tensor picture(std::int64_t number) {
  return at::full({64}, number, at::kLong);
}

void pain_relay(Worker& self) {
  Tally::open(self, "started").add();
  auto in = self.queue<Number, 1>("in");
  auto out = self.queue<Number, 2>("out");
  // One tensor goes on, one is made here.
  while (const auto record = in.get()) {
    out.put(record->data, {record->tensors[0], picture(-record->data.value)});
  }
}
PASSEL_ENTRY(pain_relay);

/// Keeps two relays busy and checks what they bring back.
class Relay {
 public:
  /// @param room for results: with little of it a worker mostly waits in put(), with much in get()
  explicit Relay(std::uint32_t room)
      : shared_({.workers = 2, .region = kMiB}),
        started_(Tally::create(shared_, "started")),
        in_(shared_.queue<Number, 1>("in", {.capacity = 8})),
        out_(shared_.queue<Number, 2>("out", {.capacity = room, .read_by = ReadBy::kParent})),
        workers_(
            spawn(pain_relay, shared_, {.on_death = OnDeath::kRespawn, .max_respawns = 100'000})) {}

  void take(int count) {
    for (int taken = 0; taken < count;) {
      while (in_.try_put({sent_}, {picture(sent_)}) == QueueStatus::kOk) ++sent_;
      Record<Number> record;
      ASSERT_EQ(out_.get(record, patience()), QueueStatus::kOk);
      ASSERT_NO_FATAL_FAILURE(check(record));
      ++taken;
    }
  }

  /// Kills a worker; the other one works on until the successor does.
  void kill(std::uint32_t slot) {
    const std::uint64_t before = started_.get();
    ASSERT_TRUE(workers_->kill(slot, SIGKILL));
    for (const Deadline end = patience(); started_.get() == before;) {
      ASSERT_LT(Clock::now(), end) << "no successor";
      ASSERT_NO_FATAL_FAILURE(take(1));
    }
  }
  void await_start() { ASSERT_TRUE(started_.reaches(2)); }

  void finish() {
    in_.close();
    while (const auto record = out_.get()) ASSERT_NO_FATAL_FAILURE(check(*record));
    join(*workers_);
  }

  /// Numbers that never came back.
  [[nodiscard]] std::int64_t lost() const {
    return sent_ - static_cast<std::int64_t>(received_.size());
  }
  [[nodiscard]] std::uint64_t bytes_in_use() {
    shared_.state()->collect();
    return shared_.exchange().ledger().bytes_in_use();
  }
  [[nodiscard]] std::uint32_t deaths() const { return workers_->respawns(); }

 private:
  void check(const Record<Number>& record) {
    const std::int64_t number = record.data.value;
    ASSERT_TRUE(number >= 0 && number < sent_) << number;
    ASSERT_TRUE(received_.insert(number).second) << number << " came twice";
    ASSERT_TRUE(record.tensors[0].equal(picture(number))) << number;
    ASSERT_TRUE(record.tensors[1].equal(picture(-number))) << number;
  }

  Shared shared_;
  Tally started_;
  RecordQueue<Number, 1> in_;
  RecordQueue<Number, 2> out_;
  std::shared_ptr<ProcessContext> workers_;
  std::int64_t sent_ = 0;
  std::set<std::int64_t> received_;
};

class WorkersKilledAtRandomMoments : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(WorkersKilledAtRandomMoments, LoseAtMostTheRecordInHandAndHoldNobodyUp) {
  constexpr unsigned kSeed = 61;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  std::mt19937 random(kSeed);
  const int kills = passel::testing::stress_size(12, 500);
  Relay relay(GetParam());
  ASSERT_NO_FATAL_FAILURE(relay.await_start());
  for (int i = 0; i < kills; ++i) {
    ASSERT_NO_FATAL_FAILURE(relay.take(1 + random() % 100));
    // The moment is random on purpose; nothing is waited for.
    for (const Deadline end = after(std::chrono::microseconds(random() % 50));
         Clock::now() < end;) {
    }
    ASSERT_NO_FATAL_FAILURE(relay.kill(random() % 2));
  }
  ASSERT_NO_FATAL_FAILURE(relay.take(100));
  ASSERT_NO_FATAL_FAILURE(relay.finish());
  EXPECT_EQ(relay.deaths(), static_cast<std::uint32_t>(kills));
  EXPECT_LE(relay.lost(), kills);
  EXPECT_EQ(relay.bytes_in_use(), 0U) << "the memory of the dead came home";
  RecordProperty("lost", std::to_string(relay.lost()));
}

INSTANTIATE_TEST_SUITE_P(RoomForResults, WorkersKilledAtRandomMoments, ::testing::Values(8U, 256U));

void pain_ignore_sigterm(Worker& self) {
  ::signal(SIGTERM, SIG_IGN);
  Tally::open(self, "started").add();
  for (;;) ::pause();
}
PASSEL_ENTRY(pain_ignore_sigterm);

TEST(AWorkerThatIgnoresSigterm, IsGoneAfterTheGraceOfATerminate) {
  Shared shared({.workers = 2});
  auto started = Tally::create(shared, "started");
  auto workers = spawn(pain_ignore_sigterm, shared, {.environment = {mark()}});
  ASSERT_TRUE(started.reaches(2));
  EXPECT_EQ(marked_processes(), 2U);
  const auto start = Clock::now();
  workers->terminate(100ms);
  EXPECT_GE(Clock::now() - start, 100ms) << "it had its grace";
  EXPECT_EQ(workers->alive_count(), 0U);
  EXPECT_EQ(marked_processes(), 0U);
}

void pain_fail_in_slot_3(Worker& self) {
  auto started = Tally::open(self, "started");
  started.add();
  started.await(4);
  if (self.slot() == 3) throw std::runtime_error("no bread left");
  for (volatile bool forever = true; forever;) {
  }
}
PASSEL_ENTRY(pain_fail_in_slot_3);

TEST(AWorkerThatThrows, IsReportedWhileOthersLoopAndEndsThem) {
  Shared shared({.workers = 4});
  Tally::create(shared, "started");
  auto workers = spawn(pain_fail_in_slot_3, shared, {.grace = 100ms});
  const auto failures = failures_of(*workers);
  ASSERT_EQ(failures.size(), 1U);
  EXPECT_EQ(failures[0].slot, 3U);
  EXPECT_NE(failures[0].text.find("no bread left"), std::string::npos) << failures[0].text;
  const std::string text = error_of([&] { workers->join(); });
  EXPECT_NE(text.find("no bread left"), std::string::npos) << text;
  EXPECT_NE(text.find("worker 3"), std::string::npos) << text;
  EXPECT_EQ(workers->alive_count(), 0U);
}

std::uint32_t pain_wait_to_be_killed(Worker& self) {
  auto started = Tally::open(self, "started");
  started.add();
  if (self.incarnation() == 1) {
    for (;;) ::pause();
  }
  return self.incarnation();
}
PASSEL_ENTRY(pain_wait_to_be_killed);

TEST(AWorkerThatWasKilled, IsReportedWithItsSignal) {
  Shared shared({});
  auto started = Tally::create(shared, "started");
  auto workers = spawn(pain_wait_to_be_killed, shared);
  ASSERT_TRUE(started.reaches(1));
  ASSERT_EQ(::kill(workers->pid(0), SIGKILL), 0) << "as the out-of-memory killer does";
  const auto failures = failures_of(*workers);
  ASSERT_EQ(failures.size(), 1U);
  EXPECT_EQ(failures[0].kind, WorkerExit::Kind::kSignalled);
  EXPECT_EQ(failures[0].code, SIGKILL);
  EXPECT_FALSE(workers->result<std::uint32_t>(0)) << "it returned nothing";
}

TEST(AWorkerThatWasKilled, HasASuccessorThatGoesOnWherePolicySaysSo) {
  Shared shared({});
  auto started = Tally::create(shared, "started");
  auto workers = spawn(pain_wait_to_be_killed, shared, {.on_death = OnDeath::kRespawn});
  ASSERT_TRUE(started.reaches(1));
  ASSERT_EQ(::kill(workers->pid(0), SIGKILL), 0);
  join(*workers);
  EXPECT_EQ(workers->result<std::uint32_t>(0), 2U);
  ASSERT_EQ(workers->failures().size(), 1U);
  EXPECT_EQ(workers->failures()[0].code, SIGKILL);
}

}  // namespace
}  // namespace passel::pain
