#include <sys/resource.h>

#include <algorithm>
#include <csignal>

#include "passel/train/checkpoint_store.h"
#include "small_run.h"

namespace passel::testing {
namespace {

class CheckpointDamage : public SmallRun {
 protected:
  void SetUp() override {
    SmallRun::SetUp();
    ASSERT_EQ(run_passel(train({"--epochs", "2"})).code, 0);
    newest_ = run() / "checkpoints" / "checkpoint-000000020.safetensors";
    whole_ = read_file(newest_);
  }

  void expect_refused(const Bytes& bytes, const std::string& what) {
    const auto file = folder_ / "damaged.safetensors";
    write_file(file, bytes);
    for (const char* command : {"eval", "export"}) {
      const Finished finished = run_passel({command, file});
      EXPECT_EQ(finished.code, 3) << what << ": " << finished.text;
      EXPECT_NE(finished.text.find("damaged.safetensors"), std::string::npos) << finished.text;
    }
  }

  std::filesystem::path newest_;
  Bytes whole_;
};

TEST_F(CheckpointDamage, ByTruncationIsRefused) {
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{5}, std::size_t{200}, whole_.size() / 2, whole_.size() - 1}) {
    expect_refused({whole_.begin(), whole_.begin() + static_cast<std::ptrdiff_t>(size)},
                   "cut to " + std::to_string(size));
  }
}

TEST_F(CheckpointDamage, ByAFlippedBitIsRefused) {
  for (const std::size_t at :
       {std::size_t{3}, std::size_t{60}, whole_.size() / 2, whole_.size() - 3}) {
    Bytes flipped = whole_;
    flipped[at] ^= 0x10;
    expect_refused(flipped, "bit flipped at " + std::to_string(at));
  }
}

TEST_F(CheckpointDamage, OfTheNewestFallsBackToTheOneBefore) {
  Bytes flipped = whole_;
  flipped[whole_.size() / 2] ^= 1;
  write_file(newest_, flipped);
  std::filesystem::remove(run() / "checkpoints" / "best.safetensors");
  const Finished resumed = run_passel({"resume", run(), "--epochs", "3"});
  ASSERT_EQ(resumed.code, 0) << resumed.text;
  EXPECT_NE(resumed.text.find("checkpoint-000000020"), std::string::npos)
      << "names the damaged one: " << resumed.text;
  EXPECT_EQ(summary().at("tickets"), 30);
  EXPECT_EQ(summary().at("samples"), 20 * 20) << "went on from ticket 10";
}

// A name and a number do not make a checkpoint.
TEST_F(CheckpointDamage, OfAllThereIsEndsAResumeWithTheirNames) {
  const auto checkpoints = run() / "checkpoints";
  std::filesystem::remove_all(checkpoints);
  std::filesystem::create_directories(checkpoints / "checkpoint-000000030.safetensors" / "data");
  write_file(checkpoints / "checkpoint-000000020.safetensors", {});
  for (const char* command : {"resume", "eval", "inspect", "export"}) {
    const Finished finished = run_passel({command, run()});
    EXPECT_EQ(finished.code, 3) << command << ": " << finished.text;
    for (const char* says : {"checkpoint-000000030", "checkpoint-000000020", "all 2"}) {
      EXPECT_NE(finished.text.find(says), std::string::npos) << says << " in " << finished.text;
    }
  }
}

TEST_F(CheckpointDamage, IsNotWhatANewerFormatIs) {
  const auto newer = run() / "checkpoints" / "checkpoint-000000030.safetensors";
  train::write_safetensors(
      newer, {}, {{"passel.format_version", std::to_string(train::kCheckpointFormatVersion + 1)}});
  for (const char* command : {"resume", "eval", "inspect", "export"}) {
    for (const auto& target : {newer, run()}) {
      if (target == newer && std::string(command) == "resume") continue;  // takes folders only
      const Finished finished = run_passel({command, target});
      EXPECT_EQ(finished.code, 3) << command << ": " << finished.text;
      EXPECT_NE(finished.text.find("reads formats up to"), std::string::npos) << finished.text;
      EXPECT_NE(finished.text.find("checkpoint-000000030"), std::string::npos) << finished.text;
    }
  }
  EXPECT_TRUE(std::filesystem::exists(newer));
}

