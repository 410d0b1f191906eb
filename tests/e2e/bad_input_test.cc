#include "small_run.h"

namespace passel::testing {
namespace {

struct Case {
  std::vector<std::string> options;
  int code;
  std::string says;
};

using BadInput = SmallRun;

TEST_F(BadInput, InOptionsIsRefusedBeforeAnythingIsMade) {
  const std::vector<Case> cases = {
      {{"--batch-size", "0"}, 2, "batch-size"},
      {{"--batch-size", "-3"}, 2, "batch-size"},
      {{"--batch-size", "many"}, 2, "batch-size"},
      {{"--batch-size", "99999999999999999999"}, 2, "batch-size"},
      {{"--batch-size", "201"}, 2, "200 training samples"},
      {{"--lr", "nan"}, 2, "lr"},
      {{"--lr", "-1"}, 2, "lr"},
      {{"--lr", "inf"}, 2, "lr"},
      {{"--epochs", "0"}, 2, "epochs"},
      {{"--workers", "0"}, 2, "workers"},
      {{"--workers", "1000000"}, 2, "workers"},
      {{"--workers", "11", "--epochs", "1"}, 2, "tickets (10)"},
      {{"--hidden-size", "-1"}, 2, "hidden-size"},
      {{"--optimizer", "adman"}, 2, "adam"},
      {{"--mode", "chaos"}, 2, "hogwild"},
      {{"--device", "cuda"}, 2, "cpu"},
      {{"--worker-timeout", "0"}, 2, "worker-timeout"},
      {{"--epoch", "3"}, 2, "--epochs"},
      {{"--no-such-option"}, 2, "no-such-option"},
      {{"--config", "/no/such/file"}, 2, "/no/such/file"},
      {{"--resume", "/no/such/file"}, 2, "/no/such/file"},
  };
  for (const Case& bad : cases) {
    const Finished finished = run_passel(train(bad.options));
    EXPECT_EQ(finished.code, bad.code) << bad.options[0] << ": " << finished.text;
    EXPECT_NE(finished.text.find(bad.says), std::string::npos)
        << "expected '" << bad.says << "' in: " << finished.text;
    EXPECT_FALSE(std::filesystem::exists(run())) << bad.options[0];
  }
}

TEST_F(BadInput, InDataFilesIsRefusedWithTheFilesName) {
  const auto images = data_ / "train-images-idx3-ubyte.gz";
  const auto labels = data_ / "train-labels-idx1-ubyte.gz";
  const auto refused = [&](const std::string& says) {
    const Finished finished = run_passel(train());
    EXPECT_EQ(finished.code, 3) << finished.text;
    EXPECT_NE(finished.text.find(says), std::string::npos)
        << "expected '" << says << "' in: " << finished.text;
    std::filesystem::remove_all(run());
    ImageSet{}.write(data_.path());
  };
  const Bytes whole = read_file(images);
  write_file(images, {whole.begin(), whole.begin() + whole.size() / 2});
  refused("train-images");
  Bytes garbled = whole;
  for (std::size_t i = 20; i < garbled.size(); i += 7) garbled[i] ^= 0x55;
  write_file(images, garbled);
  refused("train-images");
  write_file(labels, gzip(ImageSet{}.labels(199)));
  refused("train-labels");
  Bytes out_of_range = ImageSet{}.labels(200);
  out_of_range.back() = 10;
  write_file(labels, gzip(out_of_range));
  refused("train-labels");
  std::filesystem::remove(images);
  refused("dataset-fashion-mnist");
}

TEST_F(BadInput, InTheRunFolderIsRefused) {
  std::filesystem::create_directories(run());
  write_file(run() / "mine", {1, 2, 3});
  const Finished exists = run_passel(train());
  EXPECT_EQ(exists.code, 2) << exists.text;
  EXPECT_EQ(read_file(run() / "mine"), (Bytes{1, 2, 3}));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(run()), {}), 1);
  // Nobody, not even root, may make a folder there.
  auto arguments = train();
  arguments[4] = "/proc/passel-run";
  EXPECT_EQ(run_passel(arguments).code, 2);
}

TEST_F(BadInput, OfAResumePastTheEndIsRefused) {
  ASSERT_EQ(run_passel(train({"--max-tickets", "20", "--epochs", "2"})).code, 0);
  for (const char* total : {"5", "20"}) {
    const Finished finished =
        run_passel(train({"--epochs", "2", "--max-tickets", total, "--resume", run()}, "more"));
    EXPECT_EQ(finished.code, 2) << finished.text;
    EXPECT_NE(finished.text.find("tickets left"), std::string::npos) << finished.text;
    EXPECT_FALSE(std::filesystem::exists(run("more")));
  }
}

TEST_F(BadInput, OfAFolderThatIsBeingTrainedInIsRefused) {
  PasselProgram program(long_train({"--checkpoint-interval", "10"}), text_file());
  ASSERT_TRUE(trained(20)) << program.text();
  const Finished second = run_passel({"resume", run()});
  EXPECT_EQ(second.code, 2) << second.text;
  EXPECT_NE(second.text.find("another process"), std::string::npos) << second.text;
}

TEST_F(BadInput, InTargetsOfOtherCommandsIsRefused) {
  for (const char* command : {"eval", "inspect", "export", "resume"}) {
    const Finished missing = run_passel({command, run("none")});
    EXPECT_TRUE(missing.code == 2 || missing.code == 3) << command << ": " << missing.text;
    EXPECT_NE(missing.text.find("none"), std::string::npos) << missing.text;
    EXPECT_EQ(run_passel({command, data_.path()}).code, 3) << command;
  }
  EXPECT_EQ(run_passel({}).code, 2);
  EXPECT_EQ(run_passel({"fly"}).code, 2);
}

}  // namespace
}  // namespace passel::testing
