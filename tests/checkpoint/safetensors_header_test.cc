#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "checkpoint/file_bytes.h"
#include "data/expect_error.h"
#include "data/temporary_folder.h"
#include "passel/train/errors.h"
#include "passel/train/safetensors.h"

namespace passel::train {
namespace {

using passel::testing::expect_error;
using passel::testing::write_text;

std::string with_length(std::uint64_t length, const std::string& rest) {
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  return file + rest;
}

/// Files made by hand, as other writers make them: no checksums.
class ForeignSafetensors : public ::testing::Test {
 protected:
  std::filesystem::path put(const std::string& header, const std::string& data) {
    write_text(path_, with_length(header.size(), header + data));
    return path_;
  }

  void expect_refusal(const std::string& header, const std::string& data,
                      std::vector<std::string> words) {
    SCOPED_TRACE(header.substr(0, 200));
    words.push_back(path_.string());
    put(header, data);
    expect_error<DataError>([this] { SafetensorsFile::open(path_); }, words);
  }

  passel::testing::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "foreign.safetensors";
};

constexpr const char* kGood = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";

TEST_F(ForeignSafetensors, AreReadWithoutChecksums) {
  const std::string header =
      R"({ "b": {"data_offsets":[4,6], "shape":[1], "dtype":"BF16"},)"
      R"("__metadata__":{"format":"pt"}, "a":{"dtype":"F32","shape":[],"data_offsets":[0,4]} }  )";
  const SafetensorsFile file = SafetensorsFile::open(put(header, "012345"));
  EXPECT_FALSE(file.has_checksums());
  EXPECT_EQ(file.metadata(), (Metadata{{"format", "pt"}}));
  ASSERT_EQ(file.tensors().size(), 2U);
  EXPECT_EQ(file.tensors()[0].name, "a");
  EXPECT_EQ(file.at("b").dtype, DType::kBF16);
  EXPECT_EQ(std::to_integer<char>(file.at("b").bytes[1]), '5');
}

TEST_F(ForeignSafetensors, AreRefusedWithLengthsThatCannotBe) {
  for (const std::uint64_t length :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 62, ~std::uint64_t{0}}) {
    write_text(path_, with_length(length, std::string(kGood) + "01234567"));
    expect_error<DataError>([this] { SafetensorsFile::open(path_); },
                            {path_.string(), std::to_string(length), "expected 2 to"});
  }
}

TEST_F(ForeignSafetensors, AreRefusedWithoutAWellFormedObject) {
  expect_refusal("{}x", "", {"JSON"});
  expect_refusal("[]", "", {"JSON object"});
  expect_refusal(" {}", "", {"JSON object"});
  expect_refusal("{\"a\":", "", {"JSON"});
  expect_refusal("{\"\xff\":1}", "", {"JSON"});
  expect_refusal(std::string("{\0}", 3), "", {"JSON"});
  expect_refusal(R"({"a":1e999})", "", {"JSON"});
  expect_refusal(std::string(1 << 20, '['), "", {"nested"});
  expect_refusal(R"({"a":{"dtype":"F32","shape":[[2]],"data_offsets":[0,8]}})", "01234567",
                 {"nested"});
}

TEST_F(ForeignSafetensors, AreRefusedWithNamesThatRepeat) {
  expect_refusal(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                 R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                 "0", {"\"a\"", "twice"});
  expect_refusal(R"({"a":{"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]}})", "0",
                 {"\"dtype\"", "twice"});
}

TEST_F(ForeignSafetensors, AreRefusedWithTensorsOfOtherFields) {
  for (const char* entry : {R"(1)", R"("text")", R"([])", R"({})", R"({"dtype":"U8","shape":[1]})",
                            R"({"dtype":8,"shape":[1],"data_offsets":[0,1]})",
                            R"({"dtype":"U8","shape":1,"data_offsets":[0,1]})",
                            R"({"dtype":"U8","shape":[1],"data_offsets":[0]})",
                            R"({"dtype":"U8","shape":[1],"data_offsets":[0,1,1]})",
                            R"({"dtype":"U8","shape":[1],"data_offsets":[0,1],"more":1})"}) {
    expect_refusal(std::string(R"({"a":)") + entry + "}", "0", {"\"a\"", "exactly"});
  }
  expect_refusal(R"({"a":{"dtype":"U9","shape":[1],"data_offsets":[0,1]}})", "0", {"U9"});
  expect_refusal(R"({"__metadata__":[]})", "", {"__metadata__"});
  expect_refusal(R"({"__metadata__":{"k":1}})", "", {"\"k\"", "text"});
}

TEST_F(ForeignSafetensors, AreRefusedWithNumbersThatAreNoCounts) {
  for (const char* number :
       {"-1", "1.5", "\"1\"", "null", "true", "18446744073709551615", "99999999999999999999"}) {
    const std::string text = number;
    expect_refusal(R"({"a":{"dtype":"U8","shape":[)" + text + R"(],"data_offsets":[0,1]}})", "0",
                   {"\"a\""});
    expect_refusal(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,)" + text + "]}}", "0",
                   {"\"a\""});
  }
}

TEST_F(ForeignSafetensors, AreRefusedWhereShapesAndRangesDisagree) {
  expect_refusal(kGood, "0123456", {"bytes 0 to 8 of 7"});
  expect_refusal(kGood, "012345678", {"end at byte 8 of 9"});
  expect_refusal(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", "01234567",
                 {"needs 12 bytes", "has 8"});
  expect_refusal(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", "01234567",
                 {"bytes 8 to 0"});
  // 2^32 * 2^32 * 4 is 0 in 64 bits.
  expect_refusal(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})",
                 "", {"2^63"});
}

TEST_F(ForeignSafetensors, AreRefusedWithOverlapsAndHoles) {
  expect_refusal(R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
                 R"("b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
                 "0123", {"\"b\"", "begins at byte 2, expected 3"});
  expect_refusal(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                 R"("b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
                 "0123", {"\"b\"", "begins at byte 2, expected 1"});
  expect_refusal(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", "01",
                 {"begins at byte 1, expected 0"});
}

TEST_F(ForeignSafetensors, AreRefusedWithSomeChecksumsOnly) {
  for (const char* metadata :
       {R"("passel.checksum":"xxh3-64")", R"("passel.checksum.header":"0123456789abcdef")",
        R"("passel.checksum.tensor.a":"0123456789abcdef")", R"("passel.checksum":"crc")"}) {
    expect_refusal(
        "{\"__metadata__\":{" + std::string(metadata) + "}," + std::string(kGood).substr(1),
        "01234567", {"checksum"});
  }
}

TEST_F(ForeignSafetensors, AreRefusedWhereTheyAreNoFile) {
  expect_error<DataError>([&] { SafetensorsFile::open(folder_.path()); },
                          {folder_.path().string(), "a folder"});
  expect_error<DataError>([&] { SafetensorsFile::open(folder_ / "none"); },
                          {(folder_ / "none").string(), "No such file"});
}

}  // namespace
}  // namespace passel::train
