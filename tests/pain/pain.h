#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "passel/shm_torch.h"
#include "shm/leftovers.h"

/// What the tests of the known failures have in common.
namespace passel::pain {

using shm::Clock;
using shm::WorkerExit;
using shm::test::comes_to;
using shm::test::error_of;
using shm::test::patience;

/// A number that all processes of a test count up and look at.
class Tally {
 public:
  static Tally create(Shared& shared, const std::string& name) {
    return Tally(shared.value<std::uint64_t>(name, 0));
  }
  static Tally open(const Worker& self, const std::string& name) {
    return Tally(self.value<std::uint64_t>(name));
  }

  void add() { ++*number_; }
  [[nodiscard]] std::uint64_t get() const { return number_->load(); }
  /// False when it has not come to `least` in a minute.
  [[nodiscard]] bool reaches(std::uint64_t least) const {
    return comes_to([&] { return get() >= least; });
  }
  /// For workers, whose failure the test sees.
  void await(std::uint64_t least) const {
    if (!reaches(least)) throw std::runtime_error("the others did not come in time");
  }

 private:
  // Shared by value: a reference of atomic_ref is a pointer into the arena.
  explicit Tally(std::uint64_t& number)
      : number_(std::make_shared<std::atomic_ref<std::uint64_t>>(number)) {}

  std::shared_ptr<std::atomic_ref<std::uint64_t>> number_;
};

/// The next tensor; throws when there is none in a minute.
inline at::Tensor next(TensorQueue& queue) {
  at::Tensor tensor;
  if (queue.get(tensor, patience()) != QueueStatus::kOk) {
    throw std::runtime_error("queue '" + queue.name() + "' brought no tensor");
  }
  return tensor;
}

/// For SpawnSettings::environment: by it the workers of this test are found, and those whom
/// they start, among all processes of the machine.
inline std::string mark() {
  return "PASSEL_PAIN_TEST=" + std::to_string(::getpid());
}

/// How many processes with the mark there are.
inline std::size_t marked_processes() {
  std::size_t count = 0;
  for (const std::string& name : shm::test::names_in("/proc")) {
    std::ifstream in("/proc/" + name + "/environ");
    std::string environment;
    std::getline(in, environment, '\xff');  // all of it; none when the process ends meanwhile
    count += environment.find(mark() + '\0') != std::string::npos ? 1 : 0;
  }
  return count;
}

/// Whether all of them go. A process in the middle of an exec shows no environment, so one look
/// is not enough.
inline bool marked_processes_go() {
  int looks = 0;
  return comes_to([&] { return (looks = marked_processes() == 0 ? looks + 1 : 0) == 3; });
}

/// Waits for the end of a run that may have failed, and says how it failed.
inline std::vector<WorkerExit> failures_of(ProcessContext& workers) {
  try {
    if (!workers.join_for(std::chrono::minutes(1))) ADD_FAILURE() << "the run did not end";
  } catch (const WorkersFailed&) {
  }
  return workers.failures();
}

/// join() that fails the test instead of hanging.
inline void join(ProcessContext& workers) {
  ASSERT_TRUE(workers.join_for(std::chrono::minutes(1))) << "the workers did not end";
}

}  // namespace passel::pain
