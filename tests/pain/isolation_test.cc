// What the machine has to offer and what is left on it afterwards.
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <random>

#include "pain/pain.h"
#include "support/stress.h"

namespace passel::pain {
namespace {

constexpr std::int64_t kNumbers = 16 << 20;  // 64 MiB of float

struct SmallRun {
  int error = 0;  ///< why there was no small /dev/shm
  std::uint64_t dev_shm = 0;
  double sum = 0;
};

/// Writes all of its half, then takes 100 gradient steps towards 1 on some of it.
void pain_train_half(Worker& self) {
  const at::Tensor weight = self.tensor("weight");
  const at::Tensor half =
      weight.slice(0, self.slot() * kNumbers / 2, (self.slot() + 1) * kNumbers / 2);
  half.fill_(1);
  const at::Tensor part = half.slice(0, 0, 1024);
  part.fill_(0);
  for (int step = 0; step < 100; ++step) {
    const at::Tensor live = part.detach().requires_grad_();
    live.sub(1).square().sum().backward();
    part.sub_(live.grad(), 0.25);
  }
}
PASSEL_ENTRY(pain_train_half);

/// A parent of its own in a mount namespace where /dev/shm has 1 MiB.
SmallRun pain_train_beside_small_dev_shm(Worker&) {
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0 ||
      ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=1m") != 0) {
    return {.error = errno};
  }
  struct statvfs status {};
  ::statvfs("/dev/shm", &status);
  Shared shared({.workers = 2, .memory = 65 * kMiB, .region = kMiB});
  const at::Tensor weight = at::zeros({kNumbers});
  shared.share("weight", weight);
  spawn(pain_train_half, shared)->join();
  return {.dev_shm = status.f_blocks * status.f_frsize, .sum = weight.sum().item<double>()};
}
PASSEL_ENTRY(pain_train_beside_small_dev_shm);

TEST(TheMachine, NeedsNoRoomInDevShm) {
  Shared outer({});
  auto parent = spawn(pain_train_beside_small_dev_shm, outer);
  join(*parent);
  const auto run = parent->result<SmallRun>(0).value();
  if (run.error == EPERM || run.error == EACCES || run.error == ENOSPC) {
    GTEST_SKIP() << "no mount namespace here: " << std::strerror(run.error);
  }
  ASSERT_EQ(run.error, 0) << std::strerror(run.error);
  EXPECT_EQ(run.dev_shm, kMiB);
  EXPECT_NEAR(run.sum, static_cast<double>(kNumbers), 0.01);
}

void pain_swing(Worker& self) {
  auto to = self.queue("to");
  auto back = self.queue("back");
  while (const auto tensor = to.get()) back.put(tensor->add(1));
}
PASSEL_ENTRY(pain_swing);

/// A parent in full swing: shared weights, queues, two workers, for ever.
void pain_parent(Worker& self) {
  auto started = Tally::open(self, "started");
  Shared shared({.workers = 2});
  const at::Tensor weight = at::ones({1000});
  shared.share("weight", weight);
  auto to = shared.queue("to");
  auto back = shared.queue("back", {.read_by = ReadBy::kParent});
  [[maybe_unused]] const auto workers = spawn(pain_swing, shared);
  to.put(at::ones({1000}));
  for (int i = 0;; ++i) {
    to.put(*back.get());
    if (i == 2) started.add();
  }
}
PASSEL_ENTRY(pain_parent);

TEST(TheMachine, IsAsBeforeAfterWholeRunsWereKilledAtRandomMoments) {
  constexpr unsigned kSeed = 71;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  std::mt19937 random(kSeed);
  const auto names = shm::test::names_in("/dev/shm");
  const int rounds = passel::testing::stress_size(4, 100);
  Shared outer({});
  auto started = Tally::create(outer, "started");
  // Nothing needs a folder for temporary files, a socket or a daemon.
  auto parent =
      spawn(pain_parent, outer,
            {.on_death = OnDeath::kRespawn, .environment = {"TMPDIR=/nonexistent", mark()}});
  for (int round = 1; round <= rounds; ++round) {
    ASSERT_TRUE(started.reaches(round));
    // The moment is random on purpose; nothing is waited for.
    for (const Deadline end = after(std::chrono::microseconds(random() % 5000));
         Clock::now() < end;) {
    }
    ASSERT_TRUE(parent->kill(0, SIGKILL));
  }
  parent.reset();
  EXPECT_TRUE(marked_processes_go()) << "workers outlived their parents";
  EXPECT_TRUE(
      comes_to([&] { return std::ranges::includes(names, shm::test::names_in("/dev/shm")); }));
}

TEST(AKilledParent, LeavesNoWorkerBehind) {
  Shared outer({});
  auto started = Tally::create(outer, "started");
  auto parent =
      spawn(pain_parent, outer, {.on_death = OnDeath::kContinue, .environment = {mark()}});
  ASSERT_TRUE(started.reaches(1));
  EXPECT_TRUE(comes_to([] { return marked_processes() == 3; }));
  const auto killed = Clock::now();
  ASSERT_TRUE(parent->kill(0, SIGKILL));
  EXPECT_TRUE(marked_processes_go());
  const std::chrono::duration<double, std::milli> took = Clock::now() - killed;
  RecordProperty("milliseconds", std::to_string(took.count()));
  ASSERT_EQ(failures_of(*parent).size(), 1U);
}

}  // namespace
}  // namespace passel::pain
