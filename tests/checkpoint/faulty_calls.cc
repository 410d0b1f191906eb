// This program's own open(), write() and so on come before those of the C library, for the C++
// library's filesystem too. The code under test is the one that users run.
#include "checkpoint/faulty_calls.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>

namespace passel::testing {
namespace {

thread_local FaultyCalls* active = nullptr;

bool fails(const char* name) {
  return active != nullptr && active->fails(name);
}

template <typename Function>
Function* in_c_library(const char* name, Function*) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

FaultyCalls::FaultyCalls(FaultPlan plan) : plan_(plan) {
  active = this;
}

FaultyCalls::~FaultyCalls() {
  active = nullptr;
}

bool FaultyCalls::fails(const char* name) {
  const int number = static_cast<int>(calls_.size());
  calls_.emplace_back(name);
  const bool fails = number == plan_.at || (plan_.lasting && number > plan_.at);
  if (fails) errno = plan_.error_number;
  return fails;
}

std::size_t FaultyCalls::room_for(std::size_t bytes) {
  const bool is_short = static_cast<int>(calls_.size()) - 1 == plan_.short_write_at;
  const auto room = std::min(is_short ? std::min<std::size_t>(bytes, 1) : bytes,
                             static_cast<std::size_t>(plan_.space));
  if (plan_.space != FaultPlan::kEndless) plan_.space -= static_cast<std::int64_t>(room);
  if (room == 0) errno = ENOSPC;
  return room;
}

}  // namespace passel::testing

using passel::testing::active;
using passel::testing::fails;
using passel::testing::in_c_library;

extern "C" {

int open(const char* path, int flags, ...) {
  std::va_list rest;
  va_start(rest, flags);
  const auto mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : mode_t{};
  va_end(rest);
  static const auto real = in_c_library("open", &open);
  return fails("open") ? -1 : real(path, flags, mode);
}

ssize_t read(int fd, void* bytes, size_t size) {
  static const auto real = in_c_library("read", &read);
  return fails("read") ? -1 : real(fd, bytes, size);
}

ssize_t pread(int fd, void* bytes, size_t size, off_t at) {
  static const auto real = in_c_library("pread", &pread);
  return fails("pread") ? -1 : real(fd, bytes, size, at);
}

ssize_t write(int fd, const void* bytes, size_t size) {
  static const auto real = in_c_library("write", &write);
  if (active == nullptr) return real(fd, bytes, size);
  if (fails("write")) return -1;
  const std::size_t room = active->room_for(size);
  return room == 0 && size > 0 ? -1 : real(fd, bytes, room);
}

int fsync(int /*fd*/) {
  return fails("fsync") ? -1 : 0;
}

// As in Linux, the descriptor is gone even if it fails.
int close(int fd) {
  static const auto real = in_c_library("close", &close);
  const int result = real(fd);
  return fails("close") ? -1 : result;
}

int fstat(int fd, struct stat* status) noexcept {
  static const auto real = in_c_library("fstat", &fstat);
  return fails("fstat") ? -1 : real(fd, status);
}

int ftruncate(int fd, off_t size) noexcept {
  static const auto real = in_c_library("ftruncate", &ftruncate);
  return fails("ftruncate") ? -1 : real(fd, size);
}

int flock(int fd, int operation) noexcept {
  static const auto real = in_c_library("flock", &flock);
  return fails("flock") ? -1 : real(fd, operation);
}

int rename(const char* from, const char* to) noexcept {
  static const auto real = in_c_library("rename", &rename);
  return fails("rename") ? -1 : real(from, to);
}

int unlink(const char* path) noexcept {
  static const auto real = in_c_library("unlink", &unlink);
  return fails("unlink") ? -1 : real(path);
}

int remove(const char* path) noexcept {
  static const auto real = in_c_library("remove", &remove);
  return fails("remove") ? -1 : real(path);
}

int mkdir(const char* path, mode_t mode) noexcept {
  static const auto real = in_c_library("mkdir", &mkdir);
  return fails("mkdir") ? -1 : real(path, mode);
}

DIR* opendir(const char* path) {
  static const auto real = in_c_library("opendir", &opendir);
  return fails("opendir") ? nullptr : real(path);
}

dirent* readdir(DIR* folder) {
  static const auto real = in_c_library("readdir", &readdir);
  return fails("readdir") ? nullptr : real(folder);
}

}  // extern "C"
