#include "passel/train/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "passel/train/config_fields.h"
#include "passel/train/errors.h"
#include "random_config.h"
#include "temp_dir.h"

namespace passel::train {
namespace {

using nlohmann::json;
using test::error_of;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

std::string refusal(const json& json) {
  return error_of<UsageError>([&] { config_from_json(json); });
}

TEST(Config, DefaultsAreValid) {
  EXPECT_NO_THROW(validate(Config{}));
}

TEST(Config, ComesBackFromJsonUnchanged) {
  constexpr std::uint64_t kSeed = 20231;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < 500; ++i) {
    const Config config = test::random_config(random);
    ASSERT_NO_THROW(validate(config)) << to_json(config).dump(1);
    EXPECT_EQ(config_from_json(to_json(config)), config) << to_json(config).dump(1);
    EXPECT_EQ(config_from_json(json::parse(to_json(config).dump())), config);
  }
}

TEST(Config, KeepsDefaultsForAbsentKeys) {
  const Config config = config_from_json({{"batch_size", 16}});
  EXPECT_EQ(config.batch_size, 16);
  EXPECT_EQ(config.hidden_size, Config{}.hidden_size);
}

TEST(Config, NamesAnUnknownKeyAndTheNearestOne) {
  EXPECT_THAT(refusal({{"batchsize", 16}}),
              AllOf(HasSubstr("\"batchsize\""), HasSubstr("Did you mean batch_size?")));
}

TEST(Config, RefusesJsonThatIsNoObject) {
  EXPECT_THAT(refusal(json::array({1})), HasSubstr("expected a JSON object, got array"));
  EXPECT_THAT(refusal(json()), HasSubstr("got null"));
}

// Every field times every kind of JSON value: either it is taken as that field's
// type or the key is named.
TEST(Config, RefusesWrongTypesByKey) {
  const std::vector<json> values = {
      nullptr,    true,  "text", -1, 1.5, std::nan(""), json::array({1}), json::object({{"a", 1}}),
      UINT64_MAX, 1e300, "a\0b", ""};
  for (const Field& field : config_fields()) {
    for (const json& value : values) {
      const json document = {{std::string(field.name), value}};
      try {
        const Config config = config_from_json(document);
        EXPECT_EQ(value_of(config, field), value) << document;
      } catch (const UsageError& error) {
        EXPECT_THAT(error.what(), AllOf(StartsWith(std::string(field.name) + ": expected "),
                                        HasSubstr(", got ")));
        EXPECT_LT(std::string(error.what()).size(), 260u) << error.what();
      }
    }
  }
}

TEST(Config, RefusesNumbersOutOfRange) {
  EXPECT_EQ(refusal({{"batch_size", 0}}),
            "batch_size: expected a whole number from 1 to 1048576, got 0.");
  EXPECT_THAT(refusal({{"workers", 1025}}), HasSubstr("from 1 to 1024, got 1025"));
  EXPECT_THAT(refusal({{"hidden_size", 65537}}), HasSubstr("from 1 to 65536, got 65537"));
  EXPECT_THAT(refusal({{"lr", 0}}), HasSubstr("greater than 0 and at most 1000, got 0"));
  EXPECT_THAT(refusal({{"lr", -0.1}}), HasSubstr("got -0.1"));
  EXPECT_THAT(refusal({{"momentum", 1.0}, {"optimizer", "sgd"}}),
              HasSubstr("from 0 to less than 1, got 1"));
  EXPECT_THAT(refusal({{"dropout", 1}}), HasSubstr("from 0 to less than 1, got 1"));
  EXPECT_THAT(refusal({{"epochs", UINT64_MAX}}), HasSubstr("got 18446744073709551615"));
  EXPECT_THAT(refusal({{"seed", -1}}), HasSubstr("seed: expected a whole number from 0"));
}

TEST(Config, TakesTheEndsOfRanges) {
  EXPECT_EQ(config_from_json({{"workers", 1024}}).workers, 1024);
  EXPECT_EQ(config_from_json({{"batch_size", 1 << 20}}).batch_size, 1 << 20);
  EXPECT_EQ(config_from_json({{"seed", UINT64_MAX}}).seed, UINT64_MAX);
  EXPECT_EQ(config_from_json({{"clip_norm", 0}}).clip_norm, 0);
}

TEST(Config, RefusesWhatIsNotFiniteInAStruct) {
  for (const double value : {double{NAN}, double{INFINITY}, double{-INFINITY}}) {
    for (double Config::*member : {&Config::lr, &Config::momentum, &Config::weight_decay,
                                   &Config::clip_norm, &Config::worker_timeout}) {
      Config config;
      config.*member = value;
      EXPECT_THROW(validate(config), UsageError) << value;
    }
  }
}

TEST(Config, RefusesUnknownNamesAndSuggestsTheNearest) {
  EXPECT_EQ(refusal({{"optimizer", "adm"}}),
            "optimizer: expected one of sgd, rmsprop, adagrad, adam, adamw, got \"adm\"."
            " Did you mean adam?");
  EXPECT_THAT(refusal({{"dataset", "mnist"}}), HasSubstr("expected one of fashion-mnist, adding"));
  EXPECT_EQ(
      refusal({{"device", "gpu"}}),
      "device: expected cpu, cuda, or cuda:N,... with the numbers of GPUs, each one once, got "
      "\"gpu\".");
  EXPECT_THAT(refusal({{"mode", "zebra"}}),
              HasSubstr("mode: expected one of hogwild, ordered, recorded, sync, got \"zebra\""));
}

TEST(Config, RefusesMomentumThatWouldBeIgnored) {
  EXPECT_THAT(refusal({{"momentum", 0.9}, {"optimizer", "adam"}}),
              HasSubstr("momentum: expected 0 with the optimizer adam, got 0.9"));
  EXPECT_NO_THROW(config_from_json({{"momentum", 0.9}, {"optimizer", "sgd"}}));
}

TEST(Config, RefusesAnEndOfTheLearningRateThatIsNoneOrAboveItsStart) {
  EXPECT_THAT(refusal({{"lr_min", 0.001}}),
              HasSubstr("lr_min: expected 0 with the lr_schedule constant, got 0.001"));
  EXPECT_THAT(refusal({{"lr_schedule", "step"}, {"lr_min", 0.001}}), HasSubstr("lr_schedule step"));
  EXPECT_THAT(refusal({{"lr_schedule", "cosine"}, {"lr", 0.001}, {"lr_min", 0.002}}),
              HasSubstr("lr_min: expected at most lr (0.001), got 0.002"));
  EXPECT_NO_THROW(config_from_json({{"lr_schedule", "linear"}, {"lr", 0.001}, {"lr_min", 0.001}}));
}

TEST(Config, RefusesStalenessOptionsWhereNothingIsStale) {
  EXPECT_THAT(refusal({{"mode", "sync"}, {"staleness_lr", 1}}),
              HasSubstr("staleness_lr: expected 0 with the mode sync, got 1"));
  EXPECT_THAT(refusal({{"mode", "sync"},
                       {"optimizer", "sgd"},
                       {"momentum", 0.9},
                       {"momentum_correction", true}}),
              HasSubstr("momentum_correction: expected false with the mode sync"));
  EXPECT_THAT(refusal({{"momentum_correction", true}}),
              HasSubstr("momentum_correction: expected a momentum to lower, got 0"));
  for (const char* mode : {"hogwild", "ordered"}) {
    EXPECT_NO_THROW(config_from_json({{"mode", mode},
                                      {"staleness_lr", 0.5},
                                      {"optimizer", "sgd"},
                                      {"momentum", 0.9},
                                      {"momentum_correction", true}}));
  }
}

TEST(Config, RefusesDelayCompensationWhereTheParametersReadAreNotKept) {
  for (const char* mode : {"hogwild", "sync"}) {
    EXPECT_THAT(refusal({{"mode", mode}, {"delay_compensation", 0.5}}),
                HasSubstr(std::string("delay_compensation: expected 0 with the mode ") + mode));
  }
  EXPECT_NO_THROW(config_from_json({{"mode", "ordered"}, {"delay_compensation", 0.5}}));
}

TEST(Config, ChangesNoEpochsThatTheLearningRateGoesOver) {
  Overrides overrides;
  overrides.epochs = 16;
  for (const char* schedule : {"linear", "cosine"}) {
    const Config config = config_from_json({{"lr_schedule", schedule}, {"epochs", 8}});
    EXPECT_THAT(error_of<UsageError>([&] { with_overrides(config, overrides); }),
                AllOf(HasSubstr("epochs: expected 8 as before"), HasSubstr(schedule)));
    overrides.epochs = 8;
    EXPECT_NO_THROW(with_overrides(config, overrides));
    overrides.epochs = 16;
  }
  EXPECT_EQ(with_overrides(config_from_json({{"lr_schedule", "step"}}), overrides).epochs, 16);
}

TEST(Config, RefusesAnEmptyDataFolderUnlessNoneIsNeeded) {
  EXPECT_THAT(refusal({{"data", ""}}), HasSubstr("dataset-fashion-mnist"));
  EXPECT_NO_THROW(config_from_json({{"data", ""}, {"dataset", "adding"}}));
}

TEST(Config, RefusesPathsThatFilesCannotHold) {
  Config config;
  config.out = "runs/\xff\xfe";
  EXPECT_THAT(error_of<UsageError>([&] { validate(config); }),
              HasSubstr("out: expected a path in UTF-8"));
}

TEST(Config, OverridesReplaceOnlyWhatTheyHold) {
  Config before;
  before.workers = 3;
  before.epochs = 5;
  Overrides overrides;
  overrides.workers = 7;
  overrides.quiet = true;
  Config expected = before;
  expected.workers = 7;
  expected.quiet = true;
  EXPECT_EQ(with_overrides(before, overrides), expected);
}

TEST(Config, OverridesAreValidated) {
  Overrides overrides;
  overrides.workers = 0;
  EXPECT_THAT(error_of<UsageError>([&] { with_overrides(Config{}, overrides); }),
              StartsWith("workers: expected"));
}

TEST(Config, AddsAtomicallyOnlyInHogwildOnOneGpu) {
  EXPECT_THAT(refusal({{"atomic_adds", true}}),
              HasSubstr("atomic_adds: expected false with the device cpu, got true"));
  EXPECT_THAT(refusal({{"device", "cuda"}, {"mode", "ordered"}, {"atomic_adds", true}}),
              HasSubstr("with the mode ordered"));
  EXPECT_THAT(refusal({{"device", "cuda:0,1"}, {"atomic_adds", true}}),
              HasSubstr("with the device cuda:0,1"));
  EXPECT_THAT(refusal({{"device", "cuda"}, {"no_cuda_ipc", true}, {"atomic_adds", true}}),
              HasSubstr("with no_cuda_ipc"));
  const Config config = config_from_json({{"device", "cuda:1"}, {"atomic_adds", true}});
  EXPECT_TRUE(config.atomic_adds);
  Overrides on_cpu;
  on_cpu.device = "cpu";
  EXPECT_FALSE(with_overrides(config, on_cpu).atomic_adds);
}

TEST(Config, IsStatefulOnlyWithAStreamAndHasLanesOnlyThen) {
  EXPECT_THAT(refusal({{"stateful", true}}),
              HasSubstr("stateful: expected false with the dataset fashion-mnist, got true"));
  EXPECT_THAT(refusal({{"dataset", "adding"}, {"stateful", true}}), HasSubstr("adding-stream do"));
  EXPECT_THAT(refusal({{"dataset", "adding-stream"}, {"lanes", 4}}),
              HasSubstr("lanes: expected 8 where the run is not stateful, got 4"));
  EXPECT_NO_THROW(
      config_from_json({{"dataset", "adding-stream"}, {"stateful", true}, {"lanes", 1}}));
}

// How many tickets can be computed at once is what the lanes have to be for.
TEST(Config, NamesTheLanesThatAStatefulRunNeeds) {
  const auto expect_least = [](Config config, std::int64_t least, const char* reason) {
    config.dataset = "adding-stream";
    config.stateful = true;
    config.lanes = least;
    EXPECT_NO_THROW(check_lanes(config));
    config.lanes = least - 1;
    EXPECT_THAT(error_of<UsageError>([&] { check_lanes(config); }),
                HasSubstr("lanes: expected at least " + std::to_string(least) + " (" + reason +
                          ") with the mode " + config.mode));
    config.stateful = false;
    EXPECT_NO_THROW(check_lanes(config));
  };
  expect_least({.mode = "hogwild", .workers = 3}, 6, "two a worker");
  expect_least({.mode = "recorded", .workers = 4}, 8, "two a worker");
  expect_least({.mode = "ordered", .staleness = 3, .workers = 9}, 4, "one more than --staleness");
  expect_least({.mode = "sync", .shards = 5}, 5, "as many as --shards");
}

}  // namespace
}  // namespace passel::train
