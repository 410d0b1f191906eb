#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "checkpoint/file_bytes.h"
#include "data/temporary_folder.h"
#include "passel/train/errors.h"
#include "passel/train/safetensors.h"

namespace passel::train {
namespace {

using passel::testing::bytes_of;
using passel::testing::read_text;
using passel::testing::write_text;

/// What a file says, to compare two of them.
struct Content {
  Metadata metadata;
  std::vector<std::string> tensors;

  bool operator==(const Content&) const = default;
};

Content content_of(const SafetensorsFile& file) {
  Content content{file.metadata(), {}};
  for (const TensorView& tensor : file.tensors()) {
    std::string text = tensor.name + "|" + std::string(dtype_name(tensor.dtype)) + "|";
    for (const std::int64_t size : tensor.shape) {
      text += std::to_string(size) + ",";
    }
    text.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
    content.tensors.push_back(text);
  }
  return content;
}

class DamagedSafetensors : public ::testing::Test {
 protected:
  DamagedSafetensors() {
    write_safetensors(path_,
                      std::vector<TensorView>{{"a", DType::kF32, {2, 3}, bytes_of(floats_)},
                                              {"b", DType::kU8, {5}, bytes_of(small_)},
                                              {"empty", DType::kU8, {0}, {}}},
                      {{"key", "value"}});
    sound_ = read_text(path_);
    content_ = content_of(SafetensorsFile::open(path_));
  }

  /// True where the file is refused in the proper way. One that is accepted must say the same.
  bool refused(const std::string& bytes) {
    write_text(path_, bytes);
    try {
      EXPECT_EQ(content_of(SafetensorsFile::open(path_)), content_);
      return false;
    } catch (const DataError& error) {
      EXPECT_NE(std::string(error.what()).find(path_.string()), std::string::npos);
      return true;
    }
  }

