#include "passel/shm/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>

#include "passel/shm/error.h"
#include "worker_arguments.h"

namespace passel::shm {
namespace {

constexpr const char* kThisProgram = "/proc/self/exe";  // also after the file was replaced

/// posix_spawn's functions return an error code; `what` says which one did.
void check(int code, const char* what) {
  if (code != 0) throw Error(what, code);
}

class FileActions {
 public:
  explicit FileActions(const SpawnRequest& request) {
    check(::posix_spawn_file_actions_init(&actions_), "prepare the descriptors of a worker");
    // First, because the arena may have a number that is taken below. dup2 onto itself is fine: it
    // clears close-on-exec in the child.
    add(::posix_spawn_file_actions_adddup2(&actions_, request.arena_fd, kArenaFd));
    // A background process group that reads the terminal would be stopped.
    add(::posix_spawn_file_actions_addopen(&actions_, 0, "/dev/null", O_RDONLY, 0));
    if (!request.output.empty()) {
      add(::posix_spawn_file_actions_addopen(&actions_, 1, request.output.c_str(),
                                             O_WRONLY | O_CREAT | O_APPEND, 0644));
      add(::posix_spawn_file_actions_adddup2(&actions_, 1, 2));
    }
    add(::posix_spawn_file_actions_addclosefrom_np(&actions_, kArenaFd + 1));
    // Where the current folder was removed, libraries may refuse to load.
    std::error_code removed;
    static_cast<void>(std::filesystem::current_path(removed));
    if (removed) add(::posix_spawn_file_actions_addchdir_np(&actions_, "/"));
  }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;
  ~FileActions() { ::posix_spawn_file_actions_destroy(&actions_); }

  [[nodiscard]] const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  void add(int code) {
    if (code == 0) return;
    ::posix_spawn_file_actions_destroy(&actions_);
    check(code, "prepare the descriptors of a worker");
  }
  posix_spawn_file_actions_t actions_;
};

class Attributes {
 public:
  Attributes() {
    check(::posix_spawnattr_init(&attributes_), "prepare the signals of a worker");
    sigset_t none;
    sigset_t all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    ::posix_spawnattr_setpgroup(&attributes_, 0);
    ::posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;
  ~Attributes() { ::posix_spawnattr_destroy(&attributes_); }

  [[nodiscard]] const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_;
};

std::string_view variable_name(std::string_view assignment) {
  return assignment.substr(0, assignment.find('='));
}

std::vector<std::string> merged_environment(const std::vector<std::string>& additions) {
  std::vector<std::string> merged;
  for (char** variable = environ; *variable != nullptr; ++variable) merged.emplace_back(*variable);
  for (const std::string& addition : additions) {
    std::erase_if(merged, [&](const std::string& old) {
      return variable_name(old) == variable_name(addition);
    });
    merged.push_back(addition);
  }
  return merged;
}

template <class Strings>
std::vector<char*> pointers(Strings& strings) {
  std::vector<char*> result;
  result.reserve(strings.size() + 1);
  for (std::string& text : strings) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

}  // namespace

Process spawn_process(const SpawnRequest& request) {
  const std::string operation =
      "spawn worker " + std::to_string(request.slot) + " with entry '" + request.entry + "'";
  const FileActions actions(request);
  const Attributes attributes;
  auto arguments =
      WorkerArguments{request.entry, request.slot, request.incarnation, ::getpid()}.to_argv();
  auto environment = merged_environment(request.environment);

  pid_t pid = 0;
  const int code = ::posix_spawn(&pid, kThisProgram, actions.get(), attributes.get(),
                                 pointers(arguments).data(), pointers(environment).data());
  if (code != 0) {
    throw Error(
        operation, code,
        request.output.empty() ? "Is /proc mounted?" : "Can '" + request.output + "' be written?");
  }
  // Safe although pids are used again: this child is not reaped before somebody waits for it.
  const auto pidfd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (pidfd < 0) {
    const int reason = errno;
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    throw Error(operation, reason, "pidfd_open failed: Linux 5.4 or newer is needed");
  }
  return {pid, pidfd};
}

}  // namespace passel::shm
