#include <ATen/Context.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gmock/gmock.h>

#include "gpu/gpu.h"
#include "kernels_torch/lltm_arguments.h"
#include "passel/kernels_torch/cuda.h"

// The operators on a GPU against the composed cell in double on the CPU. Run with
// PASSEL_CUDA_GRAPHS=0 and 1: each comparison runs three times, the third of which
// then is a replay.
namespace passel {
namespace {

using lltm_test::Arguments;
using lltm_test::make_arguments;
using lltm_test::relative_error;
using torch::Tensor;

constexpr int kRuns = 3;

class LltmOnGpu : public gpu_test::Gpu {};
class LltmOnTwoGpus : public gpu_test::TwoGpus {};

const c10::Device kFirst(torch::kCUDA, 0);

Arguments moved(const Arguments& a, c10::Device device, torch::Dtype type) {
  const auto leaf = [&](const Tensor& tensor) {
    return tensor.detach().to(device, type).set_requires_grad(true);
  };
  return {leaf(a.x), leaf(a.weight), leaf(a.bias), leaf(a.h0), leaf(a.c0)};
}

/// Outputs, then gradients by all arguments of a loss that weighs each output.
template <class Cell>
std::vector<Tensor> run(const Cell& cell, const Arguments& a) {
  std::vector<Tensor> outputs = cell(a), results;
  std::vector<Tensor> weights;
  for (const Tensor& out : outputs) {
    const Tensor w = torch::arange(1, out.numel() + 1, torch::kDouble).view(out.sizes()).cos();
    weights.push_back(w.to(out.device(), out.scalar_type()));
  }
  const auto grads = torch::autograd::grad(outputs, a.all(), weights, {}, false, true);
  for (const Tensor& out : outputs) results.push_back(out.detach());
  for (const Tensor& grad : grads) results.push_back(grad);
  return results;
}

void expect_close(const std::vector<Tensor>& got, const std::vector<Tensor>& expected,
                  double tolerance) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const Tensor reference = expected[i].defined() ? expected[i] : torch::zeros_like(got[i].cpu());
    EXPECT_LT(relative_error(got[i].cpu(), reference.cpu()), tolerance) << "result " << i;
  }
}

void compare(std::int64_t steps, std::int64_t batch, std::int64_t input, std::int64_t state,
             torch::Dtype type, double tolerance) {
  SCOPED_TRACE(testing::Message() << type << " T " << steps << " B " << batch << " I " << input
                                  << " S " << state);
  const auto rounded =
      moved(make_arguments(steps, batch, input, state, torch::kDouble), torch::kCPU, type);
  const auto expected = run(lltm_test::composed, moved(rounded, torch::kCPU, torch::kDouble));
  const auto on_gpu = moved(rounded, kFirst, type);
  for (int i = 0; i < kRuns; ++i) expect_close(run(lltm_test::fused, on_gpu), expected, tolerance);
}

struct Precision {
  torch::Dtype type;
  double tolerance;
};

// Ordinary torch multiplies matrices of Float in full precision.
constexpr Precision kPrecisions[] = {
    {torch::kDouble, 1e-12}, {torch::kFloat, 2e-5}, {torch::kHalf, 1e-2}, {torch::kBFloat16, 6e-2}};

TEST_F(LltmOnGpu, HasItsOwnKernels) {
  EXPECT_TRUE(cuda_kernels_loaded());
}

TEST_F(LltmOnGpu, EqualsTheComposedCellOfTheCpuInAllTypes) {
  for (const auto& [type, tolerance] : kPrecisions) compare(28, 16, 28, 128, type, tolerance);
}

TEST_F(LltmOnGpu, EqualsTheComposedCellForOddSizes) {
  for (const auto& [type, tolerance] : kPrecisions) {
    for (const std::int64_t steps : {1, 2, 9}) {
      for (const std::int64_t batch : {1, 7, 17}) {
        for (const std::int64_t state : {1, 5, 33})
          compare(steps, batch, 3, state, type, tolerance);
      }
    }
    compare(3, 2, 0, 8, type, tolerance);
  }
}

