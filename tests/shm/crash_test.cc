#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <memory>
#include <thread>

#include "passel/shm/crash_record.h"
#include "passel/shm/worker.h"
#include "support.h"

namespace passel::shm {
namespace {

using test::Team;
using ::testing::HasSubstr;
using ::testing::StartsWith;

void crash_returns(WorkerContext&) {}
PASSEL_ENTRY(crash_returns);

void crash_exits_with_7(WorkerContext&) {
  ::_exit(7);
}
PASSEL_ENTRY(crash_exits_with_7);

void crash_throws(WorkerContext& context) {
  throw std::runtime_error("no data in slot " + std::to_string(context.slot));
}
PASSEL_ENTRY(crash_throws);

void crash_throws_at_length(WorkerContext&) {
  throw std::runtime_error(std::string(10'000, 'x'));
}
PASSEL_ENTRY(crash_throws_at_length);

void crash_throws_a_number(WorkerContext&) {
  throw 5;
}
PASSEL_ENTRY(crash_throws_a_number);

void crash_throws_in_a_thread(WorkerContext&) {
  std::thread([] { throw std::runtime_error("the helper gave up"); }).join();
}
PASSEL_ENTRY(crash_throws_in_a_thread);

void crash_writes_to_address_16(WorkerContext&) {
  auto* volatile address = reinterpret_cast<volatile int*>(16);
  *address = 1;
}
PASSEL_ENTRY(crash_writes_to_address_16);

[[gnu::noinline]] int overflow_stack(int depth) {
  volatile char frame[4096];
  frame[0] = static_cast<char>(depth);
  // Never 0, but the compiler cannot know.
  return depth == 0 ? 0 : overflow_stack(depth + 1) + frame[0];
}
void crash_overflows_its_stack(WorkerContext&) {
  overflow_stack(1);
}
PASSEL_ENTRY(crash_overflows_its_stack);

void crash_aborts(WorkerContext&) {
  std::abort();
}
PASSEL_ENTRY(crash_aborts);

void crash_waits(WorkerContext&) {
  for (;;) ::pause();
}
PASSEL_ENTRY(crash_waits);

WorkerExit run(const char* entry, int signal_to_send = 0) {
  Arena arena = Arena::create("test", 1 << 16);
  Team team(arena, {.slots = 2, .entry = entry});
  team.supervisor.spawn(1);
  if (signal_to_send != 0) team.supervisor.kill(1, signal_to_send);
  WorkerExit exit = team.next_exit();
  EXPECT_EQ(exit.slot, 1U);
  EXPECT_EQ(exit.incarnation, 1U);
  return exit;
}

void expect_status(const WorkerExit& exit, int status) {
  EXPECT_EQ(exit.kind, WorkerExit::Kind::kExited) << exit.describe();
  EXPECT_EQ(exit.code, status) << exit.describe();
}

void expect_signal(const WorkerExit& exit, int number) {
  EXPECT_EQ(exit.kind, WorkerExit::Kind::kSignalled) << exit.describe();
  EXPECT_EQ(exit.code, number) << exit.describe();
}

TEST(WorkerEnd, IsStatusZeroWhenTheEntryReturns) {
  const WorkerExit exit = run("crash_returns");
  expect_status(exit, 0);
  EXPECT_FALSE(exit.failed());
  EXPECT_EQ(exit.text, "");
}

TEST(WorkerEnd, KeepsTheExitStatus) {
  const WorkerExit exit = run("crash_exits_with_7");
  expect_status(exit, 7);
  EXPECT_TRUE(exit.failed());
  EXPECT_THAT(exit.describe(), HasSubstr("worker 1 (incarnation 1"));
  EXPECT_THAT(exit.describe(), HasSubstr("status 7"));
}

TEST(WorkerEnd, CarriesTheTextOfAnException) {
  const WorkerExit exit = run("crash_throws");
  expect_status(exit, 70);
  EXPECT_EQ(exit.text, "no data in slot 1");
  EXPECT_THAT(exit.describe(), HasSubstr("no data in slot 1"));
}

TEST(WorkerEnd, CutsALongTextToItsRecord) {
  EXPECT_EQ(run("crash_throws_at_length").text, std::string(CrashRecord().text.size(), 'x'));
}

TEST(WorkerEnd, SaysSoWhenTheExceptionHasNoText) {
  const WorkerExit exit = run("crash_throws_a_number");
  expect_status(exit, 70);
  EXPECT_THAT(exit.text, HasSubstr("no std::exception"));
}

TEST(WorkerEnd, CarriesTheTextOfAnExceptionThatLeftAThread) {
  const WorkerExit exit = run("crash_throws_in_a_thread");
  expect_signal(exit, SIGABRT);
  EXPECT_THAT(exit.text, HasSubstr("the helper gave up"));
}

TEST(WorkerEnd, TellsAnEntryThatNobodyRegistered) {
  const WorkerExit exit = run("crash_misspelt");
  expect_status(exit, 70);
  EXPECT_THAT(exit.text, HasSubstr("crash_misspelt"));
}

TEST(WorkerEnd, NamesTheSignalAndTheAddress) {
  const WorkerExit exit = run("crash_writes_to_address_16");
  expect_signal(exit, SIGSEGV);
  EXPECT_EQ(exit.text, "SIGSEGV at address 0x10");
}

TEST(WorkerEnd, IsReportedWhenTheStackOverflows) {
  const WorkerExit exit = run("crash_overflows_its_stack");
  expect_signal(exit, SIGSEGV);
  EXPECT_THAT(exit.text, StartsWith("SIGSEGV at address 0x"));
}

TEST(WorkerEnd, IsReportedWhenItAborts) {
  const WorkerExit exit = run("crash_aborts");
  expect_signal(exit, SIGABRT);
  EXPECT_EQ(exit.text, "SIGABRT");
}

TEST(WorkerEnd, HasNoTextAfterSigkill) {
  const WorkerExit exit = run("crash_waits", SIGKILL);
  expect_signal(exit, SIGKILL);
  EXPECT_EQ(exit.text, "");
  EXPECT_THAT(exit.describe(), HasSubstr("signal 9 (SIGKILL)"));
}

TEST(CrashRecord, KeepsTheFirstMessageUntilCleared) {
  const auto record = std::make_unique<CrashRecord>();
  EXPECT_EQ(read(*record), "");
  write_exception(*record, "first");
  write_exception(*record, "second");
  EXPECT_EQ(read(*record), "first");
  clear(*record);
  EXPECT_EQ(read(*record), "");
  write_exception(*record, "third");
  EXPECT_EQ(read(*record), "third");
}

TEST(CrashRecord, IsReadWithinItsBoundsWhateverItsLengthSays) {
  const auto record = std::make_unique<CrashRecord>();
  write_exception(*record, "text");
  record->length = ~0U;
  EXPECT_EQ(read(*record).size(), record->text.size());
}

}  // namespace
}  // namespace passel::shm
