#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>

#include "small_run.h"

namespace passel::testing {
namespace {

struct Case {
  std::vector<std::string> options;
  int code;
  std::string says;
};

using BadInput = SmallRun;

/// Runs a line of the shell, in which $PASSEL is the program; what it leaves on stdout.
Finished run_shell(const std::string& line) {
  const std::string command = "PASSEL=" PASSEL_PROGRAM "; " + line;
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("popen failed");
  std::string text;
  std::array<char, 4096> part;
  while (const std::size_t got = fread(part.data(), 1, part.size(), pipe)) {
    text.append(part.data(), got);
  }
  const int status = pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), text};
}

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
      {{"--device", "gpu"}, 2, "cpu, cuda, or cuda:N"},
      {{"--device", "cuda:0,0"}, 2, "each one once"},
      {{"--workers-per-device", "2"}, 2, "device cpu"},
      {{"--no-cuda-ipc"}, 2, "device cpu"},
      {{"--atomic-adds"}, 2, "device cpu"},
      {{"--empty-cache"}, 2, "device cpu"},
      {{"--device", "cuda", "--workers-per-device", "2", "--workers", "3"}, 2, "expected 2"},
      {{"--device", "cuda", "--workers", "300"}, 2, "at most 255"},
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

// A FIFO that is waited for would keep the program from being stopped as well.
TEST_F(BadInput, ThatIsNoRegularFileIsNamedAndNotWaitedFor) {
  const std::filesystem::path fifo = run("fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const std::vector<std::pair<std::vector<std::string>, int>> cases = {
      {train({"--config", fifo}), 2},
      {train({"--resume", fifo}), 3},
      {{"resume", fifo}, 3},
      {{"eval", fifo}, 3},
      {{"inspect", fifo}, 3},
      {{"export", fifo}, 3},
      {{"train", "--out", fifo, "--dataset", "adding"}, 2}};
  for (const auto& [words, code] : cases) {
    const Finished finished = run_passel(words);
    EXPECT_EQ(finished.code, code) << words[0] << ": " << finished.text;
    EXPECT_NE(finished.text.find("a pipe or FIFO"), std::string::npos) << finished.text;
    EXPECT_FALSE(std::filesystem::exists(run()));
  }
  const Finished device = run_passel(train({"--resume", "/dev/zero"}));
  EXPECT_NE(device.text.find("a character device"), std::string::npos) << device.text;
}

