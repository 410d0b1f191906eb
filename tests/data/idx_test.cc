#include "passel/train/idx.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <random>

#include "data/expect_error.h"
#include "data/idx_files.h"
#include "data/temporary_folder.h"
#include "passel/train/errors.h"

namespace passel::train {
namespace {

using passel::testing::Bytes;
using passel::testing::expect_error;
using passel::testing::gzip;
using passel::testing::idx_file;
using passel::testing::idx_header;
using passel::testing::TemporaryFolder;
using passel::testing::write_file;

Bytes counted(std::size_t count) {
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<std::uint8_t>(i * 31 + i / 7);
  }
  return bytes;
}

class Idx : public ::testing::Test {
 protected:
  std::filesystem::path put(const Bytes& bytes) {
    write_file(folder_ / "some-file", bytes);
    return folder_ / "some-file";
  }

  /// Expects that opening or reading the bytes fails with a text that names the file.
  void expect_refusal(const Bytes& bytes, std::vector<std::string> words, int rank = 1) {
    const std::filesystem::path path = put(bytes);
    words.push_back(path.string());
    expect_error<DataError>([&] { IdxFile::open(path, rank).read(); }, words);
  }

  TemporaryFolder folder_;
};

TEST_F(Idx, ReadsPlainAndCompressedFilesAlike) {
  const Bytes elements = counted(2 * 3 * 5);
  const Bytes file = idx_file({2, 3, 5}, elements);
  for (const Bytes& bytes : {file, gzip(file)}) {
    const IdxFile opened = IdxFile::open(put(bytes), 3);
    EXPECT_EQ(opened.sizes(), (std::vector<std::int64_t>{2, 3, 5}));
    EXPECT_EQ(opened.read(), elements);
  }
}

TEST_F(Idx, ReadsMoreThanOneBufferAndMoreThanOneGzipMember) {
  Bytes elements(1'500'000);
  std::mt19937 random(3);  // NOLINT(bugprone-random-generator-seed): repeatable
  for (auto& element : elements) {
    element = static_cast<std::uint8_t>(random());
  }
  const Bytes file = idx_file({1500, 1000}, elements);
  EXPECT_EQ(IdxFile::open(put(file), 2).read(), elements);
  EXPECT_EQ(IdxFile::open(put(gzip(file)), 2).read(), elements);
  Bytes members = gzip({file.begin(), file.begin() + 5});
  const Bytes second = gzip({file.begin() + 5, file.end()});
  members.insert(members.end(), second.begin(), second.end());
  EXPECT_EQ(IdxFile::open(put(members), 2).read(), elements);
}

TEST_F(Idx, RefusesAFileCutAtAnyByte) {
  const Bytes plain = idx_file({4, 5}, counted(20));
  for (const Bytes& whole : {plain, gzip(plain)}) {
    for (std::size_t length = 0; length < whole.size(); ++length) {
      SCOPED_TRACE(std::to_string(length) + " of " + std::to_string(whole.size()) + " bytes");
      expect_refusal({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)}, {}, 2);
    }
  }
}

TEST_F(Idx, SaysThatAFileIsTruncated) {
  const Bytes whole = idx_file({1000}, counted(1000));
  expect_refusal({whole.begin(), whole.end() - 1}, {"1000", "truncated"});
  Bytes compressed = gzip(whole);
  compressed.pop_back();
  expect_refusal(compressed, {"gzip", "truncated"});
  expect_refusal(gzip({whole.begin(), whole.end() - 1}), {"1000", "only 999"});
}

TEST_F(Idx, RefusesBytesAfterTheLastElement) {
  Bytes longer = idx_file({10}, counted(11));
  expect_refusal(longer, {"more bytes", "10"});
  expect_refusal(gzip(longer), {"more bytes", "10"});
  Bytes garbage_after_gzip = gzip(idx_file({10}, counted(10)));
  garbage_after_gzip.insert(garbage_after_gzip.end(), {1, 2, 3});
  expect_refusal(garbage_after_gzip, {"gzip", "damaged"});
}

