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
    for (const OptimizerState& optimizer : memory.optimizers) {
      for (const auto block : optimizer.blocks) {
        for (float& number : block) number = value++;
      }
      optimizer.steps->store(static_cast<std::int64_t>(value));
    }
    memory.counters->version.store(77);
    return take_snapshot(memory, 12, 3);
  }

  std::filesystem::path save(const Snapshot& snapshot) {
    CheckpointStore store(folder_);
    return store.save({.ticket = snapshot.ticket, .epoch = snapshot.epoch},
                      checkpoint_tensors(snapshot, config_),
                      checkpoint_metadata(snapshot, config_, model_.shape(), "data"));
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

void expect_same_state(const Snapshot& a, const Snapshot& b) {
  EXPECT_TRUE(equal_where_used(a.parameters, b.parameters, b.spans));
  ASSERT_EQ(a.optimizers.size(), b.optimizers.size());
  for (std::size_t owner = 0; owner < b.optimizers.size(); ++owner) {
    const OptimizerSnapshot &mine = a.optimizers[owner], &other = b.optimizers[owner];
    EXPECT_EQ(mine.steps, other.steps);
    ASSERT_EQ(mine.blocks.size(), other.blocks.size());
    for (std::size_t s = 0; s < other.blocks.size(); ++s) {
      EXPECT_TRUE(equal_where_used(mine.blocks[s], other.blocks[s], b.spans));
    }
  }
  EXPECT_EQ(param_hash(a), param_hash(b));
}

TEST_F(SnapshotTest, ComesBackFromACheckpointAsItWas) {
  for (const std::string kind : {"shared", "private"}) {
    config_.optimizer_state = kind;
    const Snapshot snapshot = filled_snapshot();
    EXPECT_EQ(snapshot.optimizers.size(), kind == "shared" ? 1U : 2U);
    const SafetensorsFile file = open_checkpoint(save(snapshot));
    const CheckpointHeader header = read_header(file);
    const Snapshot read = read_snapshot(file, header, model_, true);
    EXPECT_EQ(read.ticket, 12);
    EXPECT_EQ(read.epoch, 3);
    EXPECT_EQ(read.version, 77);
    EXPECT_EQ(header.config, config_);
    EXPECT_EQ(header.shape, model_.shape());
    EXPECT_EQ(header.data, "data");
    expect_same_state(read, snapshot);
  }
}

// Versions 4, 5, 6, 7 are those that tickets to come are computed from.
TEST_F(SnapshotTest, OfAnOrderedRunKeepsTheVersionsThatAreStillRead) {
  config_.mode = "ordered";
  config_.staleness = 3;
  shm::Arena arena = shm::Arena::create("test", TrainingMemory::capacity(config_, model_));
  TrainingMemory memory = TrainingMemory::create(arena, config_, model_);
  ASSERT_EQ(memory.versions.size(), 4U);
  memory.commits->start_at(7);
  for (std::int64_t age = 0; age < 4; ++age) {
    std::ranges::fill(memory.values(age), static_cast<float>(7 - age));
  }
  memory.optimizers[7 % 2].steps->store(6);
  const Snapshot snapshot = take_snapshot(memory, 7, 0);
  ASSERT_EQ(snapshot.older.size(), 3U);
  const SafetensorsFile file = open_checkpoint(save(snapshot));

  const Snapshot read = read_snapshot(file, read_header(file), model_, true);
  expect_same_state(read, snapshot);
  EXPECT_EQ(read.version, 7);
  shm::Arena other = shm::Arena::create("test", TrainingMemory::capacity(config_, model_));
  TrainingMemory restored = TrainingMemory::create(other, config_, model_);
  restore_snapshot(read, restored);
  EXPECT_EQ(restored.version(), 7);
  for (std::int64_t age = 0; age < 4; ++age) {
    EXPECT_EQ(restored.values(age)[0], static_cast<float>(7 - age));
  }
  EXPECT_EQ(restored.optimizers[7 % 2].steps->load(), 6);
}

// Lanes 0, 1, 2 have had 3, 3 and 2 tickets; a lane of a run that has just begun has none.
TEST_F(SnapshotTest, OfAStatefulRunKeepsWhatTheNewestTicketOfEachLaneLeft) {
  config_.dataset = "adding-stream";
  config_.stateful = true;
  config_.lanes = 3;
  config_.batch_size = 4;
  for (const std::int64_t tickets : {8, 2}) {
    shm::Arena arena = shm::Arena::create("test", TrainingMemory::capacity(config_, model_));
    const TrainingMemory memory = TrainingMemory::create(arena, config_, model_);
    for (std::int64_t ticket = 0; ticket < tickets; ++ticket) {
      memory.states->leave(ticket, [&](std::span<float> place) {
        for (float& value : place) value = static_cast<float>(ticket) + 0.5F;
      });
    }
    const SafetensorsFile file = open_checkpoint(save(take_snapshot(memory, tickets, 0)));
    EXPECT_EQ(file.at("streams/state").shape, (std::vector<std::int64_t>{3, 2, 1, 4, 5}));

    shm::Arena other = shm::Arena::create("test", TrainingMemory::capacity(config_, model_));
    const TrainingMemory restored = TrainingMemory::create(other, config_, model_);
    restore_snapshot(read_snapshot(file, read_header(file), model_, true), restored);
    for (std::int64_t ticket = tickets; ticket < tickets + 3; ++ticket) {
      const auto found = restored.states->find(ticket - 3);
      ASSERT_EQ(found.empty(), ticket < 3) << ticket;
      if (ticket >= 3) {
        EXPECT_EQ(found[39], static_cast<float>(ticket - 3) + 0.5F);
      }
    }
    std::filesystem::remove_all(folder_);
  }
}

TEST_F(SnapshotTest, WithPrivateStateGoesToTheSlotsThereAre) {
  config_.optimizer_state = "private";
  const Snapshot snapshot = filled_snapshot();
  for (const std::int64_t workers : {1, 3}) {
    config_.workers = workers;
    shm::Arena arena = shm::Arena::create("test", TrainingMemory::capacity(config_, model_));
    TrainingMemory memory = TrainingMemory::create(arena, config_, model_);
    restore_snapshot(snapshot, memory);
    const Snapshot again = take_snapshot(memory, 12, 3);
    ASSERT_EQ(again.optimizers.size(), static_cast<std::size_t>(workers));
    EXPECT_EQ(again.optimizers[0], snapshot.optimizers[0]);
    if (workers == 3) {
      EXPECT_EQ(again.optimizers[1], snapshot.optimizers[1]);
      EXPECT_EQ(again.optimizers[2].steps, 0);
    }
  }
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
  EXPECT_EQ(again.optimizers, snapshot.optimizers);
  EXPECT_EQ(again.version, snapshot.version);
}

}  // namespace
}  // namespace passel::train
