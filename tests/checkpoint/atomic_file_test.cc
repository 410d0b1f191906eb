#include "passel/train/atomic_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "checkpoint/file_bytes.h"
#include "data/temporary_folder.h"

namespace passel::train {
namespace {

using passel::testing::bytes_of;
using passel::testing::FileSizeLimit;
using passel::testing::names_in;
using passel::testing::read_text;
using passel::testing::write_text;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class AtomicFile : public ::testing::Test {
 protected:
  static void write(const std::filesystem::path& path, const std::vector<std::string>& texts) {
    std::vector<std::span<const std::byte>> parts;
    for (const std::string& text : texts) {
      parts.push_back(bytes_of(text));
    }
    write_atomically(path, parts);
  }

  passel::testing::TemporaryFolder folder_;
};

TEST_F(AtomicFile, HoldsThePartsOneAfterTheOther) {
  const std::string large(5'000'000, 'x');
  write(folder_ / "file", {"one ", "", large, " two"});
  EXPECT_EQ(read_text(folder_ / "file"), "one " + large + " two");
  write(folder_ / "file", {"new"});
  EXPECT_EQ(read_text(folder_ / "file"), "new");
  EXPECT_THAT(names_in(folder_.path()), ElementsAre("file"));
}

TEST_F(AtomicFile, MayBeNamedRelativeToTheWorkingFolder) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder_.path());
  write("file", {"text"});
  std::filesystem::current_path(before);
  EXPECT_EQ(read_text(folder_ / "file"), "text");
}

TEST_F(AtomicFile, LeavesTheOldFileWhereTheDiskIsFull) {
  write(folder_ / "file", {"old"});
  const std::string large(100'000, 'x');
  try {
    const FileSizeLimit full(65'536);
    write(folder_ / "file", {"head", large});
    FAIL() << "writing must fail";
  } catch (const FileError& error) {
    EXPECT_EQ(error.error_number(), EFBIG);
    EXPECT_THAT(error.what(), HasSubstr((folder_ / "file").string()));
    EXPECT_THAT(error.what(), HasSubstr("File too large"));
  }
  EXPECT_EQ(read_text(folder_ / "file"), "old");
  EXPECT_THAT(names_in(folder_.path()), ElementsAre("file"));
}

TEST_F(AtomicFile, LeavesNothingBehindWhereTheNameCannotBeTaken) {
  std::filesystem::create_directory(folder_ / "taken");
  try {
    write(folder_ / "taken", {"text"});
    FAIL() << "writing must fail";
  } catch (const FileError& error) {
    EXPECT_EQ(error.error_number(), EISDIR);
  }
  EXPECT_THAT(names_in(folder_.path()), ElementsAre("taken"));
}

TEST_F(AtomicFile, NamesAFolderThatIsMissing) {
  try {
    write(folder_ / "no" / "file", {"text"});
    FAIL() << "writing must fail";
  } catch (const FileError& error) {
    EXPECT_EQ(error.error_number(), ENOENT);
    EXPECT_THAT(error.what(), HasSubstr((folder_ / "no").string()));
  }
}

TEST_F(AtomicFile, TakesOverTheTemporaryOfADeadProcessWithTheSameId) {
  write_text(folder_ / ("file.tmp." + std::to_string(getpid())), "half of");
  write(folder_ / "file", {"whole"});
  EXPECT_EQ(read_text(folder_ / "file"), "whole");
  EXPECT_THAT(names_in(folder_.path()), ElementsAre("file"));
}

TEST_F(AtomicFile, SweepsOnlyTemporariesWhoseWritersAreGone) {
  for (const char* name : {"a.tmp.1", "b.c.tmp.4194303", "kept.tmp.", "kept.tmp.x1", "tmp.3x"}) {
    write_text(folder_ / name, "text");
  }
  write_text(folder_ / "live.tmp.77", "text");
  const int writer = open((folder_ / "live.tmp.77").c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_EQ(flock(writer, LOCK_EX), 0);

  EXPECT_EQ(sweep_temporaries(folder_.path()), 2);
  EXPECT_THAT(names_in(folder_.path()),
              ElementsAre("kept.tmp.", "kept.tmp.x1", "live.tmp.77", "tmp.3x"));
  close(writer);
  EXPECT_EQ(sweep_temporaries(folder_.path()), 1);
}

TEST_F(AtomicFile, FindsNothingToSweepInAMissingFolder) {
  EXPECT_EQ(sweep_temporaries(folder_ / "no"), 0);
}

}  // namespace
}  // namespace passel::train
