#include "passel/train/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "checkpoint/file_bytes.h"
#include "data/expect_error.h"
#include "data/temporary_folder.h"
#include "passel/train/errors.h"

namespace passel::train {
namespace {

using passel::testing::bytes_of;
using passel::testing::expect_error;
using passel::testing::read_text;
using ::testing::ElementsAre;

std::vector<std::byte> copy(std::span<const std::byte> bytes) {
  return {bytes.begin(), bytes.end()};
}

class Safetensors : public ::testing::Test {
 protected:
  std::filesystem::path path() const { return folder_ / "file.safetensors"; }

  passel::testing::TemporaryFolder folder_;
};

TEST_F(Safetensors, ReturnWhatWasWritten) {
  const std::vector<float> weights{1.5F,   -0.0F,          std::numeric_limits<float>::infinity(),
                                   1e-45F, std::nanf("7"), 3};
  const std::vector<std::int64_t> steps{-1, std::numeric_limits<std::int64_t>::max()};
  const std::vector<double> scalar{0.1};
  const std::vector<std::uint8_t> odd{1, 2, 3};
  const Metadata metadata{{"kind", "test"}, {"text", "\"quoted\"\n\xc3\xa4 \\ {}"}, {"", ""}};
  write_safetensors(path(),
                    std::vector<TensorView>{{"odd", DType::kU8, {3}, bytes_of(odd)},
                                            {"net.weight", DType::kF32, {2, 3}, bytes_of(weights)},
                                            {"empty", DType::kF16, {0, 7}, {}},
                                            {"step", DType::kI64, {2}, bytes_of(steps)},
                                            {"scalar", DType::kF64, {}, bytes_of(scalar)}},
                    metadata);

  const SafetensorsFile file = SafetensorsFile::open(path());
  EXPECT_TRUE(file.has_checksums());
  EXPECT_EQ(file.metadata(), metadata);
  ASSERT_EQ(file.tensors().size(), 5U);
  const TensorView& weight = file.at("net.weight");
  EXPECT_EQ(weight.dtype, DType::kF32);
  EXPECT_THAT(weight.shape, ElementsAre(2, 3));
  EXPECT_EQ(copy(weight.bytes), copy(bytes_of(weights)));
  EXPECT_EQ(copy(file.at("step").bytes), copy(bytes_of(steps)));
  EXPECT_TRUE(file.at("scalar").shape.empty());
  EXPECT_EQ(copy(file.at("scalar").bytes), copy(bytes_of(scalar)));
  EXPECT_EQ(copy(file.at("odd").bytes), copy(bytes_of(odd)));
  EXPECT_THAT(file.at("empty").shape, ElementsAre(0, 7));
}

TEST_F(Safetensors, KeepEachTensorAlignedToItsElements) {
  const std::vector<std::uint8_t> bytes(64);
  std::vector<TensorView> tensors;
  for (int type = 0; type <= static_cast<int>(DType::kF64); ++type) {
    const auto dtype = static_cast<DType>(type);
    tensors.push_back(
        {std::string(dtype_name(dtype)), dtype, {3}, bytes_of(bytes).first(3 * dtype_size(dtype))});
  }
  write_safetensors(path(), tensors);
  const SafetensorsFile file = SafetensorsFile::open(path());
  ASSERT_EQ(file.tensors().size(), tensors.size());
  for (const TensorView& tensor : file.tensors()) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.bytes.data()) % dtype_size(tensor.dtype), 0U);
  }
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(file.tensors()[0].bytes.data()) % 64, 0U);
}

// Read here from the published description of the format, not with the reader under test.
TEST_F(Safetensors, HaveTheLayoutOfTheFormat) {
  const std::vector<float> values{1, 2};
  write_safetensors(path(), std::vector<TensorView>{{"w", DType::kF32, {1, 2}, bytes_of(values)}},
                    {{"who", "me"}});
  const std::string file = read_text(path());
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), 8);
  ASSERT_EQ(file.size(), 8 + length + 8);
  EXPECT_EQ((8 + length) % 64, 0U);
  EXPECT_EQ(file[8], '{');
  const auto header = nlohmann::json::parse(file.substr(8, length));
  EXPECT_EQ(header["w"]["dtype"], "F32");
  EXPECT_EQ(header["w"]["shape"], nlohmann::json({1, 2}));
  EXPECT_EQ(header["w"]["data_offsets"], nlohmann::json({0, 8}));
  EXPECT_EQ(header["__metadata__"]["who"], "me");
  EXPECT_EQ(std::memcmp(file.data() + 8 + length, bytes_of(values).data(), 8), 0);
}

TEST_F(Safetensors, MayHoldNothing) {
  write_safetensors(path(), {});
  EXPECT_TRUE(SafetensorsFile::open(path()).tensors().empty());
}

TEST_F(Safetensors, ListTheirTensorsWhereOneIsMissing) {
  const std::vector<float> value{1};
  write_safetensors(path(), std::vector<TensorView>{{"a", DType::kF32, {1}, bytes_of(value)},
                                                    {"b", DType::kF32, {}, bytes_of(value)}});
  const SafetensorsFile file = SafetensorsFile::open(path());
  EXPECT_EQ(file.find("c"), nullptr);
  expect_error<DataError>([&] { file.at("c"); }, {path().string(), "\"c\"", "a, b"});
}

TEST_F(Safetensors, KeepTheirBytesWhenMoved) {
  const std::vector<float> value{42};
  write_safetensors(path(), std::vector<TensorView>{{"a", DType::kF32, {1}, bytes_of(value)}});
  SafetensorsFile file = SafetensorsFile::open(path());
  const SafetensorsFile moved = std::move(file);
  EXPECT_EQ(copy(moved.at("a").bytes), copy(bytes_of(value)));
}

TEST_F(Safetensors, AreNotWrittenFromWhatDoesNotFit) {
  const std::vector<float> value{1};
  const auto write = [&](const std::vector<TensorView>& tensors, const Metadata& metadata) {
    expect_error<UsageError>([&] { write_safetensors(path(), tensors, metadata); }, {});
  };
  const TensorView fits{"a", DType::kF32, {1}, bytes_of(value)};
  write({fits, fits}, {});
  write({{"__metadata__", DType::kF32, {1}, bytes_of(value)}}, {});
  write({{"a", DType::kF32, {2}, bytes_of(value)}}, {});
  write({{"a", DType::kF32, {-1}, bytes_of(value)}}, {});
  write({{"a", DType::kF32, {1LL << 62, 4}, bytes_of(value)}}, {});
  write({{"\xff", DType::kF32, {1}, bytes_of(value)}}, {});
  write({fits}, {{"key", "\xc3"}});
  write({fits}, {{"passel.checksum.header", "0"}});
  EXPECT_FALSE(std::filesystem::exists(path()));
}

}  // namespace
}  // namespace passel::train
