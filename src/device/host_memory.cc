#include "passel/device/host_memory.h"

#include <algorithm>
#include <cstring>

namespace passel::device {

std::span<float> HostMemory::block(const std::string& name, std::size_t count) {
  return added_to_ != nullptr ? added_to_->construct_array<float>(name, count)
                              : arena_.get_array<float>(name);
}

std::span<float> HostMemory::share(const std::string& /*name*/, std::span<float> host) {
  return host;
}

std::span<float> HostMemory::scratch(std::size_t count) {
  return *scratch_.emplace_back(std::make_unique<std::vector<float>>(count));
}

void HostMemory::read(std::span<const float> block, std::span<float> host) const {
  std::ranges::copy(block, host.begin());
}

void HostMemory::write(std::span<const float> host, std::span<float> block) const {
  std::ranges::copy(host, block.begin());
}

void HostMemory::copy(const float* from, float* to, std::size_t n) const noexcept {
  std::memcpy(to, from, n * sizeof(float));
}

double HostMemory::squared_norm(std::span<const Part> parts) const noexcept {
  double square = 0;
  for (const Part& part : parts) square += kernels::squared_norm(part.values, part.count);
  return square;
}

void HostMemory::apply_update(const kernels::UpdateOptions& options,
                              const kernels::UpdateStep& step, const kernels::UpdateSource& from,
                              const float* gradient, float* parameters,
                              std::span<float* const> state, std::size_t n) const noexcept {
  kernels::apply_update(options, step, from, gradient, parameters, state, n);
}

void HostMemory::compensate_delay(float lambda, const float* gradient, const float* now,
                                  const float* then, float* out, std::size_t n) const noexcept {
  kernels::compensate_delay(lambda, gradient, now, then, out, n);
}

void HostMemory::add(float* sum, const float* next, std::size_t n) const noexcept {
  for (std::size_t i = 0; i < n; ++i) sum[i] += next[i];
}

void HostMemory::scale(float* values, float factor, std::size_t n) const noexcept {
  for (std::size_t i = 0; i < n; ++i) values[i] *= factor;
}

}  // namespace passel::device