TEST_F(Idx, NeverTakesADamagedGzipFileForASoundOne) {
  const Bytes elements = counted(300);
  const Bytes sound = gzip(idx_file({300}, elements));
  int refused = 0;
  for (std::size_t bit = 0; bit < 8 * sound.size(); ++bit) {
    Bytes damaged = sound;
    damaged[bit / 8] ^= static_cast<std::uint8_t>(1U << bit % 8);
    try {
      // What gzip does not protect (time, system, flags of its own header) may pass.
      EXPECT_EQ(IdxFile::open(put(damaged), 1).read(), elements) << "bit " << bit;
    } catch (const DataError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, static_cast<int>(8 * (sound.size() - 10)) - 1);
}

TEST_F(Idx, SaysThatAGzipChecksumIsWrong) {
  Bytes damaged = gzip(idx_file({10}, counted(10)));
  damaged[damaged.size() - 8] ^= 1;
  expect_refusal(damaged, {"incorrect data check"});
}

TEST_F(Idx, RefusesOtherKindsOfFiles) {
  expect_refusal(counted(100), {"00 00 08 01", "00 1f 3e"});
  expect_refusal({}, {"nothing"});
  Bytes floats = idx_header({1}, 0x0d);
  floats.resize(12);
  expect_refusal(floats, {"00 00 08 01", "00 00 0d 01"});
  expect_refusal(idx_file({2, 2}, counted(4)), {"rank 1", "rank 2", "exchanged"});
}

TEST_F(Idx, RefusesSizesOfZeroAndSizesThatTheFileCannotHold) {
  expect_refusal(idx_file({0}, {}), {"at least 1"});
  expect_refusal(idx_file({4, 0}, {}), {"4 x 0", "at least 1"}, 2);
  expect_refusal(idx_file({1U << 31, 1U << 31, 1U << 31}, counted(100)), {"2147483648", "116"}, 3);
  expect_refusal(idx_file({0xffffffff}, counted(100)), {"4294967295", "at most 108"});
  expect_refusal(gzip(idx_file({0xffffffff}, counted(100))), {"4294967295", "at most"});
}

TEST_F(Idx, RefusesFoldersFifosAndMissingFiles) {
  expect_error<DataError>([&] { IdxFile::open(folder_.path(), 1); },
                          {folder_.path().string(), "a folder"});
  ASSERT_EQ(mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  expect_error<DataError>([&] { IdxFile::open(folder_ / "fifo", 1); }, {"regular file"});
  expect_error<DataError>([&] { IdxFile::open(folder_ / "none", 1); },
                          {(folder_ / "none").string(), "No such file"});
}

TEST_F(Idx, RefusesAFileThatMayNotBeRead) {
  const std::filesystem::path path = put(idx_file({1}, {0}));
  ASSERT_EQ(chmod(path.c_str(), 0), 0);
  const uid_t user = geteuid();
  if (user == 0) {  // root may read every file: be nobody for a while
    ASSERT_EQ(seteuid(65534), 0);
  }
  expect_error<DataError>([&] { IdxFile::open(path, 1); }, {path.string(), "Permission denied"});
  ASSERT_EQ(seteuid(user), 0);
}

TEST_F(Idx, FindsThePlainFileBeforeTheCompressedOne) {
  write_file(folder_ / "a.gz", {});
  EXPECT_EQ(find_idx_file(folder_.path(), "a"), folder_ / "a.gz");
  write_file(folder_ / "a", {});
  EXPECT_EQ(find_idx_file(folder_.path(), "a"), folder_ / "a");
}

TEST_F(Idx, SaysWhereMissingFilesComeFrom) {
  const std::vector<std::string> words{"train-images-idx3-ubyte", "train-images-idx3-ubyte.gz",
                                       "dataset-fashion-mnist", "--data DIR"};
  expect_error<DataError>([&] { find_idx_file(folder_.path(), "train-images-idx3-ubyte"); }, words);
  expect_error<DataError>([&] { find_idx_file(folder_ / "no", "train-images-idx3-ubyte"); }, words);
}

TEST_F(Idx, SaysThatADataFolderIsAFile) {
  const std::filesystem::path file = put({1});
  expect_error<DataError>([&] { find_idx_file(file, "a"); },
                          {file.string(), "not a folder", "--data"});
}

}  // namespace
}  // namespace passel::train
