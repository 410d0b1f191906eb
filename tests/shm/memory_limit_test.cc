#include "passel/shm/memory_limit.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <string>

namespace passel::shm {
namespace {

namespace fs = std::filesystem;

/// A /proc and a /sys/fs/cgroup made of plain files.
class MemoryLimit : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "passel-limit-XXXXXX").string();
    root_ = ::mkdtemp(pattern.data());
    write("proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    5000 kB\n");
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const fs::path& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  std::uint64_t available() { return available_memory(root_ / "proc", root_ / "cgroup"); }

 private:
  fs::path root_;
};

TEST_F(MemoryLimit, IsMemAvailableWithoutCgroups) {
  EXPECT_EQ(available(), 5000U * 1024);
}

TEST_F(MemoryLimit, IsTheTightestLevelOfVersion2) {
  write("proc/self/cgroup", "0::/a/b\n");
  write("cgroup/a/b/memory.max", "900000\n");
  write("cgroup/a/b/memory.current", "100000\n");
  write("cgroup/a/memory.max", "500000\n");
  write("cgroup/a/memory.current", "200000\n");
  EXPECT_EQ(available(), 300000U);
  write("cgroup/a/memory.stat", "file 150000\ninactive_file 50000\n");
  EXPECT_EQ(available(), 350000U) << "cache that can be dropped is not used memory";
  write("cgroup/a/memory.max", "max\n");
  EXPECT_EQ(available(), 800000U);
}

TEST_F(MemoryLimit, IsZeroInAGroupAboveItsLimit) {
  write("proc/self/cgroup", "0::/\n");
  write("cgroup/memory.max", "1000\n");
  write("cgroup/memory.current", "2000\n");
  EXPECT_EQ(available(), 0U);
}

TEST_F(MemoryLimit, ReadsVersion1WhereItHasTheMemoryController) {
  write("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:hugetlb,memory:/pod/c\n0::/\n");
  write("cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("cgroup/memory/memory.usage_in_bytes", "1000\n");
  write("cgroup/memory/pod/memory.limit_in_bytes", "700000\n");
  write("cgroup/memory/pod/memory.usage_in_bytes", "600000\n");
  write("cgroup/memory/pod/memory.stat", "inactive_file 1\ntotal_inactive_file 20000\n");
  EXPECT_EQ(available(), 120000U);
}

TEST_F(MemoryLimit, AnswersOnThisMachine) {
  EXPECT_GT(available_memory(), 0U);
}

}  // namespace
}  // namespace passel::shm
