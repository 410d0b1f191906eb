#pragma once

#include <array>
#include <cstdint>

#include "cuda_handles.h"
#include "passel/device/compute_device.h"

namespace passel::device {

/// The inputs of two tickets on a GPU: one that is computed, and the next, which is copied
/// meanwhile on a stream of its own. For one thread, whose device is current.
class GpuInputs {
 public:
  /// @param stream where they are used. What was queued there for a ticket is over when the inputs
  ///   of the next but one come.
  GpuInputs(int ordinal, cudaStream_t stream) : ordinal_(ordinal), stream_(stream) {}

  /// Starts to copy.
  void prefetch(std::int64_t ticket, const Inputs& host);
  /// The tensors on the device; lets the stream wait for their copies.
  Inputs load(std::int64_t ticket, const Inputs& host);

 private:
  struct Place {
    std::int64_t ticket = -1;
    DeviceBytes memory;
    Event copied;
    Inputs tensors;
  };

  Place& other() { return places_[1 - current_]; }
  void fill(Place& place, std::int64_t ticket, const Inputs& host);
  at::Tensor copy(const at::Tensor& host, Place& place, std::size_t& offset);

  int ordinal_;
  cudaStream_t stream_;
  std::array<Place, 2> places_;
  std::size_t current_ = 0;
  Stream copies_;  // behind the places: it ends first, and its copies with it
};

}  // namespace passel::device
