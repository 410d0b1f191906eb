#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "command_line.h"
#include "passel/train/adding_problem.h"
#include "passel/train/config_fields.h"

namespace passel::train {
namespace {

using test::refusal_of;
using test::Words;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

TEST(OptionErrors, NameTheOptionWhatWasExpectedAndWhatCame) {
  EXPECT_EQ(refusal_of({"train", "--batch-size", "-3"}),
            "--batch-size: expected a whole number from 1 to 1048576, got -3.");
  EXPECT_EQ(refusal_of({"train", "--workers", "0"}),
            "--workers: expected a whole number from 1 to 1024, got 0. Usual is one a core.");
  EXPECT_EQ(refusal_of({"train", "--lr", "nan"}),
            "--lr: expected a number greater than 0 and at most 1000, got nan."
            " Usual are 0.0001 to 0.1.");
  EXPECT_EQ(refusal_of({"train", "--optimizer", "adm"}),
            "--optimizer: expected one of sgd, rmsprop, adagrad, adam, adamw, got \"adm\"."
            " Did you mean adam?");
}

TEST(OptionErrors, NameTheModeThatAnOptionIsFor) {
  EXPECT_EQ(refusal_of({"train", "--mode", "sync", "--staleness", "3"}),
            "--staleness: expected it with --mode ordered only, got --mode sync. Leave out "
            "--staleness, or choose --mode ordered.");
  EXPECT_THAT(refusal_of({"train", "--staleness", "1"}), HasSubstr("got --mode hogwild"));
  EXPECT_THAT(refusal_of({"train", "--mode", "ordered", "--shards", "2"}),
              HasSubstr("--shards: expected it with --mode sync only, got --mode ordered"));
}

TEST(OptionErrors, RefuseSimulatedWorkersBesideOthersAndToBeKilled) {
  EXPECT_THAT(refusal_of({"train", "--simulate-workers", "3", "--workers", "2"}),
              HasSubstr("--simulate-workers: expected it without --workers, got both."));
  EXPECT_THAT(refusal_of({"verify", "run", "--chaos", "--simulate-workers", "3"}),
              HasSubstr("--simulate-workers: expected it without --chaos, got both."));
  EXPECT_THAT(refusal_of({"resume", "run", "--simulate-workers", "0"}),
              HasSubstr("--simulate-workers: expected a whole number from 1 to 1024, got 0."));
}

// Each numeric option times each kind of bad number.
TEST(OptionErrors, RefuseBadNumbersInOneShortLine) {
  const Words bad = {"",
                     " ",
                     "x",
                     "1x",
                     "1 2",
                     "0x10",
                     "--lr",
                     "nan",
                     "-nan",
                     "inf",
                     "-inf",
                     "1e999",
                     "1,5",
                     "٣",
                     std::string(500, '9'),
                     "-" + std::string(500, '9'),
                     "1\n2",
                     "-1"};
  for (const Field& field : config_fields()) {
    if (field.choices.size() > 0 ||
        std::holds_alternative<std::filesystem::path Config::*>(field.member) ||
        std::holds_alternative<bool Config::*>(field.member)) {
      continue;
    }
    for (const std::string& value : bad) {
      const std::string text = refusal_of({"train", option_name(field), value});
      EXPECT_THAT(text, AllOf(StartsWith(option_name(field) + ": expected "), HasSubstr(", got ")))
          << value;
      EXPECT_LT(text.size(), 200u) << text;
      EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    }
  }
}

TEST(OptionErrors, RefuseWholeNumbersWithFractions) {
  EXPECT_THAT(refusal_of({"train", "--epochs", "1.5"}), HasSubstr("got \"1.5\""));
  EXPECT_THAT(refusal_of({"train", "--seed", "-1"}),
              HasSubstr("from 0 to 18446744073709551615, got \"-1\""));
}

// The option and the data set have one limit.
TEST(OptionErrors, RefuseMoreStepsThanTheAddingProblemTakes) {
  EXPECT_EQ(AddingProblem(0, 1'000'000, 1, 1).shape().steps, 1'000'000);
  EXPECT_EQ(test::command_of({"train", "--adding-steps", "1000000"}).config.adding_steps,
            1'000'000);
  EXPECT_THROW(AddingProblem(0, 1'000'001, 1, 1), UsageError);
  EXPECT_EQ(refusal_of({"train", "--adding-steps", "1000001"}),
            "--adding-steps: expected a whole number from 2 to 1000000, got 1000001.");
}

TEST(OptionErrors, RefuseFlagsWithOtherValues) {
  EXPECT_THAT(refusal_of({"train", "--quiet=maybe"}), HasSubstr("--quiet"));
}

TEST(OptionErrors, SuggestTheNearestOption) {
  EXPECT_THAT(refusal_of({"train", "--batchsize", "3"}),
              AllOf(HasSubstr("got \"--batchsize\""), HasSubstr("Did you mean --batch-size?")));
  EXPECT_THAT(refusal_of({"train", "--batch_size=3"}), HasSubstr("Did you mean --batch-size?"));
  EXPECT_THAT(refusal_of({"train", "--wrokers", "3"}), HasSubstr("Did you mean --workers?"));
  EXPECT_THAT(refusal_of({"train", "-epochs", "3"}), HasSubstr("Did you mean --epochs?"));
  EXPECT_EQ(refusal_of({"train", "--zz"}),
            "train: expected a known option, got \"--zz\". `passel train --help` shows all.");
}

TEST(OptionErrors, SuggestTheNearestCommand) {
  EXPECT_THAT(refusal_of({"trian"}),
              AllOf(HasSubstr("got \"trian\""), HasSubstr("Did you mean train?")));
  EXPECT_THAT(
      refusal_of({}),
      HasSubstr("expected a command (train, eval, resume, verify, replay, inspect, export)"));
}

TEST(OptionErrors, RefuseWordsThatAreNoOptions) {
  EXPECT_THAT(refusal_of({"train", "fast"}), HasSubstr("got the word \"fast\""));
  EXPECT_THAT(refusal_of({"eval", "runs/a", "runs/b"}), HasSubstr("got the word \"runs/b\""));
  EXPECT_THAT(refusal_of({"--lr", "3", "train"}), HasSubstr("got \"--lr\""));
}

TEST(OptionErrors, SayThatAValueIsMissing) {
  EXPECT_THAT(refusal_of({"train", "--lr"}), StartsWith("--lr: expected a value, got nothing"));
  EXPECT_THAT(refusal_of({"export", "runs/a", "-o"}), StartsWith("--output: expected a value"));
}

// As a script passes a variable that it forgot to set.
TEST(OptionErrors, RefuseEmptyPaths) {
  for (const std::string option : {"--data", "--out", "--resume"}) {
    EXPECT_THAT(refusal_of({"train", option, ""}),
                StartsWith(option + ": expected a path in UTF-8, got \"\""));
  }
}

TEST(OptionErrors, SayThatATargetIsMissing) {
  EXPECT_THAT(refusal_of({"resume"}), StartsWith("resume: expected a run folder, got nothing"));
  EXPECT_THAT(refusal_of({"eval"}),
              HasSubstr("expected a run folder or a checkpoint, got nothing"));
  EXPECT_THAT(refusal_of({"inspect", ""}), HasSubstr("got nothing"));
}

TEST(OptionErrors, RefuseWhatMayNotChangeOnResume) {
  EXPECT_THAT(refusal_of({"resume", "runs/a", "--batch-size", "3"}), HasSubstr("--batch-size"));
  EXPECT_THAT(refusal_of({"resume", "runs/a", "--hidden-size", "3"}), HasSubstr("--hidden-size"));
  EXPECT_THAT(refusal_of({"resume", "runs/a", "--workers", "0"}), HasSubstr("--workers: expected"));
}

TEST(OptionErrors, NameTheConfigurationFile) {
  EXPECT_THAT(refusal_of({"train", "--config", "/nowhere.toml"}),
              AllOf(HasSubstr("/nowhere.toml"), HasSubstr("No such file")));
}

TEST(OptionErrors, RefuseOptionsAtOddsWithEachOther) {
  EXPECT_THAT(refusal_of({"train", "--momentum", "0.9"}),
              HasSubstr("momentum: expected 0 with the optimizer adam"));
}

// Any words give a command, an exit code or a UsageError.
TEST(OptionErrors, AnyWordsAreAnswered) {
  constexpr std::uint64_t kSeed = 12;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937_64 random(kSeed);
  Words words = {
      "train",    "eval", "resume",    "--",   "-",          "---",  "--=", "=",   "",
      "-o",       "-h1",  "--lr=",     "--lr", "0.1",        "\xff", "[",   "[]",  "--config",
      "--quiet=", "a=b",  "--workers", "{}",   "--no-quiet", "-3",   "++",  "%s%n"};
  for (int i = 0; i < 2000; ++i) {
    Words line;
    for (auto left = random() % 6; left > 0; --left) line.push_back(words[random() % words.size()]);
    std::ostringstream out;
    try {
      test::parse_words(line, out);
    } catch (const UsageError& error) {
      EXPECT_LT(std::string(error.what()).size(), 400u) << error.what();
    }
  }
}

}  // namespace
}  // namespace passel::train
