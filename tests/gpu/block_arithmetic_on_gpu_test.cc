#include <bit>
#include <cfloat>
#include <memory>

#include "gpu/gpu.h"
#include "kernels_cuda/update_case.h"
#include "one_lane.h"
#include "passel/kernels_cuda/block_arithmetic.h"

// What is done to the flat block on a GPU, against the CPU's kernels.
namespace passel::kernels {
namespace {

constexpr std::size_t kCount = 100'003;

void check(cudaError_t error) {
  ASSERT_EQ(error, cudaSuccess) << cudaGetErrorString(error);
}

/// An array on the GPU.
template <class T>
class OnGpu {
 public:
  explicit OnGpu(const std::vector<T>& values) : count_(values.size()) {
    check(cudaMalloc(reinterpret_cast<void**>(&memory_), count_ * sizeof(T)));
    check(cudaMemcpy(memory_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;
  ~OnGpu() { cudaFree(memory_); }

  T* data() { return memory_; }
  std::vector<T> read() const {
    std::vector<T> values(count_);
    check(cudaMemcpy(values.data(), memory_, count_ * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  std::size_t count_;
  T* memory_ = nullptr;
};

void expect_same_bits(const std::vector<float>& got, const std::vector<float>& expected) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(got[i]) && std::isnan(expected[i])) continue;
    ASSERT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(expected[i]))
        << "element " << i << ": " << got[i] << " instead of " << expected[i];
  }
}

using BlockOnGpu = gpu_test::Gpu;

TEST_F(BlockOnGpu, UpdatesWithTheBitsOfTheCpu) {
  for (const UpdateOptions& options : all_update_options()) {
    SCOPED_TRACE(testing::Message() << "rule " << static_cast<int>(options.rule));
    UpdateCase work(options, kCount);
    OnGpu<float> parameters(work.parameters), gradient(work.gradient);
    std::vector<std::unique_ptr<OnGpu<float>>> state;
    std::vector<float*> into;
    for (const auto& block : work.state) {
      state.push_back(std::make_unique<OnGpu<float>>(block));
      into.push_back(state.back()->data());
    }
    const std::vector<const float*> from(into.begin(), into.end());
    check(apply_update(options, kUpdateStep, {parameters.data(), from}, gradient.data(),
                       parameters.data(), into, kCount, nullptr));
    apply_update(options, kUpdateStep, work.parameters.data(), work.gradient.data(),
                 pointers<float*>(work.state), kCount);
    expect_same_bits(parameters.read(), work.parameters);
    for (std::size_t s = 0; s < state.size(); ++s)
      expect_same_bits(state[s]->read(), work.state[s]);
  }
}

// The only differences are subnormal numbers, which atomic additions take for zeros.
TEST_F(BlockOnGpu, AddsUpdatesAsTheCpuDoes) {
  for (const UpdateOptions& options : all_update_options()) {
    SCOPED_TRACE(testing::Message() << "rule " << static_cast<int>(options.rule));
    UpdateCase work(options, kCount);
    OnGpu<float> parameters(work.parameters), gradient(work.gradient);
    std::vector<std::unique_ptr<OnGpu<float>>> state;
    std::vector<float*> into;
    for (const auto& block : work.state) {
      state.push_back(std::make_unique<OnGpu<float>>(block));
      into.push_back(state.back()->data());
    }
    check(add_update(options, kUpdateStep, gradient.data(), parameters.data(), into, kCount,
                     nullptr));
    const UpdateArrays arrays =
        update_arrays({work.parameters.data(), pointers<const float*>(work.state)},
                      work.parameters.data(), pointers<float*>(work.state));
    one_lane::with_rule(options.rule, [&](auto rule) {
      for (std::size_t i = 0; i < kCount; ++i) {
        one_lane::add_update<rule>(update_factors(options, kUpdateStep), options.momentum != 0,
                                   arrays, work.gradient.data(), i);
      }
    });
    std::vector<float> got = parameters.read();
    for (std::size_t i = 0; i < kCount; ++i) {
      if (std::abs(got[i] - work.parameters[i]) <= 2 * FLT_MIN) got[i] = work.parameters[i];
    }
    expect_same_bits(got, work.parameters);
    for (std::size_t s = 0; s < state.size(); ++s)
      expect_same_bits(state[s]->read(), work.state[s]);
  }
}

TEST_F(BlockOnGpu, LosesNoUpdateThatStreamsAddAtOnce) {
  constexpr int kStreams = 4;
  constexpr int kUpdates = 5000;
  const std::vector<float> zeros(kCount), minus_ones(kCount, -1.0F);
  OnGpu<float> parameters(zeros), gradient(minus_ones);
  std::vector<cudaStream_t> streams(kStreams);
  for (auto& stream : streams) check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (int update = 0; update < kUpdates; ++update) {
    for (const cudaStream_t stream : streams) {
      check(add_update({.rule = UpdateRule::kSgd}, {.lr = 1, .step = 1}, gradient.data(),
                       parameters.data(), {}, kCount, stream));
    }
  }
  for (const cudaStream_t stream : streams) check(cudaStreamSynchronize(stream));
  for (const cudaStream_t stream : streams) check(cudaStreamDestroy(stream));
  expect_same_bits(parameters.read(), std::vector<float>(kCount, kStreams * kUpdates));
}

TEST_F(BlockOnGpu, CompensatesADelayWithTheBitsOfTheCpu) {
  const UpdateCase values({.rule = UpdateRule::kAdam}, kCount);
  OnGpu<float> gradient(values.gradient), now(values.parameters), then(values.state[0]);
  std::vector<float> expected(kCount);
  compensate_delay(0.7F, values.gradient.data(), values.parameters.data(), values.state[0].data(),
                   expected.data(), kCount);
  check(compensate_delay(0.7F, gradient.data(), now.data(), then.data(), gradient.data(), kCount,
                         nullptr));
  expect_same_bits(gradient.read(), expected);
}

TEST_F(BlockOnGpu, AddsAndScalesWithTheBitsOfTheCpu) {
  const UpdateCase values({.rule = UpdateRule::kSgd}, kCount);
  OnGpu<float> sum(values.parameters), next(values.gradient);
  check(add_to(sum.data(), next.data(), kCount, nullptr));
  check(scale_by(sum.data(), 1.0F / 3, kCount, nullptr));
  std::vector<float> expected(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    expected[i] = values.parameters[i] + values.gradient[i];
    expected[i] *= 1.0F / 3;
  }
  expect_same_bits(sum.read(), expected);
}

TEST_F(BlockOnGpu, SumsSquaresAlwaysInTheSameOrder) {
  for (const std::size_t n : {std::size_t{1}, std::size_t{33}, kCount}) {
    std::vector<float> values(n);
    for (std::size_t i = 0; i < n; ++i) values[i] = std::sin(static_cast<float>(i));
    OnGpu<float> on_gpu(values);
    OnGpu<double> partial(std::vector<double>(kNormPartials, 0.0));
    std::vector<double> sums;
    for (int repeat = 0; repeat < 3; ++repeat) {
      OnGpu<double> total(std::vector<double>{0.5});
      check(add_squares(on_gpu.data(), n, partial.data(), total.data(), nullptr));
      sums.push_back(total.read()[0]);
    }
    EXPECT_EQ(sums[0], sums[1]);
    EXPECT_EQ(sums[0], sums[2]);
    const double expected = 0.5 + squared_norm(values.data(), n);
    EXPECT_NEAR(sums[0], expected, 1e-12 * expected);
  }
}

}  // namespace
}  // namespace passel::kernels
