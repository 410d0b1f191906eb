#include <ATen/Context.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include <sstream>

#include "graph_recording.h"
#include "lltm_steps-inl.h"

// The operators for tensors on a GPU. Their schemas, and all of them for other
// devices, are in lltm_library.cc of the library that the program or Python loads.
namespace passel::detail {
namespace {

using at::Tensor;

/// Queues work on the current stream of the current device.
class CudaDevice {
 public:
  // ATen's product is cuBLAS's with the precision that torch is set to.
  void multiply(Tensor out, const Tensor& a, const Tensor& b) const {
    if (out.scalar_type() == a.scalar_type()) {
      at::mm_out(out, a, b);
    } else {
      at::mm_out(out, a, b, out.scalar_type());
    }
  }

  template <class Arrays>
  void compute(const Arrays& arrays) const {
    C10_CUDA_CHECK(kernels::lltm_pointwise(arrays, stream_));
  }

 private:
  cudaStream_t stream_ = c10::cuda::getCurrentCUDAStream();
};

void expect_on_gpu(const Tensor& x) {
  TORCH_CHECK_VALUE(x.is_cuda(), "lltm expected x on a CUDA device, got ", x.device());
}

/// What a recording is made for: all that decides which kernels run on which shapes.
std::string key_of(const char* name, const TensorList& inputs, const LltmMask& mask,
                   std::int64_t keep_every) {
  std::ostringstream key;
  key << name << ' ' << inputs[0].device() << " keep " << keep_every;
  for (const Tensor& input : inputs) {
    if (input.defined()) {
      key << ' ' << input.scalar_type() << input.sizes();
    } else {
      key << " none";
    }
  }
  for (const bool wanted : mask) key << (wanted ? " +" : " -");
  const at::Context& context = at::globalContext();
  key << ' '
      << static_cast<int>(context.float32Precision(at::Float32Backend::CUDA, at::Float32Op::MATMUL))
      << static_cast<int>(context.allowFP16ReductionCuBLAS())
      << static_cast<int>(context.allowBF16ReductionCuBLAS())
      << static_cast<int>(at::globalContext().blasPreferredBackend());
  return key.str();
}

TensorList run(const char* name, const TensorList& inputs, const LltmMask& mask,
               std::int64_t keep_every, const Computation& compute) {
  if (!graphs_wanted() || stream_is_captured()) return compute(inputs);
  static auto& cache = *new ReplayCache<GraphRecording>;  // CUDA may end before it would
  return cache.run(key_of(name, inputs, mask, keep_every), inputs, compute);
}

LltmForwardResult lltm_forward_cuda(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                    const Tensor& h0, const Tensor& c0, std::int64_t keep_every) {
  expect_on_gpu(x);
  check_lltm_forward(x, weight, bias, h0, c0, keep_every);
  const c10::cuda::CUDAGuard device(x.device());
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const auto compute = [keep_every](const TensorList& in) -> TensorList {
    const auto [hidden, h_last, c_last, cells, gates, packed] =
        lltm_forward_in_steps(CudaDevice(), in[0], in[1], in[2], in[3], in[4], keep_every);
    return {hidden, h_last, c_last, cells, gates, packed};
  };
  const TensorList r = run("forward", {x, weight, bias, h0, c0}, {}, keep_every, compute);
  return {r[0], r[1], r[2], r[3], r[4], r[5]};
}

LltmGrads lltm_backward_cuda(const Tensor& x, const Tensor& weight, const Tensor& bias,
                             const Tensor& h0, const Tensor& c0, const Tensor& hidden,
                             const Tensor& cells, const Tensor& gates, const Tensor& packed,
                             const std::optional<Tensor>& grad_hidden,
                             const std::optional<Tensor>& grad_h_last,
                             const std::optional<Tensor>& grad_c_last, LltmMask mask,
                             std::int64_t keep_every) {
  expect_on_gpu(x);
  check_lltm_forward(x, weight, bias, h0, c0, keep_every);
  check_lltm_backward(x, h0, hidden, cells, gates, packed, grad_hidden, grad_h_last, grad_c_last,
                      keep_every);
  const c10::cuda::CUDAGuard device(x.device());
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const TensorList inputs = {x,
                             h0,
                             keep_every == 0 ? Tensor() : c0,
                             hidden,
                             cells,
                             gates,
                             packed,
                             grad_hidden.value_or(Tensor()),
                             grad_h_last.value_or(Tensor()),
                             grad_c_last.value_or(Tensor())};
  const auto compute = [mask, keep_every](const TensorList& in) -> TensorList {
    const auto [by_x, by_weight, by_bias, by_h0, by_c0] =
        lltm_backward_in_steps(CudaDevice(), in[0], in[1], in[2], in[3], in[4], in[5], in[6], in[7],
                               in[8], in[9], mask, keep_every);
    return {by_x, by_weight, by_bias, by_h0, by_c0};
  };
  const TensorList r = run("backward", inputs, mask, keep_every, compute);
  return {r[0], r[1], r[2], r[3], r[4]};
}

}  // namespace

TORCH_LIBRARY_IMPL(passel, CUDA, library) {
  library.impl("lltm_forward", lltm_forward_cuda);
  library.impl("lltm_backward", lltm_backward_cuda);
}

}  // namespace passel::detail
