#include <algorithm>

#include "lltm_math.h"
#include "passel/kernels_cuda/lltm_pointwise.h"

namespace passel::kernels {
namespace {

constexpr std::int64_t kThreads = 256;
// Enough blocks to fill any GPU; the loop over the grid does the rest.
constexpr std::int64_t kMaxBlocks = 4096;

__device__ std::int64_t first_element() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

__device__ std::int64_t grid_stride() {
  return static_cast<std::int64_t>(gridDim.x) * blockDim.x;
}

template <typename T>
__global__ void forward_kernel(LltmPointwiseForward<T> a) {
  const std::int64_t count = a.batch * a.state;
  for (std::int64_t i = first_element(); i < count; i += grid_stride()) {
    const std::int64_t gate = i / a.state * 3 * a.state + i % a.state;
    const LltmUnit<T> unit = lltm_unit(a.gates_in[gate], a.gates_in[gate + a.state],
                                       a.gates_in[gate + 2 * a.state], a.cell_in[i]);
    a.gates[gate] = unit.input;
    a.gates[gate + a.state] = unit.output;
    a.gates[gate + 2 * a.state] = unit.candidate;
    a.cell[i] = unit.cell;
    a.hidden[i] = unit.hidden;
  }
}

template <typename T>
__global__ void backward_kernel(LltmPointwiseBackward<T> a) {
  const std::int64_t count = a.batch * a.state;
  for (std::int64_t i = first_element(); i < count; i += grid_stride()) {
    const std::int64_t gate = i / a.state * 3 * a.state + i % a.state;
    const T grad_hidden = a.grad_hidden == nullptr ? T{0} : a.grad_hidden[i];
    const T grad_cell = a.grad_cell_in == nullptr ? T{0} : a.grad_cell_in[i];
    const LltmUnitGrad<T> grad =
        lltm_unit_grad(a.gates[gate], a.gates[gate + a.state], a.gates[gate + 2 * a.state],
                       a.cell[i], grad_hidden, grad_cell);
    a.grad_gates[gate] = grad.input;
    a.grad_gates[gate + a.state] = grad.output;
    a.grad_gates[gate + 2 * a.state] = grad.candidate;
    a.grad_cell[i] = grad.cell;
  }
}

template <typename Arrays>
cudaError_t launch(void (*kernel)(Arrays), const Arrays& arrays, cudaStream_t stream) {
  const std::int64_t count = arrays.batch * arrays.state;
  if (count == 0) return cudaSuccess;
  const std::int64_t blocks = std::min(kMaxBlocks, (count + kThreads - 1) / kThreads);
  kernel<<<static_cast<unsigned>(blocks), static_cast<unsigned>(kThreads), 0, stream>>>(arrays);
  return cudaGetLastError();
}

}  // namespace

cudaError_t lltm_pointwise_forward(const LltmPointwiseForward<float>& arrays,
                                   cudaStream_t stream) noexcept {
  return launch(forward_kernel<float>, arrays, stream);
}

cudaError_t lltm_pointwise_forward(const LltmPointwiseForward<double>& arrays,
                                   cudaStream_t stream) noexcept {
  return launch(forward_kernel<double>, arrays, stream);
}

cudaError_t lltm_pointwise_backward(const LltmPointwiseBackward<float>& arrays,
                                    cudaStream_t stream) noexcept {
  return launch(backward_kernel<float>, arrays, stream);
}

cudaError_t lltm_pointwise_backward(const LltmPointwiseBackward<double>& arrays,
                                    cudaStream_t stream) noexcept {
  return launch(backward_kernel<double>, arrays, stream);
}

}  // namespace passel::kernels
