#include "options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "command_line.h"
#include "passel/train/config_fields.h"

namespace passel::train {
namespace {

using test::answer_to;
using test::command_of;
using testing::AllOf;
using testing::HasSubstr;
using Kind = Command::Kind;

/// A file that is gone after the test.
class TempFile {
 public:
  explicit TempFile(const std::string& text) {
    path_ = (std::filesystem::temp_directory_path() / "passel-options-XXXXXX").string();
    const int fd = ::mkstemp(path_.data());
    if (fd < 0) throw std::runtime_error("mkstemp failed");
    ::close(fd);
    std::ofstream(path_) << text;
  }
  ~TempFile() { std::filesystem::remove(path_); }
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(Options, TrainWithoutOptionsHasTheDefaults) {
  const Command command = command_of({"train"});
  EXPECT_EQ(command.kind, Kind::kTrain);
  EXPECT_EQ(command.config, Config{});
  EXPECT_FALSE(command.print_config);
}

TEST(Options, SimulatedWorkersAreWorkersWithoutProcesses) {
  const Command train = command_of({"train", "--mode", "ordered", "--simulate-workers", "3"});
  EXPECT_TRUE(train.simulate);
  EXPECT_EQ(train.config.workers, 3);
  EXPECT_FALSE(command_of({"train", "--workers", "3"}).simulate);
  for (const char* name : {"resume", "verify", "replay"}) {
    const Command command = command_of({name, "run", "--simulate-workers", "5"});
    EXPECT_TRUE(command.simulate) << name;
    EXPECT_EQ(command.overrides.workers, 5) << name;
  }
}

TEST(Options, TrainTakesEveryOption) {
  Config expected;
  expected.dataset = "adding";
  expected.data = "d";
  expected.adding_steps = 100;
  expected.hidden_size = 64;
  expected.epochs = 3;
  expected.batch_size = 16;
  expected.max_tickets = 1000;
  expected.optimizer = "sgd";
  expected.lr = 0.1;
  expected.lr_schedule = "cosine";
  expected.lr_warmup = 100;
  expected.lr_step = 2;
  expected.lr_gamma = 0.5;
  expected.lr_min = 0.01;
  expected.dropout = 0.25;
  expected.staleness_lr = 0.5;
  expected.momentum_correction = true;
  expected.momentum = 0.9;
  expected.weight_decay = 1e-4;
  expected.clip_norm = 0;
  expected.seed = 18446744073709551615u;
  expected.workers = 4;
  expected.device = "cuda:0,1";
  expected.no_cuda_ipc = true;
  expected.workers_per_device = 2;
  expected.worker_timeout = 2.5;
  expected.max_respawns = 0;
  expected.out = "o";
  expected.resume = "r";
  expected.log_interval = 10;
  expected.keep_checkpoints = 1;
  expected.checkpoint_interval = 500;
  expected.dry_run = true;
  expected.quiet = true;
  const Command command = command_of({"train",
                                      "--dataset",
                                      "adding",
                                      "--data",
                                      "d",
                                      "--adding-steps",
                                      "100",
                                      "--hidden-size",
                                      "64",
                                      "--epochs",
                                      "3",
                                      "--batch-size",
                                      "16",
                                      "--max-tickets",
                                      "1000",
                                      "--optimizer",
                                      "sgd",
                                      "--lr",
                                      "0.1",
                                      "--lr-schedule",
                                      "cosine",
                                      "--lr-warmup",
                                      "100",
                                      "--lr-step",
                                      "2",
                                      "--lr-gamma",
                                      "0.5",
                                      "--lr-min",
                                      "0.01",
                                      "--dropout",
                                      "0.25",
                                      "--staleness-lr",
                                      "0.5",
                                      "--momentum-correction",
                                      "--momentum=0.9",
                                      "--weight-decay",
                                      "1e-4",
                                      "--clip-norm",
                                      "0",
                                      "--seed",
                                      "18446744073709551615",
                                      "--mode",
                                      "hogwild",
                                      "--device",
                                      "cuda:0,1",
                                      "--no-cuda-ipc",
                                      "--workers-per-device",
                                      "2",
                                      "--num-processes",
                                      "4",
                                      "--worker-timeout",
                                      "2.5",
                                      "--max-respawns",
                                      "0",
                                      "--out",
                                      "o",
                                      "--resume",
                                      "r",
                                      "--log-interval",
                                      "10",
                                      "--keep-checkpoints",
                                      "1",
                                      "--checkpoint-interval",
                                      "500",
                                      "--dry-run",
                                      "--quiet",
                                      "--print-config"});
  EXPECT_EQ(command.config, expected);
  EXPECT_TRUE(command.print_config);
}

TEST(Options, WorkersIsAnotherNameForNumProcesses) {
  EXPECT_EQ(command_of({"train", "--workers", "7"}).config.workers, 7);
  EXPECT_EQ(command_of({"train", "--num-processes", "7"}).config.workers, 7);
}

TEST(Options, TheLastOfRepeatedOptionsWins) {
  EXPECT_EQ(command_of({"train", "--lr", "1", "--lr", "2"}).config.lr, 2);
}

TEST(Options, FlagsTakeFalse) {
  EXPECT_FALSE(command_of({"train", "--quiet=false"}).config.quiet);
}

TEST(Options, PathsKeepTheirBytes) {
  EXPECT_EQ(command_of({"train", "--out", "[a, b] c"}).config.out, "[a, b] c");
  EXPECT_EQ(command_of({"eval", "runs/a b"}).target, "runs/a b");
}

TEST(Options, OptionsWinOverTheConfigurationFile) {
  const TempFile file("workers = 3\nlr = 0.5\noptimizer = \"sgd\"\nquiet = true\n");
  const Config config =
      command_of({"train", "--lr", "0.25", "--config", file.path(), "--quiet=false"}).config;
  EXPECT_EQ(config.workers, 3);
  EXPECT_EQ(config.lr, 0.25);
  EXPECT_EQ(config.optimizer, "sgd");
  EXPECT_FALSE(config.quiet);
}

TEST(Options, OptionsMayCompleteAConfigurationFile) {
  const TempFile file("momentum = 0.9\n");
  EXPECT_EQ(command_of({"train", "--config", file.path(), "--optimizer", "sgd"}).config.momentum,
            0.9);
}

TEST(Options, ThePrintedConfigurationReadsBackTheSame) {
  const Config config = command_of({"train", "--lr", "0.1", "--seed", "18446744073709551615",
                                    "--out", "a \"b\" #c", "--dry-run"})
                            .config;
  const TempFile file(to_toml(config));
  EXPECT_EQ(command_of({"train", "--config", file.path()}).config, config);
}

TEST(Options, OtherCommandsTakeATarget) {
  EXPECT_EQ(command_of({"eval", "runs/a"}).kind, Kind::kEval);
  EXPECT_EQ(command_of({"resume", "runs/a"}).kind, Kind::kResume);
  EXPECT_EQ(command_of({"inspect", "runs/a"}).kind, Kind::kInspect);
  EXPECT_EQ(command_of({"export", "runs/a"}).kind, Kind::kExport);
  EXPECT_EQ(command_of({"inspect", "runs/a"}).target, "runs/a");
  EXPECT_EQ(command_of({"eval", "eval"}).target, "eval");
  EXPECT_EQ(command_of({"eval", "--", "-odd-name"}).target, "-odd-name");
}

TEST(Options, EvalTakesAnotherDataFolder) {
  EXPECT_FALSE(command_of({"eval", "runs/a"}).data);
  EXPECT_EQ(command_of({"eval", "runs/a", "--data", "d"}).data, "d");
}

TEST(Options, ExportTakesAnOutputFile) {
  EXPECT_EQ(command_of({"export", "runs/a"}).output, "");
  EXPECT_EQ(command_of({"export", "runs/a", "-o", "m.pt"}).output, "m.pt");
  EXPECT_EQ(command_of({"export", "--output", "m.pt", "runs/a"}).output, "m.pt");
}

TEST(Options, ResumeTakesWhatMayChange) {
  const Overrides none = command_of({"resume", "runs/a"}).overrides;
  EXPECT_FALSE(none.data || none.epochs || none.max_tickets || none.workers || none.log_interval ||
               none.worker_timeout || none.quiet);
  const Overrides all =
      command_of({"resume", "runs/a", "--workers", "3", "--epochs", "9", "--max-tickets", "5",
                  "--worker-timeout", "1.5", "--log-interval", "2", "--quiet", "--data", "d"})
          .overrides;
  EXPECT_EQ(all.workers, 3);
  EXPECT_EQ(all.epochs, 9);
  EXPECT_EQ(all.max_tickets, 5);
  EXPECT_EQ(all.worker_timeout, 1.5);
  EXPECT_EQ(all.log_interval, 2);
  EXPECT_EQ(all.quiet, true);
  EXPECT_EQ(all.data, "d");
}

TEST(Options, VersionNamesPasselAndLibtorch) {
  EXPECT_THAT(answer_to({"--version"}),
              AllOf(HasSubstr("passel " PASSEL_VERSION), HasSubstr("libtorch 2.11.0")));
}

TEST(Options, HelpListsCommandsExamplesAndExitCodes) {
  const std::string help = answer_to({"--help"});
  for (const char* text : {"train", "eval", "resume", "inspect", "export", "Examples:",
                           "passel train --workers 4", "Exit codes: 0 done", "129, 130 and 143"}) {
    EXPECT_THAT(help, HasSubstr(text));
  }
}

TEST(Options, HelpOfACommandShowsItsTargetAndAnExample) {
  for (const char* command : {"eval", "resume", "inspect", "export"}) {
    EXPECT_THAT(answer_to({command, "--help"}),
                AllOf(HasSubstr("RUN"), HasSubstr(std::string("Example:\n  passel ") + command)));
  }
}

TEST(Options, HelpOfTrainShowsEveryOptionWithItsGroupAndDefault) {
  const std::string help = answer_to({"train", "--help"});
  for (const Field& field : config_fields()) {
    EXPECT_THAT(help, HasSubstr(option_name(field)));
    EXPECT_THAT(help, HasSubstr(std::string(field.group) + ":"));
  }
  for (const char* text :
       {"N=64", "RATE=0.002", "SECONDS=60", "NAME=adam", "--num-processes,--workers",
        "sgd, rmsprop, adagrad, adam, adamw", "Examples:"}) {
    EXPECT_THAT(help, HasSubstr(text));
  }
}

}  // namespace
}  // namespace passel::train
