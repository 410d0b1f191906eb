#pragma once

#include <driver_types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

/// A CUDA runtime without a GPU: the C functions that shm/cuda calls, with CUDA's rules about
/// sharing between processes enforced. Memory of a device is a memory file, a stream a thread, an
/// event two words that all processes see. The process that calls it first shares devices, driver
/// and books with all that it spawns. Here is what a test does besides calling CUDA.
namespace passel::fake_cuda {

/// As if nobody had set anything: two devices, a driver, no failures. Counts of violations go to 0.
void reset();

void set_devices(int count);
void set_driver(int version);          ///< 0: none is installed
void set_ipc_events(bool supported);   ///< cudaDevAttrIpcEventSupport
void set_integrated(bool integrated);  ///< as on Tegra
/// Every call of this function fails from now on, in all processes, until reset().
void fail(const std::string& function, cudaError_t code);
/// The same, but not in the process that says it.
void fail_elsewhere(const std::string& function, cudaError_t code);
/// cudaStreamWaitEvent does nothing from now on: what a program without it would see.
void ignore_waits(bool ignore);

/// What all living processes have, on all devices.
struct Totals {
  std::uint64_t device_bytes = 0;
  std::uint32_t allocations = 0;
  std::uint32_t open_memory = 0;  ///< handles of memory opened in other processes
  std::uint32_t events = 0;
  std::uint32_t open_events = 0;  ///< handles of events opened in other processes
  std::uint32_t contexts = 0;     ///< processes that use a device
  bool operator==(const Totals&) const = default;
};
Totals totals();
std::uint64_t calls();   ///< of CUDA functions, by all processes so far
std::uint32_t pinned();  ///< ranges that this process has registered

/// Broken rules that CUDA itself would not report: so far, and the first ones in words.
std::uint32_t violations();
std::string violation_text();

/// A kernel: runs on the stream's thread when all before it is done. With CUDA_LAUNCH_BLOCKING=1 in
/// the environment the call returns when it is done.
void launch(cudaStream_t stream, std::function<void()> kernel);
/// A slow kernel that writes `value` into `count` words at its very end.
void fill(cudaStream_t stream, void* data, std::uint64_t count, std::uint64_t value,
          std::chrono::microseconds delay = std::chrono::microseconds(0));

}  // namespace passel::fake_cuda
