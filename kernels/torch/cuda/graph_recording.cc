#include "graph_recording.h"

#include <c10/core/Event.h>
#include <c10/cuda/CUDAGuard.h>

#include <cstdlib>
#include <string_view>

namespace passel::detail {
namespace {

/// What the graphs of a device share. Never freed: at the end of the process CUDA may
/// be gone before static objects are. Guarded by the mutex of the one ReplayCache.
struct DeviceGraphs {
  c10::cuda::CUDAStream stream;
  at::cuda::MempoolId_t pool;
  c10::Event last_use{c10::DeviceType::CUDA};
};

c10::cuda::CUDAStream make_stream(c10::DeviceIndex device) {
  // Not one of torch's pool, which others may use: cuBLAS keeps a workspace a stream.
  cudaStream_t stream = nullptr;
  C10_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return c10::cuda::getStreamFromExternal(stream, device);
}

DeviceGraphs& current_device_graphs() {
  static auto& graphs = *new std::map<c10::DeviceIndex, DeviceGraphs>;
  const c10::DeviceIndex device = c10::cuda::current_device();
  const auto found = graphs.find(device);
  if (found != graphs.end()) return found->second;
  return graphs
      .emplace(device,
               DeviceGraphs{.stream = make_stream(device), .pool = at::cuda::graph_pool_handle()})
      .first->second;
}

}  // namespace

GraphRecording::~GraphRecording() {
  // The graph may still be running. An error shows at the next call of CUDA.
  C10_CUDA_IGNORE_ERROR(cudaDeviceSynchronize());
}

TensorList GraphRecording::record(const Computation& compute, const TensorList& inputs) {
  const DeviceGraphs& shared = current_device_graphs();
  const c10::cuda::CUDAStreamGuard guard(shared.stream);
  graph_.capture_begin(shared.pool, cudaStreamCaptureModeThreadLocal);
  TensorList outputs;
  try {
    outputs = compute(inputs);
  } catch (...) {
    try {
      graph_.capture_end();
    } catch (const std::exception&) {
      C10_CUDA_CLEAR_ERROR();  // the first exception says more
    }
    throw;
  }
  graph_.capture_end();
  return outputs;
}

void GraphRecording::wait_for_last_use() {
  current_device_graphs().last_use.block(c10::cuda::getCurrentCUDAStream());
}

void GraphRecording::used() {
  current_device_graphs().last_use.record(c10::cuda::getCurrentCUDAStream());
}

bool graphs_wanted() {
  static const bool wanted = [] {
    const char* value = std::getenv("PASSEL_CUDA_GRAPHS");
    const std::string_view text = value == nullptr ? "0" : value;
    TORCH_CHECK_VALUE(text == "0" || text == "1", "PASSEL_CUDA_GRAPHS expected 0 or 1, got ", text);
    return text == "1";
  }();
  return wanted;
}

bool stream_is_captured() {
  return c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None;
}

}  // namespace passel::detail
