// Loaded before libc: a machine that at times has no process or thread to give. In the processes
// that have PASSEL_FAILED_SPAWNS=FIRST-LAST those calls of posix_spawn() fail, counted from 1; the
// same for PASSEL_FAILED_THREADS and pthread_create().
#include <dlfcn.h>
#include <pthread.h>
#include <spawn.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace {

bool fails(const char* variable, std::atomic<long>& calls) {
  const char* const range = std::getenv(variable);
  const long call = ++calls;
  long first = 0;
  long last = 0;
  if (range == nullptr || std::sscanf(range, "%ld-%ld", &first, &last) != 2) return false;
  return first <= call && call <= last;
}

template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" int posix_spawn(pid_t* pid, const char* path, const posix_spawn_file_actions_t* actions,
                           const posix_spawnattr_t* attributes, char* const arguments[],
                           char* const environment[]) {
  static std::atomic<long> calls = 0;
  if (fails("PASSEL_FAILED_SPAWNS", calls)) return EAGAIN;
  return real<decltype(posix_spawn)>("posix_spawn")(pid, path, actions, attributes, arguments,
                                                    environment);
}

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*run)(void*), void* argument) {
  static std::atomic<long> calls = 0;
  if (fails("PASSEL_FAILED_THREADS", calls)) return EAGAIN;
  return real<decltype(pthread_create)>("pthread_create")(thread, attributes, run, argument);
}