TEST_F(LltmOnGpu, EqualsTheComposedCellForLargeSizes) {
  compare(8, 64, 128, 512, torch::kFloat, 2e-5);
  compare(4, 64, 1024, 1024, torch::kFloat, 2e-5);
  compare(1, 70'000, 1, 4, torch::kFloat, 1e-4);
}

TEST_F(LltmOnGpu, HandlesSequencesAndBatchesOfLengthZero) {
  for (const auto& [steps, batch, state] :
       {std::tuple<std::int64_t, std::int64_t, std::int64_t>{0, 3, 5}, {4, 0, 5}, {4, 3, 0}}) {
    const auto a =
        moved(make_arguments(steps, batch, 2, state, torch::kFloat), kFirst, torch::kFloat);
    const auto results = run(lltm_test::fused, a);
    EXPECT_EQ(results[0].sizes(), torch::IntArrayRef({steps, batch, state}));
    EXPECT_TRUE(steps != 0 || torch::equal(results[1], a.h0.detach()));
    EXPECT_EQ(results[4].abs().sum().item<double>(), 0);  // by the weight
  }
}

TEST_F(LltmOnGpu, GivesTheSameBitsWhenRunAgain) {
  const auto a = moved(make_arguments(9, 16, 28, 128, torch::kFloat), kFirst, torch::kFloat);
  const auto first = run(lltm_test::fused, a);
  for (int i = 0; i < kRuns; ++i) {
    const auto again = run(lltm_test::fused, a);
    for (std::size_t r = 0; r < first.size(); ++r) EXPECT_TRUE(torch::equal(first[r], again[r]));
  }
}

TEST_F(LltmOnGpu, ReadsItsArgumentsAnewEachTime) {
  const auto base = make_arguments(5, 4, 6, 32, torch::kFloat);
  const auto a = moved(base, kFirst, torch::kFloat);
  for (int i = 0; i < 2 * kRuns; ++i) {
    const torch::NoGradGuard no_grad;
    a.x.mul_(0.9);
    a.weight.add_(0.01);
    const torch::AutoGradMode grad(true);
    const auto expected = run(lltm_test::composed, moved(a, torch::kCPU, torch::kDouble));
    expect_close(run(lltm_test::fused, a), expected, 2e-5);
  }
}

TEST_F(LltmOnGpu, UsesTheWeightsAsTheyWereWhenItRan) {
  const auto a = moved(make_arguments(4, 3, 6, 8, torch::kDouble), kFirst, torch::kDouble);
  const auto expected = run(lltm_test::fused, a);
  for (int i = 0; i < kRuns; ++i) {
    const auto outputs = lltm_test::fused(a);
    const Tensor kept = a.weight.detach().clone();
    a.weight.data().fill_(1e9);
    std::vector<Tensor> weights;
    for (const Tensor& out : outputs) {
      const Tensor w = torch::arange(1, out.numel() + 1, torch::kDouble).view(out.sizes()).cos();
      weights.push_back(w.to(out.device()));
    }
    const auto got = torch::autograd::grad(outputs, a.all(), weights);
    a.weight.data().copy_(kept);
    for (std::size_t g = 0; g < 5; ++g) EXPECT_TRUE(torch::equal(got[g], expected[g + 3]));
  }
}

TEST_F(LltmOnGpu, WorksOnTheStreamThatIsCurrent) {
  const auto base = make_arguments(20, 16, 28, 128, torch::kFloat);
  const auto expected = run(lltm_test::composed, moved(base, torch::kCPU, torch::kDouble));
  const c10::impl::VirtualGuardImpl impl(torch::kCUDA);
  for (int i = 0; i < 2 * kRuns; ++i) {
    const c10::StreamGuard guard(impl.getStreamFromGlobalPool(kFirst));
    // Written late on this stream: work on another one would not see it.
    const Tensor busy = torch::rand({2048, 2048}, kFirst);
    Tensor delayed = busy;
    for (int k = 0; k < 10; ++k) delayed = torch::mm(delayed, busy) * 1e-3;
    const auto a = moved(base, kFirst, torch::kFloat);
    a.x.data().add_((delayed.flatten().slice(0, 0, 1) * 0).squeeze());
    expect_close(run(lltm_test::fused, a), expected, 2e-5);
  }
}

TEST_F(LltmOnGpu, RefusesTensorsOnOtherDevices) {
  auto a = moved(make_arguments(2, 3, 4, 5, torch::kFloat), kFirst, torch::kFloat);
  a.bias = a.bias.detach().cpu();
  EXPECT_THAT(
      [&] { lltm_test::fused(a); },
      testing::ThrowsMessage<c10::ValueError>(testing::HasSubstr("bias on cuda:0 as x, got cpu")));
}

TEST_F(LltmOnGpu, ObeysThePrecisionThatTorchIsSetTo) {
  const auto base = make_arguments(9, 16, 64, 256, torch::kFloat);
  const auto expected = run(lltm_test::composed, moved(base, torch::kCPU, torch::kDouble));
  const auto a = moved(base, kFirst, torch::kFloat);
  const auto error = [&] { return relative_error(run(lltm_test::fused, a)[0].cpu(), expected[0]); };
  for (int i = 0; i < kRuns; ++i) EXPECT_LT(error(), 2e-6);
  at::globalContext().setAllowTF32CuBLAS(true);
  for (int i = 0; i < kRuns; ++i) {
    EXPECT_LT(error(), 3e-3);
    EXPECT_TRUE(!gpu_test::has_tf32() || error() > 5e-6);
  }
  at::globalContext().setAllowTF32CuBLAS(false);
  for (int i = 0; i < kRuns; ++i) EXPECT_LT(error(), 2e-6);
}

TEST_F(LltmOnTwoGpus, WorksOnTheDeviceOfItsArguments) {
  const auto base = make_arguments(9, 4, 28, 64, torch::kFloat);
  const auto expected = run(lltm_test::composed, moved(base, torch::kCPU, torch::kDouble));
  for (int i = 0; i < kRuns; ++i) {
    const auto a = moved(base, c10::Device(torch::kCUDA, 1), torch::kFloat);
    expect_close(run(lltm_test::fused, a), expected, 2e-5);
  }
}

}  // namespace
}  // namespace passel
