#include "gpu_memory.h"

#include "passel/kernels_cuda/block_arithmetic.h"
#include "passel/shm_cuda/cuda_error.h"

namespace passel::device {
namespace {

using shm::check_cuda;

constexpr const char* kMemory = "gpus.memory";
constexpr const char* kAtomicAdds = "gpus.atomic_adds";
constexpr std::uint64_t kAlign = 256;

std::string note_of(const std::string& block) {
  return "gpus.block." + block;
}

shm::DeviceArena open_memory(const shm::Arena& arena, std::uint32_t process) {
  try {
    return shm::DeviceArena::open(arena, kMemory, process);
  } catch (const shm::CudaError& error) {
    throw shm::CudaError("share the memory of the GPU with the parent", error.cuda_code(),
                         "Where processes are hidden from each other, start with --no-cuda-ipc");
  }
}

}  // namespace

GpuMemory::GpuMemory(const shm::Arena& arena, shm::DeviceArena memory, bool atomic_adds,
                     cudaStream_t stream, std::optional<Parent> parent)
    : arena_(arena),
      memory_(std::move(memory)),
      atomic_adds_(atomic_adds),
      stream_(stream),
      parent_(parent),
      norm_((kernels::kNormPartials + 1) * sizeof(double)),
      norm_read_(1) {
  if (parent_) stream_ = own_stream_.emplace().get();
}

std::shared_ptr<GpuMemory> GpuMemory::create(shm::Arena& arena, const GpuLayout& layout) {
  const int ordinal = layout.ordinals[0];
  check_cuda(cudaSetDevice(ordinal), "use device " + std::to_string(ordinal));
  *arena.construct<bool>(kAtomicAdds) = layout.atomic_adds;
  return std::shared_ptr<GpuMemory>(
      new GpuMemory(arena, shm::DeviceArena::create(arena, kMemory, ordinal, layout.block_bytes),
                    layout.atomic_adds, nullptr, Parent{&arena, layout.workers}));
}

std::shared_ptr<GpuMemory> GpuMemory::open(const shm::Arena& arena, std::uint32_t slot,
                                           cudaStream_t stream) {
  return std::shared_ptr<GpuMemory>(new GpuMemory(arena, open_memory(arena, slot + 1),
                                                  *arena.get<bool>(kAtomicAdds), stream, {}));
}

// What cannot be closed any more goes with the process.
GpuMemory::~GpuMemory() {
  try {
    check_cuda(cudaStreamSynchronize(stream_), "wait for the device");
    if (parent_) {
      for (std::uint32_t slot = 0; slot < parent_->workers; ++slot) forget(slot);
    }
    memory_.close();
  } catch (const shm::Error&) {
  }
}

std::span<float> GpuMemory::block(const std::string& name, std::size_t count) {
  const std::uint64_t bytes = count * sizeof(float);
  std::uint64_t offset = used_;
  if (parent_) {
    *parent_->arena->construct<std::uint64_t>(note_of(name)) = offset;
    used_ += (bytes + kAlign - 1) / kAlign * kAlign;
  } else {
    offset = *arena_.get<std::uint64_t>(note_of(name));
  }
  std::byte* const data = memory_.at(offset, bytes);
  if (data == nullptr) {
    throw shm::Error("lay out block '" + name + "' on the device", 0,
                     "Its " + std::to_string(bytes) + " bytes from " + std::to_string(offset) +
                         " on do not lie in the " + std::to_string(memory_.size()) +
                         " that were allocated");
  }
  if (parent_) {
    check_cuda(cudaMemsetAsync(data, 0, bytes, stream_), "clear memory of the device");
    check_cuda(cudaStreamSynchronize(stream_), "wait for the device");
  }
  return {reinterpret_cast<float*>(data), count};
}

std::span<float> GpuMemory::share(const std::string& name, std::span<float> host) {
  const std::span<float> shared = block(name, host.size());
  if (parent_) write(host, shared);
  return shared;
}

std::span<float> GpuMemory::scratch(std::size_t count) {
  const DeviceBytes& bytes = scratch_.emplace_back(count * sizeof(float));
  return {reinterpret_cast<float*>(bytes.data()), count};
}

void GpuMemory::read(std::span<const float> block, std::span<float> host) const {
  check_cuda(cudaMemcpyAsync(host.data(), block.data(), block.size_bytes(), cudaMemcpyDeviceToHost,
                             stream_),
             "read memory of the device");
  check_cuda(cudaStreamSynchronize(stream_), "wait for the device");
}

void GpuMemory::write(std::span<const float> host, std::span<float> block) const {
  check_cuda(cudaMemcpyAsync(block.data(), host.data(), host.size_bytes(), cudaMemcpyHostToDevice,
                             stream_),
             "write memory of the device");
  check_cuda(cudaStreamSynchronize(stream_), "wait for the device");
}

void GpuMemory::copy(const float* from, float* to, std::size_t n) const noexcept {
  check_cuda(cudaMemcpyAsync(to, from, n * sizeof(float), cudaMemcpyDeviceToDevice, stream_),
             "copy on the device");
}

double GpuMemory::squared_norm(std::span<const Part> parts) const noexcept {
  auto* const partial = reinterpret_cast<double*>(norm_.data());
  double* const total = partial + kernels::kNormPartials;
  check_cuda(cudaMemsetAsync(total, 0, sizeof(double), stream_), "clear memory of the device");
  for (const Part& part : parts) {
    check_cuda(kernels::add_squares(part.values, part.count, partial, total, stream_),
               "add squares on the device");
  }
  check_cuda(
      cudaMemcpyAsync(norm_read_.data(), total, sizeof(double), cudaMemcpyDeviceToHost, stream_),
      "read a norm");
  finish();
  return *norm_read_.data();
}

void GpuMemory::apply_update(const kernels::UpdateOptions& options, const kernels::UpdateStep& step,
                             const kernels::UpdateSource& from, const float* gradient,
                             float* parameters, std::span<float* const> state,
                             std::size_t n) const noexcept {
  check_cuda(
      atomic_adds_
          ? kernels::add_update(options, step, gradient, parameters, state, n, stream_)
          : kernels::apply_update(options, step, from, gradient, parameters, state, n, stream_),
      "update parameters on the device");
}

void GpuMemory::compensate_delay(float lambda, const float* gradient, const float* now,
                                 const float* then, float* out, std::size_t n) const noexcept {
  check_cuda(kernels::compensate_delay(lambda, gradient, now, then, out, n, stream_),
             "compensate on the device");
}

void GpuMemory::add(float* sum, const float* next, std::size_t n) const noexcept {
  check_cuda(kernels::add_to(sum, next, n, stream_), "add on the device");
}

void GpuMemory::scale(float* values, float factor, std::size_t n) const noexcept {
  check_cuda(kernels::scale_by(values, factor, n, stream_), "scale on the device");
}

void GpuMemory::finish() const noexcept {
  check_cuda(cudaStreamSynchronize(stream_), "wait for the device");
}

}  // namespace passel::device
