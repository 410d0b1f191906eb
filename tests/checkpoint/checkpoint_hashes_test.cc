#include "passel/train/checkpoint_hashes.h"

#include <gtest/gtest.h>

#include "checkpoint/file_bytes.h"
#include "data/expect_error.h"
#include "data/temporary_folder.h"
#include "passel/train/errors.h"
#include "passel/train/metrics_log.h"

namespace passel::train {
namespace {

using passel::testing::expect_error;
using passel::testing::write_text;

std::string line(const std::string& event, const std::string& ticket) {
  return R"({"event":)" + event + R"(,"ticket":)" + ticket +
         R"(,"version":3,"param_hash":"a","tensors":{"w":"b"}})" + "\n";
}

TEST(CheckpointHashes, AreThoseOfLinesThatAreCheckpointsWhateverElseIsThere) {
  const passel::testing::TemporaryFolder folder;
  const std::filesystem::path file = folder / "metrics.jsonl";
  std::string text = line("\"checkpoint\"", "5");
  for (const char* event : {"\"train\"", "7", "null", "[\"checkpoint\"]", "{}"}) {
    text += line(event, "1");
  }
  for (const char* ticket : {"-1", "1e300", "1.5", "1.0", "\"1\"", "null", "[1]", "true",
                             "9223372036854775808", "18446744073709551615", "1e999"}) {
    text += line("\"checkpoint\"", ticket);
  }
  for (const char* odd :
       {"", "null", "[]", "7", "{}", "{\"event\":\"checkpoint\"}", "{\"event\":",
        "{\"event\":\"checkpoint\",\"ticket\":1,\"version\":1,\"param_hash\":1,\"tensors\":{}}",
        R"({"event":"checkpoint","ticket":1,"version":3,"param_hash":"","tensors":[]})"}) {
    text += std::string(odd) + "\n";
  }
  write_text(file, text + std::string("\0\xff\n", 3) + std::string(100'000, '['));
  const HashHistory history = read_hashes(file);
  ASSERT_EQ(history.size(), 1U);
  EXPECT_EQ(history.at(5).parameters, "a");

  MetricsLog(file).truncate_after(std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(read_hashes(file).size(), 1U) << "a resume keeps what verify reads";
}

TEST(CheckpointHashes, AreNotThereWithoutAFileThatCanBeRead) {
  const passel::testing::TemporaryFolder folder;
  expect_error<DataError>([&] { read_hashes(folder / "none"); }, {(folder / "none").string()});
  expect_error<DataError>([&] { read_hashes(folder.path()); }, {folder.path().string()});
}

}  // namespace
}  // namespace passel::train
