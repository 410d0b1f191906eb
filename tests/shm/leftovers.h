#pragma once

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <set>
#include <string>
#include <thread>

#include "support.h"

// What a process can leave behind, looked up where the kernel keeps it.
namespace passel::shm::test {

inline std::set<std::string> names_in(const char* folder) {
  std::set<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    names.insert(entry.path().filename());
  }
  return names;
}

inline std::size_t open_descriptors() {
  return names_in("/proc/self/fd").size();
}

inline std::size_t mappings() {
  std::ifstream in("/proc/self/maps");
  return static_cast<std::size_t>(std::count(std::istreambuf_iterator<char>(in), {}, '\n'));
}

/// Bytes of memory behind a memory file.
inline std::uint64_t file_memory(int fd) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 ? static_cast<std::uint64_t>(status.st_blocks) * 512 : 0;
}

/// Bytes of shared memory in use on the whole machine.
inline std::uint64_t machine_shared_memory() {
  std::ifstream in("/proc/meminfo");
  for (std::string word; in >> word;) {
    std::uint64_t kib = 0;
    if (word == "Shmem:" && in >> kib) return kib * 1024;
    in.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  ADD_FAILURE() << "/proc/meminfo has no Shmem";
  return 0;
}

/// Processes on this machine that run an entry whose name begins with `name`.
inline std::size_t running(const std::string& name) {
  std::size_t count = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    std::ifstream in(entry.path() / "cmdline");
    std::string line;
    std::getline(in, line);  // stays empty when the process ends meanwhile
    count += line.find(std::string("--passel-worker\0", 16) + name) != std::string::npos;
  }
  return count;
}

/// Looks until `settled` holds; false when it does not in a minute.
template <class Settled>
bool comes_to(Settled&& settled) {
  for (const Deadline deadline = patience(); Clock::now() < deadline;) {
    if (settled()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // between two looks
  }
  return false;
}

/// A process in the middle of an exec shows no command line, so one look is not enough.
inline bool gone(const std::string& name) {
  int looks = 0;
  return comes_to([&] { return (looks = running(name) == 0 ? looks + 1 : 0) == 3; });
}

}  // namespace passel::shm::test
