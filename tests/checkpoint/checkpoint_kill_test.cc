#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <random>

#include "checkpoint/file_bytes.h"
#include "checkpoint/kill_at_stop.h"
#include "data/temporary_folder.h"
#include "passel/train/checkpoint_store.h"
#include "passel/train/metrics_log.h"
#include "support/stress.h"

namespace passel::train {
namespace {

using passel::testing::bytes_of;
using passel::testing::kill_at_stop;
using passel::testing::names_in;
using passel::testing::ptrace_is_allowed;
using passel::testing::read_text;
using passel::testing::stress_size;

constexpr int kKeep = 2;

void save(CheckpointStore& store, std::int64_t ticket) {
  const std::vector<std::int64_t> values(20'000, ticket);
  store.save({.ticket = ticket, .score = static_cast<double>(ticket), .path = {}},
             std::vector<TensorView>{{"w", DType::kI64, {20'000}, bytes_of(values)}});
}

/// Checks what a killed writer left: the newest checkpoint is whole and not older than the last
/// that save() returned for, and so is the best but for the one being written.
std::int64_t expect_sound(const std::filesystem::path& folder, std::int64_t saved) {
  std::vector<std::string> reports;
  const CheckpointStore store(folder, kKeep,
                              [&](const std::string& text) { reports.push_back(text); });
  const auto latest = store.latest();
  EXPECT_THAT(reports, ::testing::IsEmpty());
  if (!latest) {
    EXPECT_EQ(saved, 0) << "a checkpoint that was saved is lost";
    return 0;
  }
  EXPECT_GE(latest->ticket, saved);
  EXPECT_LE(latest->ticket, saved + 1);
  const SafetensorsFile file = SafetensorsFile::open(latest->path);
  const std::vector<std::int64_t> expected(20'000, latest->ticket);
  EXPECT_EQ(std::memcmp(file.at("w").bytes.data(), expected.data(), file.at("w").bytes.size()), 0);
  if (saved > 0) {
    EXPECT_TRUE(store.best());
    EXPECT_GE(store.best()->ticket, saved);
  }
  return latest->ticket;
}

bool has_temporary(const std::filesystem::path& folder) {
  for (const std::string& name : names_in(folder)) {
    if (name.find(".tmp.") != std::string::npos) {
      return true;
    }
  }
  return false;
}

TEST(KilledWriter, LeavesSoundCheckpointsAtEverySystemCallOfASave) {
  if (!ptrace_is_allowed()) {
    GTEST_SKIP() << "ptrace is not allowed here";
  }
  const passel::testing::TemporaryFolder folder;
  int stops = 0;
  int with_temporary = 0;
  std::int64_t saved = 0;
  for (bool killed = true; killed; ++stops) {
    const std::int64_t ticket = saved + 1;
    killed = kill_at_stop(stops, [&] {
      CheckpointStore store(folder.path(), kKeep);
      save(store, ticket);
    });
    saved = expect_sound(folder.path(), killed ? saved : ticket);
    with_temporary += has_temporary(folder.path()) ? 1 : 0;
    if (::testing::Test::HasFailure()) {
      FAIL() << "killed at stop " << stops << " of the save of ticket " << ticket;
    }
  }
  EXPECT_GT(stops, 30);
  EXPECT_GT(with_temporary, 4);                           // some kills came in the midst of writing
  EXPECT_EQ(names_in(folder.path()).size(), kKeep + 1U);  // the save that ended has tidied up
}

TEST(KilledWriter, LeavesMetricsAsTheyWereOrCutAtEverySystemCallOfACut) {
  if (!ptrace_is_allowed()) {
    GTEST_SKIP() << "ptrace is not allowed here";
  }
  const passel::testing::TemporaryFolder folder;
  const std::filesystem::path file = folder / "metrics.jsonl";
  std::set<std::string> seen;
  int stops = 0;
  for (bool killed = true; killed; ++stops) {
    std::filesystem::remove(file);
    for (const std::int64_t ticket : {1, 2}) MetricsLog(file).train({.ticket = ticket});
    const std::string whole = read_text(file);
    const std::string cut = whole.substr(0, whole.find('\n') + 1);
    killed = kill_at_stop(stops, [&] { MetricsLog(file).truncate_after(1); });
    const std::string left = read_text(file);
    ASSERT_TRUE(left == whole || left == cut) << "killed at stop " << stops << ": " << left;
    seen.insert(left == cut ? "cut" : "whole");
    EXPECT_TRUE(killed || left == cut);
  }
  EXPECT_EQ(seen.size(), 2U);
  EXPECT_GT(stops, 20);
}

/// Saves tickets from `first` on until killed; writes a byte to `pipe` after each.
[[noreturn]] void save_for_ever(const std::filesystem::path& folder, std::int64_t first, int pipe) {
  CheckpointStore store(folder, kKeep);
  for (std::int64_t ticket = first;; ++ticket) {
    save(store, ticket);
    if (write(pipe, "s", 1) != 1) {
      _exit(1);
    }
  }
}

/// Reads the bytes that are there, waiting up to a minute for the first.
std::int64_t count_saves(int pipe) {
  pollfd ready{pipe, POLLIN, 0};
  if (poll(&ready, 1, 60'000) != 1) {
    return 0;
  }
  char bytes[256];
  return read(pipe, bytes, sizeof bytes);
}

/// Whether a child is still there after so long; if it ends, there is nothing to wait for.
bool outlives(pid_t child, std::chrono::nanoseconds time) {
  const auto descriptor = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
  pollfd ended{descriptor, POLLIN, 0};
  const timespec limit{.tv_sec = 0, .tv_nsec = time.count()};
  const bool there = ppoll(&ended, 1, &limit, nullptr) == 0;
  close(descriptor);
  return there;
}

TEST(KilledWriter, LeavesSoundCheckpointsAtAnyMoment) {
  const passel::testing::TemporaryFolder folder;
  std::mt19937 random(50);  // NOLINT(bugprone-random-generator-seed): repeatable
  std::int64_t saved = 0;
  for (int round = 0; round < stress_size(50, 200); ++round) {
    SCOPED_TRACE(round);
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      close(ends[0]);
      save_for_ever(folder.path(), saved + 1, ends[1]);
    }
    close(ends[1]);
    const std::int64_t first = count_saves(ends[0]);
    ASSERT_GT(first, 0);
    saved += first;
    EXPECT_TRUE(outlives(child, std::chrono::microseconds(random() % 5000)));  // any moment
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    while (const std::int64_t more = count_saves(ends[0])) {
      saved += more;
    }
    close(ends[0]);
    saved = expect_sound(folder.path(), saved);
    if (::testing::Test::HasFailure()) {
      return;
    }
  }
}

}  // namespace
}  // namespace passel::train