TEST_F(CheckpointDamage, OfAnotherShapeIsRefusedWithBothShapes) {
  const Finished finished =
      run_passel({"train", "--data", data_.path(), "--out", run("other"), "--hidden-size", "17",
                  "--batch-size", "20", "--resume", newest_});
  EXPECT_EQ(finished.code, 3) << finished.text;
  EXPECT_NE(finished.text.find("17"), std::string::npos) << finished.text;
  EXPECT_FALSE(std::filesystem::exists(run("other")));
}

TEST_F(CheckpointDamage, WithOtherTicketsIsRefused) {
  for (const auto& option : {"--seed", "--batch-size"}) {
    std::vector<std::string> arguments = train({"--resume", newest_}, "other");
    arguments.insert(arguments.end(), {option, "7"});
    if (std::string(option) == "--batch-size")
      arguments.erase(arguments.begin() + 7, arguments.begin() + 9);
    const Finished finished = run_passel(arguments);
    EXPECT_EQ(finished.code, 2) << finished.text;
  }
}

using LostSave = SmallRun;

/// Waits until a checkpoint of a later ticket than `ticket` is reported; its ticket.
std::int64_t next_checkpoint(const std::filesystem::path& run, std::int64_t ticket) {
  std::int64_t found = 0;
  eventually_in(run, [&](const auto& all) {
    for (const auto& event : all) {
      if (event.at("event") == "checkpoint") found = event.at("ticket");
    }
    return found > ticket;
  });
  return found;
}

TEST_F(LostSave, OnAFullDiskIsFollowedByOthersOnceThereIsRoom) {
  PasselProgram program(long_train({"--checkpoint-interval", "10"}), text_file());
  const std::int64_t first = next_checkpoint(run(), 0);
  ASSERT_GT(first, 0) << program.text();
  rlimit before{};
  const rlimit full{2048, RLIM_INFINITY};
  ASSERT_EQ(prlimit(program.pid(), RLIMIT_FSIZE, &full, &before), 0);
  ASSERT_TRUE(eventually([&] { return program.text().find("was not saved") != std::string::npos; }))
      << program.text();
  EXPECT_NE(program.text().find("File too large"), std::string::npos) << program.text();
  ASSERT_EQ(prlimit(program.pid(), RLIMIT_FSIZE, &before, nullptr), 0);

  const std::int64_t later = next_checkpoint(run(), next_checkpoint(run(), first));
  EXPECT_GT(later, first);
  program.signal(SIGINT);
  const Finished finished = program.wait();
  EXPECT_EQ(finished.code, 130) << finished.text;
  EXPECT_EQ(run_passel({"eval", run()}).code, 0);
  for (const auto& entry : std::filesystem::directory_iterator(run() / "checkpoints")) {
    EXPECT_EQ(entry.path().string().find(".tmp."), std::string::npos) << entry.path();
  }
}

TEST_F(LostSave, WithItsWholeFolderIsFollowedByOthersInANewOne) {
  PasselProgram program(long_train({"--checkpoint-interval", "10"}), text_file());
  const std::int64_t first = next_checkpoint(run(), 0);
  ASSERT_GT(first, 0) << program.text();
  ASSERT_TRUE(eventually([&] {
    std::error_code error;  // a file that is being saved may vanish by itself
    std::filesystem::remove_all(run(), error);
    return !error;
  }));
  const std::int64_t later = next_checkpoint(run(), first);
  EXPECT_GT(later, first) << program.text();
  program.signal(SIGINT);
  const Finished finished = program.wait();
  EXPECT_EQ(finished.code, 130) << finished.text;
  EXPECT_NE(finished.text.find("was removed"), std::string::npos) << finished.text;

  const train::CheckpointStore store(run() / "checkpoints");
  const auto saved = store.latest();
  ASSERT_TRUE(saved);
  EXPECT_GE(saved->ticket, later);
  const std::string total = std::to_string(saved->ticket + 5);
  const Finished resumed = run_passel(
      train({"--epochs", "20000", "--max-tickets", total, "--resume", saved->path}, "other"));
  EXPECT_EQ(resumed.code, 0) << resumed.text;
}

}  // namespace
}  // namespace passel::testing
