#include "passel/kernels_torch/lltm_module.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <sstream>
#include <string>
#include <vector>

#include "passel/kernels_torch/lltm.h"

namespace passel {
namespace {

using nn::LLTM;
using nn::LLTMOptions;
using torch::Tensor;

Tensor output_of(LLTM& module, const Tensor& x) {
  return std::get<0>(module(x));
}

TEST(LltmModule, InitialisesWithinOneOverRootS) {
  const LLTM module(10, 64);
  EXPECT_EQ(module->weight.sizes(), torch::IntArrayRef({192, 74}));
  EXPECT_LE(module->weight.abs().max().item<float>(), 0.125F);
  EXPECT_GT(module->weight.abs().max().item<float>(), 0.12F);
}

TEST(LltmModule, NamesTheParametersOfItsLayers) {
  const LLTM module(LLTMOptions(3, 4).num_layers(3));
  EXPECT_EQ(
      module->named_parameters().keys(),
      (std::vector<std::string>{"weight", "bias", "weight_l1", "bias_l1", "weight_l2", "bias_l2"}));
  EXPECT_EQ(module->named_parameters()["weight_l2"].sizes(), torch::IntArrayRef({12, 8}));
}

TEST(LltmModule, StartsFromAZeroState) {
  LLTM module(4, 6);
  const Tensor x = torch::randn({3, 2, 4});
  const Tensor zero = torch::zeros({1, 2, 6});
  EXPECT_TRUE(torch::equal(output_of(module, x), std::get<0>(module(x, std::tuple(zero, zero)))));
}

TEST(LltmModule, IsAChainOfLayers) {
  LLTM module(LLTMOptions(4, 6).num_layers(2));
  const auto parameters = module->named_parameters();
  const Tensor x = torch::randn({5, 3, 4});
  const Tensor h0 = torch::randn({2, 3, 6}), c0 = torch::randn({2, 3, 6});
  const auto [hidden, state] = module(x, std::tuple(h0, c0));
  const auto& [h, c] = state;
  const auto [first, first_h, first_c] = lltm(x, module->weight, module->bias, h0[0], c0[0]);
  const auto [second, second_h, second_c] =
      lltm(first, parameters["weight_l1"], parameters["bias_l1"], h0[1], c0[1]);
  EXPECT_TRUE(torch::equal(hidden, second));
  EXPECT_TRUE(torch::equal(h, torch::stack({first_h, second_h})));
  EXPECT_TRUE(torch::equal(c, torch::stack({first_c, second_c})));
}

TEST(LltmModule, TakesTheBatchFirst) {
  LLTM module(LLTMOptions(4, 6).batch_first(true));
  LLTM time_first(4, 6);
  const torch::NoGradGuard no_grad;
  time_first->weight.copy_(module->weight);
  time_first->bias.copy_(module->bias);
  const Tensor x = torch::randn({5, 3, 4});
  EXPECT_TRUE(
      torch::equal(output_of(module, x.transpose(0, 1)).transpose(0, 1), output_of(time_first, x)));
}

TEST(LltmModule, EndsPaddedSequencesWhereTheyEnd) {
  LLTM module(LLTMOptions(4, 6).num_layers(2));
  const Tensor x = torch::randn({5, 2, 4});
  const auto [hidden, state] = module(x, std::nullopt, torch::tensor({2, 5}));
  const auto [alone, alone_state] = module(x.narrow(0, 0, 2).narrow(1, 0, 1));
  EXPECT_TRUE(torch::equal(hidden.narrow(0, 0, 2).narrow(1, 0, 1), alone));
  EXPECT_EQ(hidden.narrow(0, 2, 3).select(1, 0).abs().max().item<float>(), 0);
  EXPECT_TRUE(torch::equal(std::get<1>(state).narrow(1, 0, 1), std::get<1>(alone_state)));
}

TEST(LltmModule, DropsOutBetweenLayersInTrainingAlone) {
  LLTM module(LLTMOptions(4, 6).num_layers(2).dropout(0.5));
  const Tensor x = torch::randn({5, 3, 4});
  torch::manual_seed(1);
  const Tensor first = output_of(module, x);
  EXPECT_FALSE(torch::equal(output_of(module, x), first));
  torch::manual_seed(1);
  EXPECT_TRUE(torch::equal(output_of(module, x), first));
  module->eval();
  EXPECT_TRUE(torch::equal(output_of(module, x), output_of(module, x)));
}

TEST(LltmModule, ClonesWithItsOptionsAndValues) {
  const LLTM module(LLTMOptions(4, 6).num_layers(2));
  LLTM copy(std::dynamic_pointer_cast<nn::LLTMImpl>(module->clone()));
  LLTM original = module;
  const Tensor x = torch::randn({5, 3, 4});
  const Tensor before = output_of(original, x);
  EXPECT_TRUE(torch::equal(output_of(copy, x), before));
  const torch::NoGradGuard no_grad;
  copy->named_parameters()["weight_l1"].zero_();
  EXPECT_FALSE(torch::equal(output_of(copy, x), before)) << "the copy uses its own parameters";
  EXPECT_TRUE(torch::equal(output_of(original, x), before));
}

TEST(LltmModule, SaysWhatItIs) {
  std::ostringstream text;
  text << LLTM(LLTMOptions(4, 6).dropout(0.5));
  EXPECT_EQ(text.str(),
            "passel::nn::LLTM(input_size=4, hidden_size=6, num_layers=1, dropout=0.5, "
            "batch_first=false, keep_every=0)");
}

TEST(LltmModule, RefusesWhatDoesNotFit) {
  EXPECT_THROW(LLTM(0, 3), c10::ValueError);
  EXPECT_THROW(LLTM(LLTMOptions(3, 3).num_layers(0)), c10::ValueError);
  EXPECT_THROW(LLTM(LLTMOptions(3, 3).dropout(1.5)), c10::ValueError);
  LLTM module(4, 6);
  EXPECT_THROW(module(torch::zeros({3, 2, 5})), c10::ValueError);
  EXPECT_THROW(module(torch::zeros({3, 2, 4}), std::tuple(torch::zeros({2, 6}), Tensor())),
               c10::ValueError);
}

}  // namespace
}  // namespace passel
