#include <gtest/gtest.h>

#include "kernels_torch/lltm_arguments.h"

namespace passel {
namespace {

using lltm_test::Arguments;
using lltm_test::loss_of;
using lltm_test::make_arguments;
using lltm_test::relative_error;
using torch::Tensor;

std::vector<Tensor> padded(const Arguments& a, const std::vector<std::int64_t>& lengths) {
  const auto [hidden, h, c] =
      lltm_padded(a.x, a.weight, a.bias, a.h0, a.c0, torch::tensor(lengths, torch::kLong));
  return {hidden, h, c};
}

// Each sequence alone, padded afterwards.
std::vector<Tensor> one_by_one(const Arguments& a, const std::vector<std::int64_t>& lengths) {
  std::vector<Tensor> hidden, h, c;
  for (std::size_t row = 0; row < lengths.size(); ++row) {
    const auto b = static_cast<std::int64_t>(row);
    const auto [states, h_last, c_last] =
        lltm(a.x.narrow(1, b, 1).narrow(0, 0, lengths[row]), a.weight, a.bias, a.h0.narrow(0, b, 1),
             a.c0.narrow(0, b, 1));
    hidden.push_back(torch::constant_pad_nd(states, {0, 0, 0, 0, 0, a.x.size(0) - lengths[row]}));
    h.push_back(h_last);
    c.push_back(c_last);
  }
  return {torch::cat(hidden, 1), torch::cat(h), torch::cat(c)};
}

const std::vector<std::vector<std::int64_t>> kLengths = {
    {5, 5, 5, 5}, {1, 2, 3, 4}, {4, 0, 4, 1}, {0, 0, 0, 0}, {3, 5, 0, 5}};

TEST(LltmPadded, GivesEachSequenceTheBitsItHasAlone) {
  for (const auto& lengths : kLengths) {
    const auto a = make_arguments(5, 4, 3, 6, torch::kFloat);
    const auto got = padded(a, lengths), expected = one_by_one(a, lengths);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(torch::equal(got[i], expected[i]));
  }
}

TEST(LltmPadded, HasTheGradientsOfTheSequencesAlone) {
  for (const auto& lengths : kLengths) {
    const auto a = make_arguments(5, 4, 3, 6, torch::kDouble);
    const auto got =
        torch::autograd::grad({loss_of(padded(a, lengths), {true, true, true})}, a.all());
    const auto expected =
        torch::autograd::grad({loss_of(one_by_one(a, lengths), {true, true, true})}, a.all());
    for (std::size_t i = 0; i < 5; ++i) EXPECT_LT(relative_error(got[i], expected[i]), 1e-13);
  }
}

TEST(LltmPadded, HandlesBatchesAndSequencesOfLengthZero) {
  EXPECT_EQ(padded(make_arguments(3, 0, 2, 4, torch::kFloat), {})[0].sizes(),
            torch::IntArrayRef({3, 0, 4}));
  const auto a = make_arguments(0, 2, 2, 4, torch::kFloat);
  const auto outputs = padded(a, {0, 0});
  EXPECT_EQ(outputs[0].sizes(), torch::IntArrayRef({0, 2, 4}));
  EXPECT_TRUE(torch::equal(outputs[2], a.c0));
}

TEST(LltmPadded, RefusesLengthsThatDoNotFit) {
  const auto a = make_arguments(5, 2, 3, 6, torch::kFloat);
  EXPECT_THROW(padded(a, {5}), c10::ValueError);
  EXPECT_THROW(padded(a, {5, 6}), c10::ValueError);
  EXPECT_THROW(padded(a, {-1, 5}), c10::ValueError);
  EXPECT_THROW(lltm_padded(a.x, a.weight, a.bias, a.h0, a.c0, torch::ones({2})), c10::TypeError);
}

}  // namespace
}  // namespace passel
