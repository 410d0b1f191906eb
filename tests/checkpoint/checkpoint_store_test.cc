#include "passel/train/checkpoint_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "checkpoint/file_bytes.h"
#include "data/expect_error.h"
#include "data/temporary_folder.h"
#include "passel/train/atomic_file.h"
#include "passel/train/errors.h"

namespace passel::train {
namespace {

using passel::testing::bytes_of;
using passel::testing::expect_error;
using passel::testing::FileSizeLimit;
using passel::testing::names_in;
using passel::testing::read_text;
using passel::testing::write_text;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Checkpoints : public ::testing::Test {
 protected:
  CheckpointStore store(int keep_last = 3) {
    return CheckpointStore(folder(), keep_last,
                           [this](const std::string& text) { reports_.push_back(text); });
  }

  std::filesystem::path folder() const { return root_ / "checkpoints"; }

  std::filesystem::path save(CheckpointStore& store, std::int64_t ticket,
                             std::optional<double> score = std::nullopt,
                             bool higher_is_better = true) {
    std::vector<float> values(1000);
    std::iota(values.begin(), values.end(), static_cast<float>(ticket));
    return store.save({.ticket = ticket,
                       .epoch = ticket / 100,
                       .score = score,
                       .higher_is_better = higher_is_better,
                       .path = {}},
                      std::vector<TensorView>{{"w", DType::kF32, {1000}, bytes_of(values)}},
                      {{"mode", "ordered"}});
  }

  static void damage(const std::filesystem::path& path) {
    std::string bytes = read_text(path);
    bytes[bytes.size() / 2] ^= 1;
    write_text(path, bytes);
  }

  passel::testing::TemporaryFolder root_;
  std::vector<std::string> reports_;
};

TEST_F(Checkpoints, SayAgainWhatWasSaved) {
  CheckpointStore saving = store();
  EXPECT_EQ(save(saving, 1234, 0.1), folder() / "checkpoint-000001234.safetensors");
  const auto latest = store().latest();
  ASSERT_TRUE(latest);
  EXPECT_EQ(latest->ticket, 1234);
  EXPECT_EQ(latest->epoch, 12);
  EXPECT_EQ(latest->score, 0.1);
  EXPECT_TRUE(latest->higher_is_better);
  const SafetensorsFile file = open_checkpoint(latest->path);
  EXPECT_EQ(file.metadata().at("mode"), "ordered");
  EXPECT_EQ(file.at("w").shape, (std::vector<std::int64_t>{1000}));
  EXPECT_THAT(reports_, IsEmpty());
}

TEST_F(Checkpoints, AreNoneInAFolderThatIsMissingOrEmpty) {
  EXPECT_FALSE(store().latest());
  EXPECT_FALSE(store().best());
  EXPECT_FALSE(std::filesystem::exists(folder()));
  std::filesystem::create_directory(folder());
  EXPECT_FALSE(store().latest());
}

TEST_F(Checkpoints, KeepTheLastOnesAndTheBest) {
  CheckpointStore saving = store(2);
  save(saving, 100, 0.5);
  save(saving, 200, 0.9);
  save(saving, 300, 0.7);
  save(saving, 999'999'999, 0.8);
  save(saving, 1'000'000'000, 0.8);
  EXPECT_THAT(names_in(folder()),
              ElementsAre("best.safetensors", "checkpoint-1000000000.safetensors",
                          "checkpoint-999999999.safetensors"));
  EXPECT_EQ(store().latest()->ticket, 1'000'000'000);
  EXPECT_EQ(store().best()->ticket, 200);
  EXPECT_EQ(store().best()->score, 0.9);
}

TEST_F(Checkpoints, KnowTheBestOfAnEarlierRunOfTheProgram) {
  CheckpointStore first = store();
  save(first, 100, 0.9);
  CheckpointStore second = store();
  save(second, 200, 0.8);
  EXPECT_EQ(store().best()->ticket, 100);
  save(second, 300, 0.95);
  EXPECT_EQ(store().best()->ticket, 300);
}

TEST_F(Checkpoints, MayCallTheLowestScoreTheBest) {
  CheckpointStore saving = store();
  save(saving, 100, 0.5, false);
  save(saving, 200, 0.7, false);
  EXPECT_EQ(store().best()->ticket, 100);
  save(saving, 300, 0.4, false);
  EXPECT_EQ(store().best()->ticket, 300);
}

TEST_F(Checkpoints, AreNeverTheBestWithoutANumberForAScore) {
  CheckpointStore saving = store();
  save(saving, 100);
  save(saving, 200, std::nan(""));
  EXPECT_FALSE(store().best());
  EXPECT_TRUE(std::isnan(*store().latest()->score));
  save(saving, 300, -INFINITY);
  EXPECT_EQ(store().best()->ticket, 300);
}

TEST_F(Checkpoints, FallBackToTheOneBeforeADamagedOne) {
  CheckpointStore saving = store();
  save(saving, 100);
  save(saving, 200);
  damage(save(saving, 300));
  EXPECT_EQ(store().latest()->ticket, 200);
  ASSERT_EQ(reports_.size(), 1U);
  EXPECT_THAT(reports_[0], ::testing::AllOf(HasSubstr("checkpoint-000000300.safetensors"),
                                            HasSubstr("checksum"), HasSubstr("is passed over")));
}

TEST_F(Checkpoints, FallBackToTheBestWhereItIsNewerThanWhatIsLeft) {
  CheckpointStore saving = store();
  save(saving, 100, 0.5);
  damage(save(saving, 200, 0.6));
  EXPECT_EQ(store().latest()->path, folder() / "best.safetensors");
  damage(folder() / "best.safetensors");
  EXPECT_EQ(store().latest()->ticket, 100);
}

TEST_F(Checkpoints, DoNotFallBackToABestOfAFutureThatWasGivenUp) {
  CheckpointStore saving = store();
  save(saving, 500, 0.9);
  save(saving, 100, 0.5);
  damage(save(saving, 200, 0.6));
  EXPECT_EQ(store().latest()->ticket, 100);
}

TEST_F(Checkpoints, AreRefusedWhereNoneIsUsable) {
  CheckpointStore saving = store();
  damage(save(saving, 100));
  damage(save(saving, 200));
  expect_error<DataError>([&] { store().latest(); }, {folder().string(), "all 2", "damaged"});
  EXPECT_EQ(reports_.size(), 2U);
}

TEST_F(Checkpoints, OfAFutureThatWasGivenUpAreDeleted) {
  CheckpointStore saving = store(2);
  for (const std::int64_t ticket : {100, 200, 300}) {
    save(saving, ticket);
  }
  CheckpointStore resumed = store(2);
  save(resumed, 250);
  EXPECT_THAT(names_in(folder()),
              ElementsAre("checkpoint-000000200.safetensors", "checkpoint-000000250.safetensors"));
}

TEST_F(Checkpoints, LeaveOtherFilesAlone) {
  std::filesystem::create_directory(folder());
  const std::set<std::string> others{"checkpoint-12.safetensors", "checkpoint-abc.safetensors",
                                     "notes.txt", "checkpoint-0000000012.safetensors"};
  for (const std::string& name : others) {
    write_text(folder() / name, "mine");
  }
  CheckpointStore saving = store(1);
  save(saving, 100);
  save(saving, 200);
  std::set<std::string> expected = others;
  expected.insert("checkpoint-000000200.safetensors");
  EXPECT_EQ(names_in(folder()), expected);
}

TEST_F(Checkpoints, StandWhereTheDiskIsFull) {
  CheckpointStore saving = store(1);
  save(saving, 100, 0.5);
  const auto before = names_in(folder());
  {
    const FileSizeLimit full(2048);
    EXPECT_THROW(save(saving, 200, 0.6), FileError);
  }
  EXPECT_EQ(names_in(folder()), before);
  EXPECT_EQ(store().latest()->ticket, 100);
  EXPECT_EQ(store().best()->ticket, 100);
  save(saving, 200, 0.6);
  EXPECT_EQ(store().best()->ticket, 200);
}

TEST_F(Checkpoints, AreSavedAgainOnceTheFullDiskHasRoom) {
  CheckpointStore saving = store(1);
  for (std::int64_t ticket = 100; ticket < 1000; ticket += 100) {
    if (ticket % 300 == 0) {
      save(saving, ticket, 0.001 * static_cast<double>(ticket));
      EXPECT_EQ(store().latest()->ticket, ticket);
      EXPECT_EQ(store().best()->ticket, ticket);
      EXPECT_EQ(names_in(folder()).size(), 2U);
    } else {
      const FileSizeLimit full(2048);
      EXPECT_THROW(save(saving, ticket, 1), FileError);
    }
  }
}

TEST_F(Checkpoints, OfOneTicketReplaceEachOther) {
  CheckpointStore saving = store();
  save(saving, 100, 0.5);
  const std::string first = read_text(save(saving, 100, 0.5));
  save(saving, 100, 0.4);
  EXPECT_EQ(store().latest()->score, 0.4);
  EXPECT_EQ(store().best()->score, 0.5);
  EXPECT_EQ(read_text(folder() / "best.safetensors"), first);
  EXPECT_THAT(names_in(folder()),
              ElementsAre("best.safetensors", "checkpoint-000000100.safetensors"));
}

TEST_F(Checkpoints, AreFilesThatAreWholeNotAnythingOfTheirName) {
  CheckpointStore saving = store(2);
  save(saving, 100);
  const std::filesystem::path empty = folder() / "checkpoint-000000200.safetensors";
  std::filesystem::create_directories(folder() / "checkpoint-000000300.safetensors" / "data");
  std::filesystem::create_symlink("nowhere", folder() / "checkpoint-000000400.safetensors");
  write_text(empty, "");
  EXPECT_EQ(store().latest()->ticket, 100);
  EXPECT_EQ(reports_.size(), 3U);
  std::filesystem::remove(empty);

  save(saving, 500);
  EXPECT_EQ(store().latest()->ticket, 500);
  EXPECT_THAT(names_in(folder()), ::testing::Contains("checkpoint-000000100.safetensors"))
      << "what is no checkpoint is not counted among those that are kept";
  std::filesystem::remove(folder() / "checkpoint-000000500.safetensors");
  std::filesystem::remove(folder() / "checkpoint-000000100.safetensors");
  expect_error<DataError>([&] { store().latest(); }, {folder().string(), "all 2"});
}

TEST_F(Checkpoints, AreSavedWhereNoBestCanBe) {
  std::filesystem::create_directories(folder() / "best.safetensors" / "data");
  CheckpointStore saving = store();
  save(saving, 100, 0.5);
  EXPECT_EQ(store().latest()->ticket, 100);
  EXPECT_THAT(reports_, ::testing::Contains(HasSubstr("best.safetensors")));
  std::filesystem::remove_all(folder() / "best.safetensors");
  save(saving, 200, 0.4);
  EXPECT_EQ(store().best()->ticket, 200);
}

TEST_F(Checkpoints, AreSavedIntoAFolderThatWasRemovedMeanwhile) {
  CheckpointStore saving = store();
  save(saving, 100, 0.9);
  std::filesystem::remove_all(folder());
  save(saving, 200, 0.5);
  EXPECT_EQ(store().latest()->ticket, 200);
  EXPECT_EQ(store().best()->ticket, 200);
  ASSERT_EQ(reports_.size(), 1U);
  EXPECT_THAT(reports_[0], HasSubstr("removed"));

  std::filesystem::remove_all(folder());
  write_text(folder(), "a file");
  expect_error<FileError>([&] { save(saving, 300); }, {folder().string(), "Not a directory"});
  std::filesystem::remove(folder());
  save(saving, 400);
  EXPECT_EQ(store().latest()->ticket, 400);
}

TEST_F(Checkpoints, LeaveABestOfANewerFormatAlone) {
  CheckpointStore saving = store();
  save(saving, 100);
  const std::filesystem::path best = folder() / "best.safetensors";
  write_safetensors(best, {}, {{"passel.format_version", "2"}, {"passel.ticket", "200"}});
  const std::string newer = read_text(best);
  CheckpointStore resumed = store();
  save(resumed, 200, 0.9);
  EXPECT_EQ(read_text(best), newer);
  EXPECT_THAT(reports_, ElementsAre(::testing::AllOf(HasSubstr("format 2"), HasSubstr("left"))));
  EXPECT_EQ(store().latest()->ticket, 200);
}

TEST_F(Checkpoints, OfANewerFormatAreRefusedAndNotPassedOver) {
  CheckpointStore saving = store();
  save(saving, 100);
  const std::filesystem::path newer = folder() / "checkpoint-000000200.safetensors";
  write_safetensors(newer, {}, {{"passel.format_version", "2"}, {"passel.ticket", "200"}});
  const std::vector<std::string> words{newer.string(), "format 2", "up to 1", "use the version"};
  expect_error<DataError>([&] { open_checkpoint(newer); }, words);
  expect_error<DataError>([&] { store().latest(); }, words);
}

TEST_F(Checkpoints, AreToldFromOtherSafetensors) {
  const std::filesystem::path path = root_ / "other.safetensors";
  const auto expect_refusal = [&](const Metadata& metadata, const std::string& word) {
    write_safetensors(path, {}, metadata);
    expect_error<DataError>([&] { checkpoint_info(open_checkpoint(path)); }, {path.string(), word});
  };
  Metadata metadata;
  expect_refusal(metadata, "passel.format_version");
  metadata["passel.format_version"] = "one";
  expect_refusal(metadata, "\"one\"");
  metadata["passel.format_version"] = "0";
  expect_refusal(metadata, "format 0");
  metadata["passel.format_version"] = "1";
  expect_refusal(metadata, "passel.ticket");
  metadata["passel.ticket"] = "-5";
  expect_refusal(metadata, "\"-5\"");
  metadata["passel.ticket"] = "5";
  metadata["passel.epoch"] = "99999999999999999999";
  expect_refusal(metadata, "passel.epoch");
  metadata["passel.epoch"] = "0";
  expect_refusal(metadata, "passel.higher_is_better");
  metadata["passel.higher_is_better"] = "true";
  metadata["passel.score"] = "good";
  expect_refusal(metadata, "\"good\"");
}

TEST_F(Checkpoints, AreRefusedWithoutChecksums) {
  const std::string header =
      R"({"__metadata__":{"passel.format_version":"1","passel.ticket":"5","passel.epoch":"0"}})";
  const std::filesystem::path path = root_ / "stripped.safetensors";
  write_text(path,
             std::string(1, static_cast<char>(header.size())) + std::string(7, '\0') + header);
  expect_error<DataError>([&] { open_checkpoint(path); }, {path.string(), "checksums"});
}

TEST_F(Checkpoints, RefuseToKeepNothing) {
  expect_error<UsageError>([&] { store(0); }, {"at least 1", "not 0"});
}

}  // namespace
}  // namespace passel::train