  std::vector<float> floats_{1, 2, 3, 4, 5, 6};
  std::vector<std::uint8_t> small_{9, 8, 7, 6, 5};
  passel::testing::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "file.safetensors";
  std::string sound_;
  Content content_;
};

TEST_F(DamagedSafetensors, AreRefusedWhereverTheyAreCut) {
  for (std::size_t length = 0; length < sound_.size(); ++length) {
    EXPECT_TRUE(refused(sound_.substr(0, length))) << length << " bytes are left";
  }
  EXPECT_FALSE(refused(sound_));
}

TEST_F(DamagedSafetensors, AreRefusedWithAnyBitFlipped) {
  for (std::size_t bit = 0; bit < 8 * sound_.size(); ++bit) {
    std::string damaged = sound_;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
    EXPECT_TRUE(refused(damaged)) << "bit " << bit % 8 << " of byte " << bit / 8;
  }
}

/// The text of the refusal; empty where the file is accepted.
std::string refusal(const std::filesystem::path& path) {
  try {
    SafetensorsFile::open(path);
    return {};
  } catch (const DataError& error) {
    return error.what();
  }
}

TEST_F(DamagedSafetensors, AreRefusedByTheNameOfWhatIsDamaged) {
  const std::size_t data = sound_.size() - 24 - 5;
  const std::size_t header = data - 8;
  const auto flipped = [this](std::size_t at) {
    std::string bytes = sound_;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    return bytes;
  };
  const std::size_t padding = data - 1;
  ASSERT_EQ(sound_[padding], ' ');
  const std::vector<std::pair<std::string, std::string>> cases = {
      {sound_.substr(0, 0), "only 0 bytes"},
      {sound_.substr(0, 7), "only 7 bytes"},
      {sound_.substr(0, 8), "claims " + std::to_string(header)},
      {sound_.substr(0, data - 1), "truncated"},
      {sound_.substr(0, data), "the file is truncated"},
      {sound_.substr(0, data + 23), "tensor \"a\""},
      {sound_.substr(0, data + 24), "tensor \"b\""},
      {sound_.substr(0, sound_.size() - 1), "tensor \"b\""},
      {flipped(0), "the tensors end at byte 29 of 45"},  // 16 blanks of the header became data
      {flipped(7), "the header claims"},
      {flipped(data), "passel.checksum.tensor.a"},
      {flipped(data + 23), "passel.checksum.tensor.a"},
      {flipped(data + 24), "passel.checksum.tensor.b"},
      {flipped(sound_.size() - 1), "passel.checksum.tensor.b"},
      {flipped(sound_.find("value")), "passel.checksum.header"},
      {flipped(sound_.find("passel.checksum.tensor.a") + 30), "passel.checksum.header"},
      // Another padding is the same content, but the writer's checksum covers it.
      {sound_.substr(0, padding) + '\t' + sound_.substr(data), "passel.checksum.header"},
  };
  for (const auto& [bytes, word] : cases) {
    write_text(path_, bytes);
    EXPECT_NE(refusal(path_).find(word), std::string::npos) << word << ": " << refusal(path_);
    EXPECT_EQ(refusal(path_).rfind(path_.string(), 0), 0U) << refusal(path_);
  }
}

TEST_F(DamagedSafetensors, SayTheSameWithAnotherPaddingWhereTheyHaveNoChecksums) {
  const std::string json = R"({"a":{"dtype":"U8","shape":[5],"data_offsets":[0,5]}})";
  const auto file = [&](const std::string& padding) {
    const auto length = static_cast<char>(json.size() + padding.size());
    return length + std::string(7, '\0') + json + padding + "abcde";
  };
  write_text(path_, file("    "));
  content_ = content_of(SafetensorsFile::open(path_));
  for (const char* padding : {"", "  ", "\t \n ", "\r\n"}) EXPECT_FALSE(refused(file(padding)));
  for (const char* padding : {"}", "  x", ",", "{}"})
    EXPECT_TRUE(refused(file(padding))) << padding;
}

TEST_F(DamagedSafetensors, OfManyBytesAreRefusedWhereverTheyAreCutOrABitFlips) {
  std::mt19937 random(19);  // NOLINT(bugprone-random-generator-seed): repeatable
  const std::vector<float> large(300'000, 0.25F);
  std::vector<TensorView> tensors;
  for (int i = 0; i < 6; ++i) {
    tensors.push_back({"layer" + std::to_string(i),
                       DType::kF32,
                       {50'000},
                       bytes_of(large).subspan(static_cast<std::size_t>(i) * 200'000, 200'000)});
  }
  write_safetensors(path_, tensors);
  sound_ = read_text(path_);
  const std::size_t data = sound_.size() - 6 * 200'000;
  for (std::size_t i = 0; i < 6; ++i) {  // the edges of every tensor, and places inside
    for (const std::size_t at : {0UL, 199'999UL, random() % 200'000, random() % 200'000}) {
      std::string damaged = sound_;
      damaged[data + i * 200'000 + at] ^= static_cast<char>(1 << random() % 8);
      EXPECT_TRUE(refused(damaged)) << "tensor " << i << " at " << at;
      EXPECT_NE(refusal(path_).find("passel.checksum.tensor.layer" + std::to_string(i)),
                std::string::npos)
          << refusal(path_);
      EXPECT_TRUE(refused(sound_.substr(0, data + i * 200'000 + at)));
      EXPECT_NE(refusal(path_).find("truncated"), std::string::npos) << refusal(path_);
    }
  }
}

TEST_F(DamagedSafetensors, AreRefusedWithBytesAppended) {
  EXPECT_TRUE(refused(sound_ + '\0'));
  EXPECT_TRUE(refused(sound_ + sound_));
}

TEST_F(DamagedSafetensors, AreRefusedWithZeroedPages) {
  for (std::size_t start = 0; start + 16 <= sound_.size(); start += 16) {
    std::string damaged = sound_;
    damaged.replace(start, 16, std::string(16, '\0'));
    EXPECT_TRUE(refused(damaged)) << "16 bytes from " << start;
  }
}

TEST_F(DamagedSafetensors, NeverCrashTheReaderWithManyErrorsAtOnce) {
  std::mt19937 random(2024);  // NOLINT(bugprone-random-generator-seed): repeatable
  for (int round = 0; round < 3000; ++round) {
    SCOPED_TRACE(round);
    std::string damaged = sound_;
    const unsigned changes = 1 + random() % 8;
    for (unsigned i = 0; i < changes; ++i) {
      const std::size_t at = random() % damaged.size();
      switch (random() % 3) {
        case 0:
          damaged[at] = static_cast<char>(random());
          break;
        case 1:
          damaged.erase(at, random() % 9);
          break;
        default:
          damaged.insert(at, damaged.substr(random() % damaged.size(), random() % 40));
      }
      damaged.resize(std::max<std::size_t>(damaged.size(), 1));
    }
    EXPECT_EQ(refused(damaged), damaged != sound_);
  }
}

TEST_F(DamagedSafetensors, AreRefusedAsRandomBytes) {
  std::mt19937 random(77);  // NOLINT(bugprone-random-generator-seed): repeatable
  for (int round = 0; round < 2000; ++round) {
    std::string garbage(random() % 300, '\0');
    std::generate(garbage.begin(), garbage.end(), [&] { return static_cast<char>(random()); });
    if (garbage.size() > 8 && round % 2 == 0) {  // a header length that fits lets it go on
      garbage.replace(0, 8,
                      std::string(1, static_cast<char>(garbage.size() - 8)) + std::string(7, '\0'));
    }
    EXPECT_TRUE(refused(garbage)) << "round " << round;
  }
}

}  // namespace
}  // namespace passel::train
