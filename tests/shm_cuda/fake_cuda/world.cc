#include "world.h"

#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>
#include <utility>

#include "fake_cuda.h"

namespace passel::fake_cuda {
namespace {

constexpr const char* kVariable = "FAKE_CUDA_WORLD";

std::atomic<bool> in_exit{false};
thread_local cudaError_t last_error = cudaSuccess;

World* map(int fd) {
  void* const memory = ::mmap(nullptr, sizeof(World), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("fake CUDA: the world cannot be mapped");
  return static_cast<World*>(memory);
}

/// Whoever calls CUDA first makes the world, for itself and all that it spawns.
std::string create_world() {
  const int fd = ::memfd_create("fake-gpus", MFD_CLOEXEC);
  if (fd < 0 || ::ftruncate(fd, sizeof(World)) != 0) {
    throw std::runtime_error("fake CUDA: no memory for a world");
  }
  World* const made = new (map(fd)) World;
  pthread_mutexattr_t attributes;
  ::pthread_mutexattr_init(&attributes);
  ::pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  ::pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  ::pthread_mutex_init(&made->mutex, &attributes);
  const std::string path = "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(fd);
  ::setenv(kVariable, path.c_str(), 1);
  return path;
}

World* join_world() {
  const char* const given = std::getenv(kVariable);
  const std::string path = given == nullptr ? create_world() : given;
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) throw std::runtime_error("fake CUDA: the world is gone");
  World* const found = map(fd);
  ::close(fd);
  return found;
}

bool alive(pid_t process) {
  return ::kill(process, 0) == 0 || errno != ESRCH;
}

template <class Imports>
void bury_imports(Imports& imports) {
  for (Import& import : imports) {
    if (import.process != 0 && !alive(import.process)) import = {};
  }
}

cudaError_t failure_of(const char* function) {
  if (world().any_failure.load() == 0) return cudaSuccess;
  const WorldLock lock;
  for (const Failure& failure : world().failures) {
    if (failure.except != ::getpid() && std::strcmp(failure.function.data(), function) == 0) {
      return failure.code;
    }
  }
  return cudaSuccess;
}

void note_context() {
  static std::atomic<bool> noted{false};
  if (noted.exchange(true)) return;
  const WorldLock lock;
  for (auto& context : world().contexts) {
    const pid_t process = context.load();
    if (process != 0 && alive(process)) continue;
    context.store(::getpid());
    return;
  }
}

void set_failure(const std::string& function, cudaError_t code, pid_t except) {
  const WorldLock lock;
  for (Failure& failure : world().failures) {
    if (failure.function[0] != 0) continue;
    function.copy(failure.function.data(), failure.function.size() - 1);
    failure.code = code;
    failure.except = except;
    world().any_failure.store(1);
    return;
  }
}

}  // namespace

World& world() {
  static World* const found = join_world();
  return *found;
}

WorldLock::WorldLock() {
  // Every change is a few plain stores; what a death leaves between them, bury_dead() removes.
  if (::pthread_mutex_lock(&world().mutex) == EOWNERDEAD) {
    ::pthread_mutex_consistent(&world().mutex);
  }
}

WorldLock::~WorldLock() {
  ::pthread_mutex_unlock(&world().mutex);
}

void bury_dead() {
  World& all = world();
  for (Allocation& allocation : all.allocations) {
    if (allocation.owner != 0 && !alive(allocation.owner)) allocation.owner = 0;
  }
  for (EventState& event : all.events) {
    if (event.owner != 0 && !alive(event.owner)) event.owner = 0;
  }
  bury_imports(all.memory_imports);
  bury_imports(all.event_imports);
}

void report_violation(const std::string& text) {
  const std::uint32_t index = world().violations.fetch_add(1);
  if (index >= world().violation_texts.size()) return;
  auto& place = world().violation_texts[index];
  place.fill(0);
  text.copy(place.data(), place.size() - 1);
}

cudaError_t fails(cudaError_t code) {
  if (code != cudaSuccess) last_error = code;
  return code;
}

cudaError_t enter(const char* function, bool context) {
  static const int registered = std::atexit([] { in_exit.store(true); });
  static_cast<void>(registered);
  world().calls.fetch_add(1);
  if (in_exit.load()) {
    std::fprintf(stderr, "fake CUDA: %s was called in exit()\n", function);
    return fails(cudaErrorCudartUnloading);
  }
  if (world().driver.load() == 0) return fails(cudaErrorInsufficientDriver);
  if (context) note_context();
  return fails(failure_of(function));
}

Totals totals() {
  const WorldLock lock;
  bury_dead();
  Totals sum;
  for (const Allocation& allocation : world().allocations) {
    sum.device_bytes += allocation.owner != 0 ? allocation.bytes : 0;
    sum.allocations += allocation.owner != 0;
  }
  for (const EventState& event : world().events) sum.events += event.owner != 0;
  for (const Import& import : world().memory_imports) sum.open_memory += import.process != 0;
  for (const Import& import : world().event_imports) sum.open_events += import.process != 0;
  for (const auto& context : world().contexts) {
    sum.contexts += context.load() != 0 && alive(context.load());
  }
  return sum;
}

std::uint64_t calls() {
  return world().calls.load();
}

std::uint32_t violations() {
  return world().violations.load();
}

std::string violation_text() {
  std::string all;
  for (std::uint32_t i = 0; i < violations() && i < world().violation_texts.size(); ++i) {
    all += std::string(world().violation_texts[i].data()) + "\n";
  }
  return all;
}

void reset() {
  World& all = world();
  all.devices.store(2);
  all.driver.store(13000);
  all.ipc_events.store(1);
  all.integrated.store(0);
  all.ignore_waits.store(0);
  all.violations.store(0);
  const WorldLock lock;
  all.failures.fill({});
  all.any_failure.store(0);
}

void set_devices(int count) {
  world().devices.store(count);
}
void set_driver(int version) {
  world().driver.store(version);
}
void set_ipc_events(bool supported) {
  world().ipc_events.store(supported ? 1 : 0);
}
void set_integrated(bool integrated) {
  world().integrated.store(integrated ? 1 : 0);
}
void ignore_waits(bool ignore) {
  world().ignore_waits.store(ignore ? 1 : 0);
}
void fail(const std::string& function, cudaError_t code) {
  set_failure(function, code, 0);
}
void fail_elsewhere(const std::string& function, cudaError_t code) {
  set_failure(function, code, ::getpid());
}

}  // namespace passel::fake_cuda

extern "C" {

cudaError_t cudaGetLastError() {
  return std::exchange(passel::fake_cuda::last_error, cudaSuccess);
}

const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaSuccess ? "cudaSuccess" : "cudaErrorOfTheFake";
}

const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaSuccess ? "no error" : "the fake runtime says so";
}

}  // extern "C"
