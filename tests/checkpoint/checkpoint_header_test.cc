#include <gtest/gtest.h>

#include "data/expect_error.h"
#include "data/temporary_folder.h"
#include "passel/train/checkpoint_store.h"
#include "passel/train/errors.h"
#include "passel/train/snapshot.h"

namespace passel::train {
namespace {

using passel::testing::expect_error;

class CheckpointHeaderFields : public ::testing::Test {
 protected:
  CheckpointHeader read() {
    CheckpointStore store(folder_.path());
    const auto path = store.save({.ticket = 5, .path = {}}, {}, fields_);
    return read_header(open_checkpoint(path));
  }

  void expect_refused(const std::string& key, const std::string& value, const std::string& word) {
    const Metadata sound = fields_;
    fields_[key] = value;
    SCOPED_TRACE(key + " = " + value);
    expect_error<DataError>([&] { read(); },
                            {(folder_ / "checkpoint-000000005.safetensors").string(), word});
    fields_ = sound;
  }

  passel::testing::TemporaryFolder folder_;
  Metadata fields_{{"config", R"({"optimizer":"adam"})"},
                   {"sample_shape", R"({"steps":28,"features":28,"classes":10})"},
                   {"version", "5"},
                   {"optimizer_steps", "[5]"}};
};

TEST_F(CheckpointHeaderFields, AreReadAsTheyWereWritten) {
  const CheckpointHeader header = read();
  EXPECT_EQ(header.ticket, 5);
  EXPECT_EQ(header.version, 5);
  EXPECT_EQ(header.shape.features, 28);
  EXPECT_EQ(header.optimizer_steps, (std::vector<std::int64_t>{5}));
}

TEST_F(CheckpointHeaderFields, AreRefusedWhereTheyAreMissing) {
  for (const auto& [key, value] : Metadata(fields_)) {
    SCOPED_TRACE(key);
    fields_.erase(key);
    expect_error<DataError>([&] { read(); }, {folder_.path().string(), key});
    fields_[key] = value;
  }
}

// The reader of JSON would make whole numbers of them.
TEST_F(CheckpointHeaderFields, AreRefusedAsOtherThanWholeNumbers) {
  for (const char* odd : {"-1", "2.5", "2.0", "1e300", "true", "null", "\"2\"", "[2]",
                          "9223372036854775808", "18446744073709551615"}) {
    expect_refused("version", odd, "version");
    expect_refused("optimizer_steps", std::string("[") + odd + "]", "optimizer_steps");
    for (const char* name : {"steps", "features", "classes"}) {
      std::string shape = R"({"steps":28,"features":28,"classes":10,")" + std::string(name) + "\":";
      expect_refused("sample_shape", shape + odd + "}", name);
    }
  }
}

TEST_F(CheckpointHeaderFields, AreRefusedAsNoJson) {
  for (const char* odd : {"", "{", "5 6", "nothing"}) {
    for (const char* key : {"config", "sample_shape", "version", "optimizer_steps"}) {
      expect_refused(key, odd, "cannot be read");
    }
  }
}

// Without it the optimiser would silently start afresh.
TEST_F(CheckpointHeaderFields, AreRefusedWithoutAsManyOptimisersAsTheRunHad) {
  expect_refused("optimizer_steps", "[]", "one count");
  expect_refused("optimizer_steps", "[1,2]", "one count");
  expect_refused("optimizer_steps", "{}", "one count");
  fields_["config"] = R"({"optimizer_state":"private"})";
  expect_refused("optimizer_steps", "[]", "each worker");
}

TEST_F(CheckpointHeaderFields, NameAConfigurationOfAnotherVersion) {
  expect_refused("config", R"({"workers_of_tomorrow":3})", "workers_of_tomorrow");
  expect_refused("config", R"({"optimizer":"of tomorrow"})", "of tomorrow");
}

}  // namespace
}  // namespace passel::train
