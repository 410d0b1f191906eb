#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>

#include "passel/shm_cuda/cuda_error.h"
#include "passel/shm_cuda/pinned_memory.h"

namespace passel::device {

/// A stream of its own, on the device that was current when it was made.
class Stream {
 public:
  Stream() {
    shm::check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "make a stream");
  }
  // What is queued may still read memory that is let go of next, in an unwinding too.
  ~Stream() {
    cudaStreamSynchronize(stream_);
    cudaStreamDestroy(stream_);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// An event of this process.
class Event {
 public:
  /// @param flags of CUDA; cudaEventDefault tells the time
  explicit Event(unsigned flags = cudaEventDisableTiming) {
    shm::check_cuda(cudaEventCreateWithFlags(&event_, flags), "make an event");
  }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Memory of the device for this process alone.
class DeviceBytes {
 public:
  DeviceBytes() = default;
  explicit DeviceBytes(std::size_t bytes) : bytes_(bytes) {
    void* data = nullptr;
    shm::check_cuda(cudaMalloc(&data, bytes),
                    "allocate " + std::to_string(bytes) + " bytes on the device",
                    "Use fewer workers on it, a smaller --batch-size or --hidden-size");
    data_ = static_cast<std::byte*>(data);
  }
  DeviceBytes(DeviceBytes&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceBytes& operator=(DeviceBytes&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~DeviceBytes() {
    if (data_ != nullptr) cudaFree(data_);
  }

  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Memory of the host for this process alone, from and to which copies are asynchronous.
template <class T>
class PinnedArray {
 public:
  explicit PinnedArray(std::size_t count)
      : count_(count),
        bytes_((count * sizeof(T) + kPage - 1) / kPage * kPage),
        memory_(static_cast<T*>(::operator new (bytes_, std::align_val_t{kPage}))),
        pinned_(std::span(reinterpret_cast<std::byte*>(memory_.get()), bytes_)) {}

  T* data() const { return memory_.get(); }
  std::size_t size() const { return count_; }

 private:
  static constexpr std::size_t kPage = 4096;
  struct Free {
    void operator()(T* memory) const { ::operator delete (memory, std::align_val_t{kPage}); }
  };

  std::size_t count_;
  std::size_t bytes_;
  std::unique_ptr<T, Free> memory_;
  shm::PinnedMemory pinned_;  // unpinned before the memory goes
};

}  // namespace passel::device
