// What torch's own sharing depends on and this does not: settings of its allocator, and the right
// to take descriptors out of other processes.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "scene.h"

namespace passel::shm {
namespace {

/// As the default profile of containers does. In a child, for it and all that it starts.
bool deny_descriptors_of_others() {
  std::array<sock_filter, 4> filter{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_getfd, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program{filter.size(), filter.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0 &&
         ::syscall(SYS_pidfd_getfd, -1, 0, 0) == -1 && errno == EPERM;
}

/// The environment, without the fake's world: the child makes its own.
std::vector<std::string> environment_with(const std::vector<std::string>& settings) {
  std::vector<std::string> environment = settings;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!text.starts_with("FAKE_CUDA_WORLD=")) environment.push_back(text);
  }
  return environment;
}

/// The exit code of those of this program's tests that the filter names, run where descriptors of
/// others are denied.
int run_tests(const std::string& tests, const std::vector<std::string>& settings) {
  std::vector<std::string> texts = environment_with(settings);
  std::vector<char*> environment;
  for (std::string& text : texts) environment.push_back(text.data());
  environment.push_back(nullptr);
  std::string filter = "--gtest_filter=" + tests;
  std::string name = "shm_cuda_test";
  std::array<char*, 3> arguments{name.data(), filter.data(), nullptr};
  const pid_t child = ::fork();
  if (child == 0) {
    if (!deny_descriptors_of_others()) ::_exit(98);
    ::execve("/proc/self/exe", arguments.data(), environment.data());
    ::_exit(99);
  }
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool has_suite(const std::string& name) {
  const auto& all = *::testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    if (all.GetTestSuite(i)->name() == name) return true;
  }
  return false;
}

TEST(Surroundings, InWhichTorchCannotShareAreNoneOfThisOnesConcern) {
  ASSERT_TRUE(has_suite("Chain")) << "none of its tests would be run";
  EXPECT_EQ(run_tests("Chain.*", {"PYTORCH_ALLOC_CONF=expandable_segments:True",
                                  "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"}),
            0);
  EXPECT_EQ(run_tests("Chain.*", {"PYTORCH_NO_CUDA_MEMORY_CACHING=1"}), 0);
}

/// Variables with which all users of CUDA debug programs and share machines.
TEST(Surroundings, AreThoseThatCudasVariablesAskFor) {
  ASSERT_TRUE(has_suite("Chain")) << "none of its tests would be run";
  // The others are of senders whose work never ends: a launch that blocks keeps them from sending.
  EXPECT_EQ(
      run_tests("Chain.FromAToBToCToA*:Chain.OfASenderThatHasEnded*", {"CUDA_LAUNCH_BLOCKING=1"}),
      0);
  EXPECT_EQ(run_tests("Chain.*", {"CUDA_VISIBLE_DEVICES=1,0"}), 0);
}

}  // namespace
}  // namespace passel::shm
