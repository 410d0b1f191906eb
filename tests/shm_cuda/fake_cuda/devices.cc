// Devices: which there are, which one is current.
#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>

#include "stream.h"
#include "world.h"

namespace passel::fake_cuda {
namespace {

thread_local int current_ordinal = 0;

/// The devices that CUDA_VISIBLE_DEVICES lets this process see, in its order.
std::vector<int> visible() {
  const int count = world().devices.load();
  std::vector<int> devices;
  const char* const list = std::getenv("CUDA_VISIBLE_DEVICES");
  if (list == nullptr) {
    for (int i = 0; i < count; ++i) devices.push_back(i);
    return devices;
  }
  std::istringstream in(list);
  for (std::string item; std::getline(in, item, ',');) {
    const int device = std::atoi(item.c_str());
    if (device < 0 || device >= count) break;  // as CUDA: the rest of the list does not count
    devices.push_back(device);
  }
  return devices;
}

}  // namespace

int visible_count() {
  return static_cast<int>(visible().size());
}

int visible_device(int ordinal) {
  const auto devices = visible();
  return ordinal >= 0 && ordinal < static_cast<int>(devices.size())
             ? devices[static_cast<std::size_t>(ordinal)]
             : -1;
}

int current_device() {
  return visible_device(current_ordinal);
}

}  // namespace passel::fake_cuda

using namespace passel::fake_cuda;

extern "C" {

cudaError_t cudaDriverGetVersion(int* version) {
  *version = world().driver.load();
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  if (const auto code = enter("cudaGetDeviceCount", false)) return code;
  *count = visible_count();
  return fails(*count == 0 ? cudaErrorNoDevice : cudaSuccess);
}

cudaError_t cudaGetDevice(int* device) {
  if (const auto code = enter("cudaGetDevice", false)) return code;
  *device = current_ordinal;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (const auto code = enter("cudaSetDevice")) return code;
  if (visible_device(device) < 0) return fails(cudaErrorInvalidDevice);
  current_ordinal = device;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (const auto code = enter("cudaGetDeviceProperties", false)) return code;
  const int found = visible_device(device);
  if (found < 0) return fails(cudaErrorInvalidDevice);
  *properties = {};
  std::strcpy(properties->name, "no GPU at all");
  std::memset(&properties->uuid, 0x40 + found, sizeof(properties->uuid));
  properties->integrated = world().integrated.load();
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (const auto code = enter("cudaDeviceGetAttribute", false)) return code;
  if (visible_device(device) < 0) return fails(cudaErrorInvalidDevice);
  if (attribute != cudaDevAttrIpcEventSupport) return fails(cudaErrorInvalidValue);
  *value = world().ipc_events.load();
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  if (const auto code = enter("cudaDeviceSynchronize")) return code;
  synchronize_device(current_device());
  return cudaSuccess;
}

}  // extern "C"
