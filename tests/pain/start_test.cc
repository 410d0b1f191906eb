#include <ATen/Parallel.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "pain/pain.h"

namespace passel::pain {
namespace {

/// A product on all threads, and its gradient: what leaves pools and engine threads behind.
double step(std::int64_t size) {
  const at::Tensor weight = at::ones({size, size}).requires_grad_();
  const at::Tensor loss = at::mm(at::ones({size, size}), weight).mean();
  loss.backward();
  return weight.grad().sum().item<double>();
}

double pain_step(Worker&) {
  return step(128);
}
PASSEL_ENTRY(pain_step);

TEST(WorkersOfAParentThatHasTrained, TakeTheirOwnStepsWithoutAHang) {
  at::set_num_threads(2);
  EXPECT_NEAR(step(512), 512, 0.1);
  Shared shared({.workers = 4});
  auto workers = spawn(pain_step, shared);
  EXPECT_NEAR(step(512), 512, 0.1) << "while they start";
  join(*workers);
  for (std::uint32_t slot = 0; slot < 4; ++slot) {
    EXPECT_NEAR(workers->result<double>(slot).value(), 128, 0.1);
  }
}

void pain_wait_for_tensor(Worker& self) {
  auto to = self.queue("to");
  while (to.get()) {
  }
}
PASSEL_ENTRY(pain_wait_for_tensor);

TEST(Spawning, AndDroppingTheHandleAtOnceLeavesNobody) {
  for (int i = 0; i < 5; ++i) {
    Shared shared({.workers = 2});
    auto queue = shared.queue("to");
    queue.put(at::ones({3}));
    (void)spawn(pain_wait_for_tensor, shared, {.environment = {mark()}});
    EXPECT_EQ(marked_processes(), 0U) << "round " << i;
  }
}

TEST(Spawning, FromAThreadThatEndsLeavesTheWorkersAlive) {
  Shared shared({.workers = 2});
  auto queue = shared.queue("to");
  std::shared_ptr<ProcessContext> workers;
  std::thread([&] { workers = spawn(pain_wait_for_tensor, shared); }).join();
  for (int i = 0; i < 100; ++i) queue.put(at::ones({3}));
  EXPECT_EQ(workers->alive_count(), 2U);
  queue.close();
  EXPECT_NO_THROW(join(*workers));
  EXPECT_TRUE(workers->failures().empty());
}

/// What `action` does in a raw fork() of this process.
enum class InAFork : std::uint8_t { kError, kNothing, kOtherException, kHangs, kDies };

std::ostream& operator<<(std::ostream& out, InAFork outcome) {
  constexpr const char* kNames[] = {"an Error", "no exception", "another exception", "a hang",
                                    "a crash"};
  return out << kNames[static_cast<int>(outcome)];
}

template <class Action>
InAFork in_a_fork(Action&& action) {
  const pid_t child = ::fork();
  if (child == 0) {
    InAFork outcome = InAFork::kNothing;
    try {
      action();
    } catch (const Error&) {
      outcome = InAFork::kError;
    } catch (...) {
      outcome = InAFork::kOtherException;
    }
    ::_exit(static_cast<int>(outcome));
  }
  const int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, child, 0));
  pollfd end{.fd = pidfd, .events = POLLIN, .revents = 0};
  const bool hangs = ::poll(&end, 1, 20'000) != 1;
  ::close(pidfd);
  if (hangs) ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (hangs) return InAFork::kHangs;
  return WIFEXITED(status) ? static_cast<InAFork>(WEXITSTATUS(status)) : InAFork::kDies;
}

TEST(ARawFork, TakesNoTensorAwayFromItsParent) {
  Shared shared({.region = 1 << 16});
  at::Tensor kept = shared.empty({1000}, at::kFloat).fill_(1);
  EXPECT_EQ(in_a_fork([&] { kept.reset(); }), InAFork::kNothing);
  for (int i = 0; i < 20; ++i) shared.empty({1000}, at::kFloat).fill_(2);
  EXPECT_EQ(kept.sum().item<float>(), 1000);
}

TEST(ARawFork, GetsAnErrorFromWhateverItCallsAndTheParentGoesOn) {
  Shared shared({});
  Shared other({});
  auto to = shared.queue("to");
  auto back = shared.queue("back", {.read_by = ReadBy::kParent});
  const at::Tensor tensor = shared.empty({3}, at::kFloat).fill_(1);
  auto workers = spawn(pain_wait_for_tensor, shared);
  EXPECT_EQ(in_a_fork([&] { to.put(tensor); }), InAFork::kError);
  EXPECT_EQ(in_a_fork([&] { to.try_put(tensor); }), InAFork::kError);
  EXPECT_EQ(in_a_fork([&] { back.get(); }), InAFork::kError);
  EXPECT_EQ(in_a_fork([&] { shared.empty({3}, at::kFloat); }), InAFork::kError);
  EXPECT_EQ(in_a_fork([&] { shared.compact(tensor); }), InAFork::kError);
  EXPECT_EQ(in_a_fork([&] { shared.exchange().share(at::ones({3})); }), InAFork::kError);
  EXPECT_EQ(in_a_fork([&] { other.share("late", at::ones({3})); }), InAFork::kError);
  EXPECT_EQ(in_a_fork([&] { (void)spawn(pain_step, other); }), InAFork::kError);
  EXPECT_EQ(in_a_fork([&] { workers->join(); }), InAFork::kError);
  EXPECT_EQ(in_a_fork([&] { workers->terminate(); }), InAFork::kError);
  EXPECT_EQ(in_a_fork([&] { workers->kill(0, SIGKILL); }), InAFork::kError);
  EXPECT_EQ(in_a_fork([&] {
              const std::vector<shm::ExchangeQueue*> queues = {back.channel()};
              wait_any(queues);
            }),
            InAFork::kError);
  // Reading what is there already needs no lock.
  EXPECT_EQ(in_a_fork([&] {
              if (tensor[2].item<float>() != 1) throw Error("read", 0);
            }),
            InAFork::kNothing);
  EXPECT_EQ(workers->alive_count(), 1U);
  to.put(tensor);
  to.close();
  join(*workers);
}

}  // namespace
}  // namespace passel::pain
