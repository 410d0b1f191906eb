// Each call of the file layer fails in turn, in each way it can, while a checkpoint is saved.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <numeric>

#include "checkpoint/faulty_calls.h"
#include "checkpoint/file_bytes.h"
#include "data/temporary_folder.h"
#include "passel/train/atomic_file.h"
#include "passel/train/checkpoint_store.h"

namespace passel::train {
namespace {

using passel::testing::bytes_of;
using passel::testing::FaultPlan;
using passel::testing::FaultyCalls;
using passel::testing::names_in;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<float> values_of(std::int64_t ticket) {
  std::vector<float> values(200);
  std::iota(values.begin(), values.end(), static_cast<float>(ticket));
  return values;
}

void save(CheckpointStore& store, std::int64_t ticket, double score) {
  const std::vector<float> values = values_of(ticket);
  const std::vector<std::uint8_t> small(7, static_cast<std::uint8_t>(ticket));
  store.save({.ticket = ticket, .score = score, .path = {}},
             std::vector<TensorView>{{"w", DType::kF32, {200}, bytes_of(values)},
                                     {"small", DType::kU8, {7}, bytes_of(small)}});
}

class FaultySave : public ::testing::Test {
 protected:
  /// A folder with the checkpoints 100 (score 0.5) and 200 (score 0.6), as an earlier run of the
  /// program left them.
  void begin() {
    std::filesystem::remove_all(folder());
    CheckpointStore store(folder(), 2);
    save(store, 100, 0.5);
    save(store, 200, 0.6);
  }

  std::filesystem::path folder() const { return root_ / "checkpoints"; }

  void expect_whole(const std::optional<CheckpointInfo>& info, std::int64_t least,
                    std::int64_t most) {
    ASSERT_TRUE(info);
    EXPECT_GE(info->ticket, least);
    EXPECT_LE(info->ticket, most);
    const SafetensorsFile file = open_checkpoint(info->path);
    const std::vector<float> expected = values_of(info->ticket);
    const auto bytes = file.at("w").bytes;
    ASSERT_EQ(bytes.size(), expected.size() * sizeof(float));
    EXPECT_EQ(std::memcmp(bytes.data(), expected.data(), bytes.size()), 0);
  }

  void expect_no_temporaries() {
    for (const std::string& name : names_in(folder())) EXPECT_THAT(name, Not(HasSubstr(".tmp.")));
  }

  /// Saves 300 (score_) under the plan, checks what is there, then saves 400 (0.65) in peace.
  /// True where the faulty save went through.
  bool survive(const FaultPlan& plan) {
    begin();
    reports_.clear();
    CheckpointStore store(folder(), 2, [this](const std::string& text) { reports_ += text; });
    const bool saved = try_to_save(store, plan);
    CheckpointStore reader(folder(), 2);
    expect_whole(reader.latest(), saved ? 300 : 200, 300);
    const bool better = score_ > 0.6;
    expect_whole(reader.best(), saved && better && reports_.empty() ? 300 : 200,
                 better ? 300 : 200);
    const bool best_is_new = reader.best()->ticket == 300;

    save(store, 400, 0.65);
    expect_no_temporaries();
    expect_whole(reader.latest(), 400, 400);
    const std::int64_t best = best_is_new ? 300 : 400;
    expect_whole(reader.best(), best, best);
    return saved;
  }

  bool try_to_save(CheckpointStore& store, const FaultPlan& plan) {
    FaultyCalls faults(plan);
    std::string error;
    try {
      save(store, 300, score_);
    } catch (const FileError& failure) {
      error = failure.what();
      EXPECT_EQ(failure.error_number(), plan.error_number);
    }
    calls_ = faults.calls();
    if (error.empty()) return true;
    EXPECT_THAT(error, HasSubstr(folder().string()));
    EXPECT_THAT(error, HasSubstr(std::strerror(plan.error_number)));
    return false;
  }

  /// Calls `plan_at` with 0, 1, 2 and so on until that call is not reached.
  void sweep(const std::function<FaultPlan(int)>& plan_at,
             const std::function<void(bool saved, const std::string& call)>& check) {
    for (int at = 0;; ++at) {
      SCOPED_TRACE("call " + std::to_string(at));
      const bool saved = survive(plan_at(at));
      if (static_cast<std::size_t>(at) >= calls_.size()) {
        EXPECT_TRUE(saved);
        EXPECT_GT(at, 20);
        return;
      }
      check(saved, calls_[static_cast<std::size_t>(at)]);
      if (HasFailure()) FAIL() << "after " << ::testing::PrintToString(calls_);
    }
  }

  passel::testing::TemporaryFolder root_;
  double score_ = 0.7;
  std::string reports_;
  std::vector<std::string> calls_;
};

TEST_F(FaultySave, LeavesThePreviousOrTheNewCheckpointWhicheverCallFails) {
  std::map<std::string, int> failed;
  for (const int error_number : {EIO, ENOSPC, EROFS, EACCES, EMFILE, EDQUOT}) {
    SCOPED_TRACE(std::strerror(error_number));
    sweep([&](int at) { return FaultPlan{.at = at, .error_number = error_number}; },
          [&](bool saved, const std::string& call) { failed[call] += saved ? 0 : 1; });
  }
  for (const char* call : {"open", "write", "fsync", "rename"}) {
    EXPECT_GE(failed[call], 6) << call << " can fail a save";
  }
}

TEST_F(FaultySave, NeverLosesTheBestToAWorseOne) {
  score_ = 0.55;
  for (const bool lasting : {false, true}) {
    sweep([&](int at) { return FaultPlan{.at = at, .lasting = lasting}; },
          [](bool, const std::string&) {});
  }
}

TEST_F(FaultySave, LeavesThePreviousOrTheNewCheckpointWhereNothingWorksFromThereOn) {
  for (const int error_number : {EIO, ENOSPC, EROFS}) {
    SCOPED_TRACE(std::strerror(error_number));
    sweep(
        [&](int at) { return FaultPlan{.at = at, .error_number = error_number, .lasting = true}; },
        [](bool, const std::string&) {});
  }
}

TEST_F(FaultySave, GoesThroughWhereACallIsInterrupted) {
  sweep([](int at) { return FaultPlan{.at = at, .error_number = EINTR}; },
        [](bool saved, const std::string& call) {
          if (call != "rename" && call != "mkdir") {
            EXPECT_TRUE(saved) << call;
          }
        });
}

TEST_F(FaultySave, GoesThroughWhereAWriteIsShort) {
  sweep([](int at) { return FaultPlan{.short_write_at = at}; },
        [](bool saved, const std::string&) { EXPECT_TRUE(saved); });
}

TEST_F(FaultySave, LeavesThePreviousOrTheNewCheckpointWhereverTheDiskIsFull) {
  begin();
  const auto size =
      static_cast<std::int64_t>(std::filesystem::file_size(folder() / "best.safetensors"));
  for (std::int64_t space = 0; space <= 2 * size; space += 7) {
    SCOPED_TRACE("room for " + std::to_string(space));
    EXPECT_FALSE(survive({.error_number = ENOSPC, .space = space}));
    if (HasFailure()) return;
  }
  EXPECT_TRUE(survive({.error_number = ENOSPC, .space = 3 * size}));
}

}  // namespace
}  // namespace passel::train