TEST_F(BadInput, OfAnExportOntoADeviceLeavesItThere) {
  ASSERT_EQ(run_passel(train({"--max-tickets", "5"})).code, 0);
  const std::filesystem::path fifo = run("fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const Finished finished = run_passel({"export", run(), "-o", fifo});
  EXPECT_EQ(finished.code, 2) << finished.text;
  EXPECT_TRUE(std::filesystem::is_fifo(fifo));
}

TEST_F(BadInput, IsAStdoutThatCannotBeWritten) {
  ASSERT_EQ(run_passel(train({"--max-tickets", "5"})).code, 0);
  const std::string target = run();
  for (const std::string& words :
       {std::string("--help"), std::string("--version"), std::string("train --help"),
        std::string("train --print-config"), "inspect " + target, "eval " + target,
        "export " + target + " -o " + (folder_ / "model.pt").string()}) {
    const Finished full = run_shell("exec $PASSEL " + words + " 2>&1 >/dev/full");
    EXPECT_EQ(full.code, 1) << words;
    EXPECT_NE(full.text.find("No space left on device"), std::string::npos) << words << full.text;
    EXPECT_EQ(std::ranges::count(full.text, '\n'), 1) << words << ": " << full.text;
  }
}

TEST_F(BadInput, OfMoreMemoryThanThereIsIsOneSentence) {
  std::string words = "exec 2>&1; ulimit -v 4000000; exec $PASSEL";
  for (const std::string& word : train({"--max-tickets", "4"})) words += " " + word;
  const Finished model = run_shell(words + " --hidden-size 65536");
  EXPECT_EQ(model.code, 1) << model.text;
  EXPECT_NE(model.text.find("Lower --batch-size or --hidden-size"), std::string::npos);
  EXPECT_EQ(std::ranges::count(model.text, '\n'), 1) << model.text;
  const Finished steps = run_shell(words +
                                   " --dataset adding --adding-steps 1000 --hidden-size 512 "
                                   "--batch-size 20000 --workers 1");
  EXPECT_EQ(steps.code, 1) << steps.text;
  EXPECT_NE(steps.text.find("Lower --batch-size or --hidden-size"), std::string::npos);
  EXPECT_EQ(steps.text.find("frame #"), std::string::npos) << steps.text;
}

TEST_F(BadInput, OfALimitOfFileSizesNamesIt) {
  std::string words = "exec 2>&1; ulimit -f 100; exec $PASSEL";
  for (const std::string& word : train()) words += " " + word;
  const Finished limited = run_shell(words);
  EXPECT_EQ(limited.code, 1) << limited.text;
  EXPECT_NE(limited.text.find("ulimit -f"), std::string::npos) << limited.text;
  const Finished again = run_passel(train());
  EXPECT_EQ(again.code, 2);
  EXPECT_NE(again.text.find("a run without a checkpoint. Remove it"), std::string::npos)
      << again.text;
}

TEST_F(BadInput, KeepsItsExitCodeWhereNobodyCanBeTold) {
  ASSERT_EQ(run_passel(train({"--epochs", "2"})).code, 0);
  const Finished usage = run_shell("exec $PASSEL train --no-such-option 2>/dev/full");
  EXPECT_EQ(usage.code, 2);
  const Finished data = run_shell("exec $PASSEL resume " + data_.path().string() + " 2>/dev/full");
  EXPECT_EQ(data.code, 3);
  std::filesystem::resize_file(run() / "checkpoints" / "checkpoint-000000020.safetensors", 100);
  const Finished passed_over = run_shell("exec $PASSEL inspect " + run().string() + " 2>/dev/full");
  EXPECT_EQ(passed_over.code, 0);
  EXPECT_NE(passed_over.text.find("ticket "), std::string::npos) << passed_over.text;
}

// Only runs save before they stop. The signal is there before the program is, and blocked: it stays
// pending unless the program lets it through.
TEST_F(BadInput, DoesNotKeepASignalFromEndingOtherCommands) {
  ASSERT_EQ(run_passel(train({"--max-tickets", "5"})).code, 0);
  sigset_t stop;
  sigset_t before;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTERM);
  for (const char* command : {"eval", "inspect", "export"}) {
    pthread_sigmask(SIG_BLOCK, &stop, &before);
    PasselProgram program({command, run()}, text_file());
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    program.signal(SIGTERM);
    EXPECT_EQ(program.wait().code, 128 + SIGTERM) << command;
  }
}

// As when `| head` has seen enough.
TEST_F(BadInput, IsNoPipeWhoseReaderIsGoneButItIsNotSuccess) {
  const std::string fifo = run("fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  for (const char* words : {"--version", "train --help", "train --print-config"}) {
    const Finished finished = run_shell("exec 3<>" + fifo + " 4>" + fifo + " 3>&-; exec $PASSEL " +
                                        words + " 2>&1 >&4 4>&-");
    EXPECT_EQ(finished.code, 1) << words;
    EXPECT_EQ(finished.text, "") << words;
  }
}

// Three are open already; nine a run and one a worker come on top.
TEST_F(BadInput, IsALimitOfOpenFilesThatIsTooLow) {
  std::string words = "exec $PASSEL";
  for (const std::string& word : train({"--workers", "4", "--max-tickets", "8"}))
    words += " " + word;
  for (const char* few : {"8", "12", "15"}) {
    const Finished refused = run_shell(std::string("exec 2>&1; ulimit -n ") + few + "; " + words);
    EXPECT_EQ(refused.code, 2) << few << refused.text;
    EXPECT_NE(refused.text.find("open files"), std::string::npos) << refused.text;
    EXPECT_NE(refused.text.find("ulimit -n"), std::string::npos) << refused.text;
    EXPECT_FALSE(std::filesystem::exists(run())) << few;
  }
}

TEST_F(BadInput, OfTooManyWorkersForTheCpusIsAWarning) {
  std::string words = "exec taskset -c 0 $PASSEL";
  for (const std::string& word : train({"--workers", "3", "--max-tickets", "8"}))
    words += " " + word;
  const Finished finished = run_shell(words + " 2>&1");
  EXPECT_EQ(finished.code, 0) << finished.text;
  EXPECT_NE(finished.text.find("3 workers on 1 CPU:"), std::string::npos) << finished.text;
  const Finished resumed =
      run_shell("exec taskset -c 0 $PASSEL resume " + run().string() + " --max-tickets 10 2>&1");
  EXPECT_EQ(resumed.code, 0) << resumed.text;
  EXPECT_NE(resumed.text.find("3 workers on 1 CPU:"), std::string::npos) << resumed.text;
}

}  // namespace
}  // namespace passel::testing
