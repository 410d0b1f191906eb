#include <cuda_runtime_api.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "gpu/gpu.h"
#include "kernels_cuda/host_grid.h"

// The pointwise kernels against the same bodies on the CPU, on plain CUDA memory:
// what compute-sanitizer sees are arrays of their exact sizes.
namespace passel::kernels {
namespace {

void check(cudaError_t error) {
  ASSERT_EQ(error, cudaSuccess) << cudaGetErrorString(error);
}

/// An array on both sides, `misaligned` elements off its allocation's start.
template <typename T>
class Mirrored {
 public:
  Mirrored(std::int64_t count, std::int64_t misaligned)
      : host_(static_cast<std::size_t>(count)), misaligned_(misaligned) {
    check(cudaMalloc(reinterpret_cast<void**>(&memory_),
                     (host_.size() + static_cast<std::size_t>(misaligned)) * sizeof(T)));
  }
  Mirrored(std::int64_t count, std::mt19937& random, std::int64_t misaligned = 0)
      : Mirrored(count, misaligned) {
    std::normal_distribution<float> normal;
    for (T& element : host_) {
      if constexpr (sizeof(T) == 2) {
        element = from_float<T>(normal(random));
      } else {
        element = normal(random);
      }
    }
    check(cudaMemcpy(device(), host(), bytes(), cudaMemcpyHostToDevice));
  }
  Mirrored(const Mirrored&) = delete;
  Mirrored& operator=(const Mirrored&) = delete;
  ~Mirrored() { cudaFree(memory_); }

  T* host() { return host_.data(); }
  T* device() { return memory_ + misaligned_; }

  /// Largest difference between the two sides, relative to 1 and above.
  double difference() {
    std::vector<T> got(host_.size());
    check(cudaMemcpy(got.data(), device(), bytes(), cudaMemcpyDeviceToHost));
    double largest = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double a = to_float(got[i]), b = to_float(host_[i]);
      const double error = std::abs(a - b) / std::max(1.0, std::abs(b));
      largest = std::isnan(error) ? INFINITY : std::max(largest, error);
    }
    return largest;
  }

 private:
  std::size_t bytes() const { return host_.size() * sizeof(T); }

  std::vector<T> host_;
  std::int64_t misaligned_;
  T* memory_ = nullptr;
};

template <typename T>
constexpr double tolerance() {
  if (std::is_same_v<T, double>) return 1e-14;
  if (std::is_same_v<T, float>) return 2e-6;
  return std::is_same_v<T, Float16> ? 1e-3 : 8e-3;
}

template <typename T>
void compare_forward(std::int64_t batch, std::int64_t state, std::int64_t misaligned) {
  using Sum = typename SumOf<T>::type;
  SCOPED_TRACE(testing::Message() << "B " << batch << ", S " << state << ", off " << misaligned);
  std::mt19937 random(7);
  const std::int64_t count = batch * state;
  Mirrored<Sum> from_x(3 * count, random), from_h(3 * count, random, misaligned);
  Mirrored<Sum> cell_in(count, random), gates(3 * count, 0), cell(count, 0);
  Mirrored<T> bias(3 * state, random), hidden(count, 0);
  const auto arrays = [&](auto side) {
    return LltmPointwiseForward<T>{.batch = batch,
                                   .state = state,
                                   .from_x = side(from_x),
                                   .from_h = side(from_h),
                                   .bias = side(bias),
                                   .cell_in = side(cell_in),
                                   .gates = side(gates),
                                   .cell = side(cell),
                                   .hidden = side(hidden)};
  };
  run_planned(arrays([](auto& array) { return array.host(); }));
  check(lltm_pointwise(arrays([](auto& array) { return array.device(); }), nullptr));
  check(cudaDeviceSynchronize());
  EXPECT_LT(gates.difference(), tolerance<Sum>());
  EXPECT_LT(cell.difference(), tolerance<Sum>());
  EXPECT_LT(hidden.difference(), tolerance<T>());
}

template <typename T>
void compare_backward(std::int64_t batch, std::int64_t state, std::int64_t misaligned, bool first) {
  using Sum = typename SumOf<T>::type;
  SCOPED_TRACE(testing::Message() << "B " << batch << ", S " << state << ", off " << misaligned);
  std::mt19937 random(8);
  const std::int64_t count = batch * state;
  Mirrored<Sum> gates(3 * count, random), cell(count, random), carried(count, random);
  Mirrored<Sum> by_c(count, random), grad_cell(count, 0);
  Mirrored<T> by_loss(count, random, misaligned), by_gates(3 * count, 0);
  const auto arrays = [&](auto side) {
    return LltmPointwiseBackward<T>{.batch = batch,
                                    .state = state,
                                    .gates = side(gates),
                                    .cell = side(cell),
                                    .grad_hidden = side(by_loss),
                                    .grad_hidden_in = first ? nullptr : side(carried),
                                    .grad_cell_in = first ? nullptr : side(by_c),
                                    .grad_gates = side(by_gates),
                                    .grad_cell = side(grad_cell)};
  };
  run_planned(arrays([](auto& array) { return array.host(); }));
  check(lltm_pointwise(arrays([](auto& array) { return array.device(); }), nullptr));
  check(cudaDeviceSynchronize());
  EXPECT_LT(by_gates.difference(), 2 * tolerance<T>());
  EXPECT_LT(grad_cell.difference(), 2 * tolerance<Sum>());
}

template <class Type>
class PointwiseOnGpu : public gpu_test::Gpu {};

using Elements = testing::Types<float, double, Bfloat16, Float16>;
TYPED_TEST_SUITE(PointwiseOnGpu, Elements);

TYPED_TEST(PointwiseOnGpu, ForwardEqualsTheCpuForAllTails) {
  for (const std::int64_t batch : {1, 3, 17}) {
    for (std::int64_t state = 1; state <= 33; ++state) {
      compare_forward<TypeParam>(batch, state, 0);
    }
  }
}

TYPED_TEST(PointwiseOnGpu, BackwardEqualsTheCpuForAllTails) {
  for (const std::int64_t batch : {1, 3, 17}) {
    for (std::int64_t state = 1; state <= 33; ++state) {
      compare_backward<TypeParam>(batch, state, 0, state % 2 == 0);
    }
  }
}

TYPED_TEST(PointwiseOnGpu, TakesArraysThatAreNotAlignedForVectors) {
  compare_forward<TypeParam>(16, 128, 1);
  compare_backward<TypeParam>(16, 128, 1, false);
}

TYPED_TEST(PointwiseOnGpu, TakesMoreRowsThanAGridHasBlocks) {
  compare_forward<TypeParam>(70'001, 3, 0);
  compare_forward<TypeParam>(70'001, 16, 0);
  compare_backward<TypeParam>(70'001, 3, 0, false);
  compare_backward<TypeParam>(70'001, 16, 0, false);
}

TYPED_TEST(PointwiseOnGpu, LaunchesNothingForNothing) {
  check(lltm_pointwise(LltmPointwiseForward<TypeParam>{.batch = 0, .state = 128}, nullptr));
  check(lltm_pointwise(LltmPointwiseBackward<TypeParam>{.batch = 16, .state = 0}, nullptr));
  check(cudaDeviceSynchronize());
}

}  // namespace
}  // namespace passel::kernels
