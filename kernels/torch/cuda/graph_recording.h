#pragma once

#include <ATen/cuda/CUDAGraph.h>

#include "replay_cache.h"

namespace passel::detail {

/// A CUDA graph of what a computation queues on the current stream of the current
/// device, for ReplayCache. All graphs of a device share one pool of memory and
/// cuBLAS's workspace, so each replay waits on the GPU for the one before it, on
/// whatever stream that was.
///
/// The thread that records must have run the same computation before, so that its
/// cuBLAS handle exists: a handle cannot be made while a stream is captured.
class GraphRecording {
 public:
  GraphRecording() = default;
  GraphRecording(const GraphRecording&) = delete;
  GraphRecording& operator=(const GraphRecording&) = delete;
  ~GraphRecording();

  TensorList record(const Computation& compute, const TensorList& inputs);
  void replay() { graph_.replay(); }
  void wait_for_last_use();
  void used();

 private:
  at::cuda::CUDAGraph graph_;
};

/// Whether PASSEL_CUDA_GRAPHS asks for graphs: 1 for yes; 0, the default, for no.
bool graphs_wanted();

/// Whether somebody else captures the current stream, which must then see plain launches.
bool stream_is_captured();

}  // namespace passel::detail
