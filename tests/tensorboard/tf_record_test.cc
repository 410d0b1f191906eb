#include "passel/tensorboard/tf_record.h"

#include <gtest/gtest.h>

#include "event_reader.h"

namespace passel::tensorboard {
namespace {

using testing::records_of;
using namespace std::string_literals;

// The check value of the CRC catalogue, and the vectors of RFC 3720, B.4.
TEST(Crc32c, HasTheValuesOfThePublishedVectors) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43U);
  EXPECT_EQ(crc32c(""), 0U);
}

TEST(TfRecord, FramesDataWithItsLengthAndMaskedChecksums) {
  const std::string record = tf_record("123456789");
  ASSERT_EQ(record.size(), 8U + 4 + 9 + 4);
  EXPECT_EQ(record.substr(0, 8), "\x09\0\0\0\0\0\0\0"s);
  EXPECT_EQ(record.substr(12, 9), "123456789");
  // rotr(0xE3069283, 15) + 0xA282EAD8 = 0xC78AB0E5
  EXPECT_EQ(record.substr(21), "\xE5\xB0\x8A\xC7"s);
}

TEST(TfRecord, IsReadBackWhateverTheDataAre) {
  std::string file;
  std::vector<std::string> written;
  for (const std::size_t size : {0, 1, 7, 255, 256, 70000}) {
    std::string data(size, '\0');
    for (std::size_t i = 0; i < size; ++i) data[i] = static_cast<char>(i * 37 + size);
    written.push_back(data);
    file += tf_record(data);
  }
  EXPECT_EQ(records_of(file), written);
}

TEST(TfRecord, ShowsEachFlippedBit) {
  const std::string record = tf_record("some data");
  for (std::size_t bit = 0; bit < record.size() * 8; ++bit) {
    std::string damaged = record;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    EXPECT_THROW(records_of(damaged), std::runtime_error) << bit;
  }
}

}  // namespace
}  // namespace passel::tensorboard
