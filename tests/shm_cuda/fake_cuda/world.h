#pragma once

#include <driver_types.h>
#include <pthread.h>
#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace passel::fake_cuda {

inline constexpr int kDevices = 4;
inline constexpr std::uint64_t kDeviceBytes = std::uint64_t{1} << 30;

struct Allocation {
  pid_t owner = 0;  ///< 0: unused
  std::uint32_t generation = 0;
  int device = 0;
  int fd = -1;  ///< in the owner; -1: of a stream's pool, which cannot be exported
  std::uint64_t bytes = 0;
};

struct EventState {
  pid_t owner = 0;
  std::uint32_t generation = 0;
  int device = 0;
  unsigned flags = 0;
  std::atomic<std::uint32_t> recorded{0};     ///< recordings begun
  std::atomic<std::uint32_t> completed{0};    ///< a futex: those up to here are done
  std::atomic<std::int64_t> completed_at{0};  ///< ns of the clock that all processes share
};

/// Somebody has something of another process open.
struct Import {
  pid_t process = 0;
  std::uint32_t index = 0;
  std::uint32_t generation = 0;
};

struct Failure {
  std::array<char, 40> function{};
  cudaError_t code = cudaSuccess;
  pid_t except = 0;
};

/// What all processes share.
struct World {
  pthread_mutex_t mutex;  ///< robust: processes are killed
  std::atomic<int> devices{2};
  std::atomic<int> driver{13000};
  std::atomic<int> ipc_events{1};
  std::atomic<int> integrated{0};
  std::atomic<int> ignore_waits{0};
  std::atomic<std::uint64_t> calls{0};
  std::atomic<int> any_failure{0};
  std::array<Failure, 8> failures;
  std::array<Allocation, 1024> allocations;
  std::array<EventState, 4096> events;
  std::array<Import, 1024> memory_imports;
  std::array<Import, 8192> event_imports;
  std::array<std::atomic<pid_t>, 256> contexts;
  std::atomic<std::uint32_t> violations{0};
  std::array<std::array<char, 160>, 8> violation_texts{};
};

/// The world of this process: its own, or the one that FAKE_CUDA_WORLD names.
World& world();

class WorldLock {
 public:
  WorldLock();
  ~WorldLock();
  WorldLock(const WorldLock&) = delete;
  WorldLock& operator=(const WorldLock&) = delete;
};

/// The system takes back what dead processes had. With the lock.
void bury_dead();

void report_violation(const std::string& text);

/// The first line of every CUDA function: counts it, and says whether it is to fail.
/// @param context the function makes a context in real life
cudaError_t enter(const char* function, bool context = true);
/// Remembers it for cudaGetLastError().
cudaError_t fails(cudaError_t code);

/// The device of the world behind an ordinal of this process; -1 for none.
int visible_device(int ordinal);
int visible_count();
/// The calling thread's device, in the world.
int current_device();

}  // namespace passel::fake_cuda
