#include "passel/shm_torch/shared_parameters.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "passel/shm/error.h"

namespace passel::shm {
namespace {

std::vector<NamedTensor> two_parameters() {
  return {{"layer.weight", at::arange(21, at::kFloat).view({3, 7}).set_requires_grad(true)},
          {"layer.bias", at::ones({3}).set_requires_grad(true)}};
}

TEST(SharedParameters, HoldTheValuesTheyWereCreatedWith) {
  Arena arena = Arena::create("test", 1 << 20);
  const auto tensors = two_parameters();
  const auto sut = SharedParameters::create(arena, "model", tensors);
  EXPECT_TRUE(at::equal(sut.view(sut.values(), 0), tensors[0].second));
  EXPECT_TRUE(at::equal(sut.view(sut.values(), 1), tensors[1].second));
}

TEST(SharedParameters, BeginOn64ByteBorders) {
  Arena arena = Arena::create("test", 1 << 20);
  const auto sut = SharedParameters::create(arena, "model", two_parameters());
  for (const auto& span : sut.spans()) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(sut.values().data() + span.begin) % 64, 0U);
  }
}

TEST(SharedParameters, ThatAreBoundSeeEachOthersWrites) {
  Arena arena = Arena::create("test", 1 << 20);
  const auto parent = two_parameters(), worker = two_parameters();
  SharedParameters::create(arena, "model", parent).bind(parent);
  SharedParameters::open(arena, "model", worker).bind(worker);
  {
    const c10::NoGradGuard no_grad;
    parent[1].second.fill_(5);
  }
  EXPECT_TRUE(at::equal(worker[1].second, at::full({3}, 5.0F)));
  EXPECT_TRUE(worker[1].second.requires_grad());
}

TEST(SharedParameters, OfAnotherModelAreRefusedWithBothDescriptions) {
  Arena arena = Arena::create("test", 1 << 20);
  SharedParameters::create(arena, "model", two_parameters());
  auto other = two_parameters();
  other[1].second = at::ones({4});
  try {
    SharedParameters::open(arena, "model", other);
    FAIL() << "expected Error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("layer.bias [4]"), std::string::npos) << error.what();
  }
}

TEST(SharedParameters, ThatAreNotFp32AreRefused) {
  Arena arena = Arena::create("test", 1 << 20);
  const std::vector<NamedTensor> tensors = {{"weight", at::ones({2}, at::kDouble)}};
  EXPECT_THROW(SharedParameters::create(arena, "model", tensors), Error);
}

}  // namespace
}  // namespace passel::shm
