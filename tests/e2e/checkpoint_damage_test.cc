#include <algorithm>

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

}  // namespace
}  // namespace passel::testing
