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
