#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels_torch/lltm_arguments.h"
#include "lltm_ops.h"
#include "passel/kernels_torch/cuda.h"

// libpassel_cuda.so as the program loads it, on machines with and without a GPU.
namespace passel {
namespace {

using lltm_test::make_arguments;
using testing::HasSubstr;
using testing::ThrowsMessage;

detail::LltmForwardResult call_cuda_kernel(const lltm_test::Arguments& a) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("passel::lltm_forward", "")
                             .typed<detail::LltmForward>();
  return op.redispatch(c10::DispatchKeySet(c10::DispatchKey::CUDA), a.x, a.weight, a.bias, a.h0,
                       a.c0, 0);
}

TEST(LoadingCudaKernels, SaysWhereItLookedAndWhatToDo) {
  if (cuda_kernels_loaded()) GTEST_FAIL() << "the tests of this file run in one process each";
  EXPECT_THAT([] { load_cuda_kernels("/nowhere/libpassel_cuda.so"); },
              ThrowsMessage<std::runtime_error>(testing::AllOf(
                  HasSubstr("requirements/full.txt"), HasSubstr("/nowhere/libpassel_cuda.so"))));
  EXPECT_FALSE(cuda_kernels_loaded());
}

TEST(LoadingCudaKernels, NamesTheVariableThatChoseTheLibrary) {
  setenv("PASSEL_CUDA_LIBRARY", "/nowhere/libpassel_cuda.so", 1);
  EXPECT_THAT([] { load_cuda_kernels(); },
              ThrowsMessage<std::runtime_error>(
                  HasSubstr("got PASSEL_CUDA_LIBRARY=/nowhere/libpassel_cuda.so")));
  unsetenv("PASSEL_CUDA_LIBRARY");
}

TEST(LoadingCudaKernels, RegistersThemForCudaTensors) {
  load_cuda_kernels(PASSEL_CUDA_FILE);
  EXPECT_TRUE(cuda_kernels_loaded());
  load_cuda_kernels(PASSEL_CUDA_FILE);
  EXPECT_THAT([] { call_cuda_kernel(make_arguments(2, 3, 4, 5, torch::kFloat)); },
              ThrowsMessage<c10::ValueError>(HasSubstr("x on a CUDA device, got cpu")));
}

TEST(LoadingCudaKernels, LeavesTheCpuToItsOwnKernels) {
  load_cuda_kernels(PASSEL_CUDA_FILE);
  const auto a = make_arguments(4, 3, 2, 7, torch::kDouble);
  const auto got = lltm_test::fused(a), expected = lltm_test::composed(a);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_LT(lltm_test::relative_error(got[i], expected[i]), 1e-14);
  }
  EXPECT_THROW(detail::call_lltm_forward(a.x.to(torch::kHalf), a.weight, a.bias, a.h0, a.c0, 0),
               c10::TypeError);
}

TEST(LoadingCudaKernels, MakesNoContextAndAsksForNoGpu) {
  load_cuda_kernels(PASSEL_CUDA_FILE);
  using GetContext = int(void**);
  auto* driver = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
  if (driver == nullptr) SUCCEED() << "the driver is not even loaded";
  if (driver == nullptr) return;
  auto* get_context = reinterpret_cast<GetContext*>(dlsym(driver, "cuCtxGetCurrent"));
  ASSERT_NE(get_context, nullptr);
  void* context = nullptr;
  get_context(&context);
  EXPECT_EQ(context, nullptr);
}

}  // namespace
}  // namespace passel
