#include "passel/shm_cuda/device.h"

#include <cuda_runtime_api.h>

#include <cstring>

#include "passel/shm_cuda/cuda_error.h"

namespace passel::shm {

std::string to_string(const DeviceId& id) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text = "GPU-";
  for (std::size_t i = 0; i < id.bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += kDigits[id.bytes[i] >> 4];
    text += kDigits[id.bytes[i] & 15];
  }
  return text;
}

DeviceId device_id(int ordinal) {
  cudaDeviceProp properties{};
  check_cuda(cudaGetDeviceProperties(&properties, ordinal),
             "look at device " + std::to_string(ordinal));
  DeviceId id;
  static_assert(sizeof(properties.uuid) == sizeof(id.bytes));
  std::memcpy(id.bytes.data(), &properties.uuid, sizeof(id.bytes));
  return id;
}

std::optional<int> find_device(const DeviceId& id) {
  int count = 0;
  check_cuda(cudaGetDeviceCount(&count), "count the devices");
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    if (device_id(ordinal) == id) return ordinal;
  }
  return std::nullopt;
}

DeviceGuard::DeviceGuard(int ordinal) noexcept {
  int current = -1;
  if (cudaGetDevice(&current) != cudaSuccess || current == ordinal) return;
  if (cudaSetDevice(ordinal) == cudaSuccess) former_ = current;
}

DeviceGuard::~DeviceGuard() {
  if (former_ >= 0) cudaSetDevice(former_);
}

}  // namespace passel::shm
