#include "stream.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <vector>

#include "fake_cuda.h"
#include "world.h"

namespace passel::fake_cuda {
namespace {

/// Of this process. Never destroyed: threads outlive static destructors.
struct Streams {
  std::mutex mutex;
  std::vector<Stream*> made;
  std::array<Stream*, kDevices> defaults{};
};

Streams& streams() {
  static auto* const all = new Streams;
  return *all;
}

}  // namespace

Stream::Stream(int device) : state_(std::make_shared<State>()) {
  state_->device = device;
  std::thread([state = state_] { run(state); }).detach();
}

void Stream::run(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  for (;;) {
    state->changed.wait(lock, [&] { return !state->work.empty() || state->retired; });
    if (state->work.empty()) return;
    {
      const auto work = std::move(state->work.front());
      state->work.pop_front();
      lock.unlock();
      work();
    }
    lock.lock();
    ++state->done;
    state->changed.notify_all();
  }
}

void Stream::push(std::function<void()> work) {
  const std::lock_guard lock(state_->mutex);
  state_->work.push_back(std::move(work));
  ++state_->pushed;
  state_->changed.notify_all();
}

void Stream::synchronize() {
  std::unique_lock lock(state_->mutex);
  const std::uint64_t target = state_->pushed;
  state_->changed.wait(lock, [&] { return state_->done >= target; });
}

void Stream::retire() {
  const std::lock_guard lock(state_->mutex);
  state_->retired = true;
  state_->changed.notify_all();
}

Stream* find_stream(cudaStream_t handle) {
  Streams& all = streams();
  const std::lock_guard lock(all.mutex);
  if (handle == nullptr) {
    const int device = current_device();
    if (device < 0) return nullptr;
    Stream*& stream = all.defaults[static_cast<std::size_t>(device)];
    if (stream == nullptr) stream = new Stream(device);
    return stream;
  }
  auto* const stream = reinterpret_cast<Stream*>(handle);
  return std::ranges::find(all.made, stream) == all.made.end() ? nullptr : stream;
}

void synchronize_device(int device) {
  std::vector<Stream*> found;
  {
    const std::lock_guard lock(streams().mutex);
    found = streams().made;
    for (Stream* const stream : streams().defaults) found.push_back(stream);
  }
  for (Stream* const stream : found) {
    if (stream != nullptr && stream->device() == device) stream->synchronize();
  }
}

void launch(cudaStream_t handle, std::function<void()> kernel) {
  Stream* const stream = find_stream(handle);
  stream->push(std::move(kernel));
  const char* const blocking = std::getenv("CUDA_LAUNCH_BLOCKING");
  if (blocking != nullptr && std::string_view(blocking) == "1") stream->synchronize();
}

void fill(cudaStream_t stream, void* data, std::uint64_t count, std::uint64_t value,
          std::chrono::microseconds delay) {
  launch(stream, [=] {
    std::mutex mutex;
    std::condition_variable never;
    std::unique_lock lock(mutex);
    if (delay.count() > 0) never.wait_for(lock, delay, [] { return false; });
    std::fill_n(static_cast<std::uint64_t*>(data), count, value);
  });
}

}  // namespace passel::fake_cuda

using namespace passel::fake_cuda;

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* handle, unsigned /*flags*/) {
  if (const auto code = enter("cudaStreamCreateWithFlags")) return code;
  auto* const stream = new Stream(current_device());
  const std::lock_guard lock(streams().mutex);
  streams().made.push_back(stream);
  *handle = reinterpret_cast<cudaStream_t>(stream);
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  if (const auto code = enter("cudaStreamDestroy")) return code;
  Stream* const stream = find_stream(handle);
  if (stream == nullptr || handle == nullptr) return fails(cudaErrorInvalidResourceHandle);
  stream->retire();
  const std::lock_guard lock(streams().mutex);
  std::erase(streams().made, stream);
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  if (const auto code = enter("cudaStreamSynchronize")) return code;
  Stream* const stream = find_stream(handle);
  if (stream == nullptr) return fails(cudaErrorInvalidResourceHandle);
  stream->synchronize();
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* data) {
  if (const auto code = enter("cudaLaunchHostFunc")) return code;
  Stream* const stream = find_stream(handle);
  if (stream == nullptr) return fails(cudaErrorInvalidResourceHandle);
  stream->push([=] { function(data); });
  return cudaSuccess;
}

}  // extern "C"
