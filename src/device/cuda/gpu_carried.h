#pragma once

#include <optional>

#include "cuda_handles.h"
#include "passel/device/compute_device.h"

namespace passel::device {

/// What tickets of a stateful run begin and end with, between the host and a GPU, through pinned
/// memory. The copies are of `stream`, torch's of this thread: a ticket waits for nothing else.
class GpuCarried {
 public:
  GpuCarried(int ordinal, cudaStream_t stream) : ordinal_(ordinal), stream_(stream) {}

  /// As ComputeDevice's functions.
  Carried in(const Carried& host);
  Carried out(const Carried& left);

 private:
  struct Room {
    explicit Room(std::size_t floats) : in(floats), out(floats), device(floats * sizeof(float)) {}

    PinnedArray<float> in;
    PinnedArray<float> out;
    DeviceBytes device;
  };

  int ordinal_;
  cudaStream_t stream_;
  std::optional<Room> room_;  // for as many floats as came
  Carried leaving_;           // until they are copied
};

}  // namespace passel::device
