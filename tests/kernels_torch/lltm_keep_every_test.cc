// Memory for time: what backward computes again has the bits of what forward did not keep.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels_torch/lltm_arguments.h"
#include "passel/kernels_torch/lltm_module.h"

namespace passel {
namespace {

using lltm_test::Arguments;
using lltm_test::loss_of;
using lltm_test::make_arguments;
using torch::Tensor;

constexpr std::int64_t kEvery[] = {1, 2, 3, 7, 1000};
const std::vector<bool> kAll = {true, true, true};

std::vector<Tensor> run(const Arguments& a, std::int64_t keep_every) {
  const auto [hidden, h, c] = lltm(a.x, a.weight, a.bias, a.h0, a.c0, keep_every);
  return {hidden, h, c};
}

// Outputs, then gradients.
std::vector<Tensor> trained(const Arguments& a, std::int64_t keep_every) {
  std::vector<Tensor> all = run(a, keep_every);
  const auto grads = torch::autograd::grad({loss_of(all, kAll)}, a.all());
  all.insert(all.end(), grads.begin(), grads.end());
  return all;
}

Arguments of_type(const Arguments& a, torch::Dtype type) {
  const auto leaf = [type](const Tensor& tensor) {
    return tensor.detach().to(type).set_requires_grad(true);
  };
  return {leaf(a.x), leaf(a.weight), leaf(a.bias), leaf(a.h0), leaf(a.c0)};
}

TEST(LltmKeepEvery, ChangesNoBitOfOutputsAndGradients) {
  for (const auto type : {torch::kFloat, torch::kDouble, torch::kHalf, torch::kBFloat16}) {
    for (const std::int64_t steps : {0, 1, 6, 7}) {
      const auto a = of_type(make_arguments(steps, 3, 4, 17, torch::kFloat), type);
      const auto expected = trained(a, 0);
      for (const std::int64_t every : kEvery) {
        const auto got = trained(a, every);
        for (std::size_t i = 0; i < expected.size(); ++i) {
          EXPECT_TRUE(torch::equal(got[i], expected[i])) << i << ", every " << every;
        }
      }
    }
  }
}

TEST(LltmKeepEvery, ComputesAgainWithTheWeightsThatForwardRead) {
  const auto a = make_arguments(5, 3, 6, 8, torch::kDouble);
  const auto expected = torch::autograd::grad({loss_of(run(a, 0), kAll)}, a.all());
  const auto outputs = run(a, 2);
  // What another process does to shared parameters: no version counter sees it.
  std::fill_n(a.weight.data_ptr<double>(), a.weight.numel(), 1e9);
  std::fill_n(a.bias.data_ptr<double>(), a.bias.numel(), 1e9);
  const auto got = torch::autograd::grad({loss_of(outputs, kAll)}, a.all());
  for (std::size_t i = 0; i < 5; ++i) EXPECT_TRUE(torch::equal(got[i], expected[i]));
}

TEST(LltmKeepEvery, HoldsForPaddedSequencesAndForTheModule) {
  const auto a = make_arguments(5, 3, 4, 6, torch::kFloat);
  const Tensor lengths = torch::tensor({2, 5, 0});
  const auto grads_of_padded = [&](std::int64_t every) {
    const auto [hidden, h, c] = lltm_padded(a.x, a.weight, a.bias, a.h0, a.c0, lengths, every);
    return torch::autograd::grad({loss_of({hidden, h, c}, kAll)}, {a.x, a.weight});
  };
  const auto grads_of_module = [&](std::int64_t every) {
    torch::manual_seed(4);
    nn::LLTM module(nn::LLTMOptions(4, 6).num_layers(2).keep_every(every));
    const auto [output, state] = module->forward(a.x);
    return torch::autograd::grad({output.square().sum()}, module->parameters());
  };
  for (const auto& grads : {std::pair{grads_of_padded(0), grads_of_padded(2)},
                            {grads_of_module(0), grads_of_module(2)}}) {
    for (std::size_t i = 0; i < grads.first.size(); ++i) {
      EXPECT_TRUE(torch::equal(grads.first[i], grads.second[i])) << i;
    }
  }
}

TEST(LltmKeepEvery, MayNotBeNegative) {
  const auto a = make_arguments(2, 2, 2, 3, torch::kFloat);
  EXPECT_THAT([&] { run(a, -1); }, ::testing::ThrowsMessage<c10::ValueError>(
                                       ::testing::HasSubstr("keep_every of 0 or more, got -1")));
  EXPECT_THROW(nn::LLTM(nn::LLTMOptions(3, 3).keep_every(-1)), c10::ValueError);
}

}  // namespace
}  // namespace passel
