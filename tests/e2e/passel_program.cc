#include "passel_program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <sstream>

#include "data/temporary_folder.h"

extern char** environ;

namespace passel::testing {

PasselProgram::PasselProgram(const std::vector<std::string>& arguments,
                             std::filesystem::path text_file)
    : text_file_(std::move(text_file)) {
  std::vector<std::string> words{PASSEL_PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, text_file_.c_str(), O_WRONLY | O_CREAT | O_APPEND,
                                   0644);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  if (posix_spawn(&pid_, PASSEL_PROGRAM, &actions, nullptr, argv.data(), environ) != 0) {
    ADD_FAILURE() << "cannot start " << PASSEL_PROGRAM;
  }
  posix_spawn_file_actions_destroy(&actions);
}

PasselProgram::~PasselProgram() {
  if (finished_ || pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void PasselProgram::signal(int number) const {
  ::kill(pid_, number);
}

std::string PasselProgram::text() const {
  std::ifstream file(text_file_);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<pid_t> PasselProgram::workers() const {
  std::vector<pid_t> pids;
  for (const auto& thread :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid_) + "/task")) {
    std::ifstream children(thread.path() / "children");
    pids.insert(pids.end(), std::istream_iterator<pid_t>(children), {});
  }
  return pids;
}

Finished PasselProgram::wait(std::chrono::seconds limit) {
  siginfo_t info{};
  const bool ended = eventually(
      [&] {
        info.si_pid = 0;
        return waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG) == 0 &&
               info.si_pid == pid_;
      },
      limit);
  if (!ended) {
    ADD_FAILURE() << "passel did not end in " << limit.count() << " s. It said:\n" << text();
    return {-1, text()};
  }
  finished_ = true;
  return {info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status, text()};
}

Finished run_passel(const std::vector<std::string>& arguments, std::chrono::seconds limit) {
  const TemporaryFolder folder;
  return PasselProgram(arguments, folder / "text").wait(limit);
}

std::vector<nlohmann::json> events(const std::filesystem::path& run) {
  std::vector<nlohmann::json> result;
  std::ifstream file(run / "metrics.jsonl");
  for (std::string line; std::getline(file, line);) {
    auto event = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!event.is_discarded()) result.push_back(std::move(event));
  }
  return result;
}

std::vector<nlohmann::json> events(const std::filesystem::path& run, const std::string& kind) {
  auto result = events(run);
  std::erase_if(result, [&](const auto& event) { return event.at("event") != kind; });
  return result;
}

bool eventually(const std::function<bool()>& condition, std::chrono::seconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    poll(nullptr, 0, 5);
  }
  return true;
}

bool eventually_in(const std::filesystem::path& run,
                   const std::function<bool(const std::vector<nlohmann::json>&)>& wanted) {
  return eventually([&] { return wanted(events(run)); });
}

bool process_exists(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::stringstream text;
  text << stat.rdbuf();
  const auto name_end = text.str().rfind(')');
  // A zombie is nobody: it holds no memory.
  return name_end != std::string::npos && text.str()[name_end + 2] != 'Z';
}

}  // namespace passel::testing
