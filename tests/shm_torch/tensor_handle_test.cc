#include "passel/shm_torch/tensor_handle.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "passel/shm/error.h"

namespace passel::shm {
namespace {

class TensorHandleTest : public testing::Test {
 protected:
  // A tensor of the arena with the values of `source`.
  at::Tensor in_arena(const at::Tensor& source) {
    const Block block =
        arena_.add("tensor" + std::to_string(count_++), std::max<std::size_t>(source.nbytes(), 64));
    at::Tensor tensor =
        at::from_blob(arena_.data() + block.offset, source.sizes(), source.options());
    tensor.copy_(source);
    return tensor;
  }

  at::Tensor round_trip(const at::Tensor& tensor) {
    const auto result = to_tensor(arena_, to_handle(arena_, tensor));
    EXPECT_TRUE(result.has_value());
    return result.value_or(at::Tensor());
  }

  Arena arena_ = Arena::create("test", 16 << 20);
  int count_ = 0;
};

TEST_F(TensorHandleTest, GivesTheSameTensorWithoutACopy) {
  const at::Tensor sent = in_arena(at::arange(24, at::kFloat).view({2, 3, 4}));
  const at::Tensor got = round_trip(sent);
  EXPECT_TRUE(at::equal(got, sent));
  EXPECT_EQ(got.const_data_ptr(), sent.const_data_ptr());
}

TEST_F(TensorHandleTest, KeepsViewsAsViews) {
  const at::Tensor base = in_arena(at::arange(24, at::kFloat).view({4, 6}));
  for (const at::Tensor& view : {base.t(), base.slice(1, 1, 6, 2), base[2], base.unsqueeze(0),
                                 base.select(1, 3), base[1][2].expand({3, 5})}) {
    const at::Tensor got = round_trip(view);
    EXPECT_TRUE(at::equal(got, view));
    EXPECT_EQ(got.strides(), view.strides());
    EXPECT_EQ(got.const_data_ptr(), view.const_data_ptr());
  }
}

TEST_F(TensorHandleTest, CarriesEveryPlainType) {
  for (const auto dtype :
       {at::kBool, at::kByte, at::kChar, at::kShort, at::kInt, at::kLong, at::kHalf, at::kBFloat16,
        at::kFloat, at::kDouble, at::kComplexFloat, at::kComplexDouble}) {
    const at::Tensor sent = in_arena(at::ones({3, 2}, dtype));
    const at::Tensor got = round_trip(sent);
    EXPECT_EQ(got.scalar_type(), dtype);
    EXPECT_TRUE(at::equal(got, sent));
  }
}

TEST_F(TensorHandleTest, CarriesScalarsAndEmptyTensors) {
  EXPECT_TRUE(at::equal(round_trip(in_arena(at::scalar_tensor(7))), at::scalar_tensor(7)));
  EXPECT_EQ(round_trip(at::empty({0, 3})).sizes(), at::IntArrayRef({0, 3}));
}

TEST_F(TensorHandleTest, KeepsRequiresGradOfLeaves) {
  const at::Tensor leaf = in_arena(at::ones({3})).set_requires_grad(true);
  const at::Tensor got = round_trip(leaf);
  EXPECT_TRUE(got.requires_grad());
  EXPECT_TRUE(got.is_leaf());
}

TEST_F(TensorHandleTest, IsRefusedForWhatCannotBeShared) {
  const at::Tensor leaf = in_arena(at::ones({3})).set_requires_grad(true);
  EXPECT_THROW(to_handle(arena_, leaf * 2), Error) << "a non-leaf that requires grad";
  EXPECT_THROW(to_handle(arena_, at::ones({3})), Error) << "not in the arena";
  EXPECT_THROW(to_handle(arena_, at::Tensor()), Error) << "undefined";
  EXPECT_THROW(to_handle(arena_, in_arena(at::ones({1, 1, 1, 1, 1, 1, 1, 1, 1}))), Error)
      << "nine dimensions";
  EXPECT_THROW(to_handle(arena_, at::ones({2, 2}).to_sparse()), Error) << "sparse";
}

TEST_F(TensorHandleTest, ThatReachesOutOfTheArenaIsNoTensor) {
  const TensorHandle good = to_handle(arena_, in_arena(at::ones({4, 4})));
  const auto broken = [&](auto damage) {
    TensorHandle handle = good;
    damage(handle);
    return !to_tensor(arena_, handle).has_value();
  };
  EXPECT_TRUE(broken([&](TensorHandle& h) { h.offset = arena_.size() - 4; }));
  EXPECT_TRUE(broken([](TensorHandle& h) { h.offset = ~0ULL; }));
  EXPECT_TRUE(broken([](TensorHandle& h) { h.offset += 1; })) << "misaligned";
  EXPECT_TRUE(broken([](TensorHandle& h) { h.sizes[0] = INT64_MAX; }));
  EXPECT_TRUE(broken([](TensorHandle& h) { h.sizes[1] = -1; }));
  EXPECT_TRUE(broken([](TensorHandle& h) { h.strides[0] = INT64_MAX / 2; }));
  EXPECT_TRUE(broken([](TensorHandle& h) { h.strides[0] = -4; }));
  EXPECT_TRUE(broken([](TensorHandle& h) { h.rank = 9; }));
  EXPECT_TRUE(broken([](TensorHandle& h) { h.dtype = 99; }));
  EXPECT_TRUE(broken([](TensorHandle& h) { h.dtype = -1; }));
}

// Whatever bytes a worker scribbles into a ring: no tensor, or one whose every
// element can be read.
TEST_F(TensorHandleTest, OfRandomBytesNeverReachesOutOfTheArena) {
  std::mt19937_64 random(7);
  const TensorHandle good = to_handle(arena_, in_arena(at::ones({4, 4})));
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    TensorHandle handle = good;
    auto* bytes = reinterpret_cast<unsigned char*>(&handle);
    const auto flips = 1 + random() % 4;
    for (std::size_t f = 0; f < flips; ++f) bytes[random() % sizeof handle] = random() & 0xFF;
    if (handle.requires_grad > 1) handle.requires_grad = 1;
    const auto tensor = to_tensor(arena_, handle);
    if (!tensor || tensor->numel() == 0) continue;
    ++accepted;
    std::uint64_t last = 0;
    for (int d = 0; d < handle.rank; ++d) {
      last += static_cast<std::uint64_t>((handle.sizes[d] - 1) * handle.strides[d]);
    }
    ASSERT_LE(handle.offset + (last + 1) * tensor->element_size(), arena_.size());
  }
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace passel::shm
