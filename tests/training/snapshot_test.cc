#include "passel/train/snapshot.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "passel/train/checkpoint_store.h"
#include "passel/train/errors.h"

namespace passel::train {
namespace {

class SnapshotTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) /
              testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    config_.hidden_size = 5;
    config_.optimizer = "adam";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // A run's memory with every number different.
  Snapshot filled_snapshot() {
    shm::Arena arena = shm::Arena::create("test", TrainingMemory::capacity(config_, model_));
    TrainingMemory memory = TrainingMemory::create(arena, config_, model_);
    float value = 1;
    for (auto block : memory.optimizer_state) {
      for (float& number : block) number = value++;
    }
    memory.counters->version.store(77);
    return take_snapshot(memory, 12, 3);
  }

  std::filesystem::path save(const Snapshot& snapshot) {
    CheckpointStore store(folder_);
    return store.save({.ticket = snapshot.ticket, .epoch = snapshot.epoch},
                      checkpoint_tensors(snapshot, config_),
                      checkpoint_metadata(snapshot, config_, model_.shape()));
  }

  std::filesystem::path folder_;
  Config config_;
  Model model_{{.steps = 4, .features = 3, .classes = 2}, 5, 1};
};

bool equal_where_used(const std::vector<float>& a, const std::vector<float>& b,
                      const std::vector<shm::ParameterSpan>& spans) {
  return std::ranges::all_of(spans, [&](const shm::ParameterSpan& span) {
    return std::equal(a.begin() + span.begin, a.begin() + span.begin + span.count,
                      b.begin() + span.begin);
  });
}

TEST_F(SnapshotTest, ComesBackFromACheckpointAsItWas) {
  const Snapshot snapshot = filled_snapshot();
  const SafetensorsFile file = open_checkpoint(save(snapshot));
  const CheckpointHeader header = read_header(file);
  const Snapshot read = read_snapshot(file, header, model_, true);
  EXPECT_EQ(read.ticket, 12);
  EXPECT_EQ(read.epoch, 3);
  EXPECT_EQ(read.version, 77);
  EXPECT_EQ(header.config, config_);
  EXPECT_EQ(header.shape, model_.shape());
  EXPECT_TRUE(equal_where_used(read.parameters, snapshot.parameters, snapshot.spans));
  ASSERT_EQ(read.optimizer_state.size(), snapshot.optimizer_state.size());
  ASSERT_EQ(read.optimizer_state.size(), 2U);
  for (std::size_t s = 0; s < 2; ++s) {
    EXPECT_TRUE(
        equal_where_used(read.optimizer_state[s], snapshot.optimizer_state[s], snapshot.spans));
  }
  EXPECT_EQ(param_hash(read), param_hash(snapshot));
}

TEST_F(SnapshotTest, OfAnotherShapeIsRefusedByTheNameOfTheTensor) {
  const SafetensorsFile file = open_checkpoint(save(filled_snapshot()));
  const Model other({.steps = 4, .features = 3, .classes = 2}, 6, 1);
  try {
    read_snapshot(file, read_header(file), other, false);
    FAIL() << "expected DataError";
  } catch (const DataError& error) {
    EXPECT_NE(std::string(error.what()).find("lltm.weight"), std::string::npos) << error.what();
  }
}

TEST_F(SnapshotTest, HashDependsOnEveryParameter) {
  const Snapshot snapshot = filled_snapshot();
  for (const auto& span : snapshot.spans) {
    for (const std::size_t index : {span.begin, span.begin + span.count - 1}) {
      Snapshot other = snapshot;
      other.parameters[index] += 1;
      EXPECT_NE(param_hash(other), param_hash(snapshot)) << span.name;
    }
  }
}

TEST_F(SnapshotTest, RestoresTheMemoryItWasTakenFrom) {
  const Snapshot snapshot = filled_snapshot();
  shm::Arena arena = shm::Arena::create("test", TrainingMemory::capacity(config_, model_));
  TrainingMemory memory = TrainingMemory::create(arena, config_, model_);
  restore_snapshot(snapshot, memory);
  const Snapshot again = take_snapshot(memory, 12, 3);
  EXPECT_EQ(again.parameters, snapshot.parameters);
  EXPECT_EQ(again.optimizer_state, snapshot.optimizer_state);
  EXPECT_EQ(again.version, snapshot.version);
}

}  // namespace
}  // namespace passel::train
