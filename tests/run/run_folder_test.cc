#include "passel/train/run_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>
#include <regex>

#include "passel/train/errors.h"
#include "random_config.h"
#include "resource_limit.h"
#include "temp_dir.h"

namespace passel::train {
namespace {

namespace fs = std::filesystem;
using test::error_of;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Config config_for(const fs::path& out) {
  Config config;
  config.out = out;
  return config;
}

std::string refusal(const fs::path& out) {
  return error_of<UsageError>([&] { RunFolder::create(config_for(out)); });
}

TEST(RunFolder, HoldsTheConfigurationItWasMadeWith) {
  const test::TempDir dir;
  std::mt19937_64 random(3);
  Config config = test::random_config(random);
  config.out = dir.path() / "deep" / "er" / "run";
  const RunFolder sut = RunFolder::create(config);
  EXPECT_EQ(sut.root(), config.out);
  EXPECT_EQ(sut.read_config(), config);
  EXPECT_EQ(RunFolder::open(config.out).read_config(), config);
  EXPECT_TRUE(fs::is_directory(sut.checkpoints()));
}

TEST(RunFolder, NamesItsFiles) {
  const test::TempDir dir;
  const RunFolder sut = RunFolder::create(config_for(dir.path() / "run"));
  EXPECT_EQ(sut.config(), sut.root() / "config.toml");
  EXPECT_EQ(sut.manifest(), sut.root() / "manifest.json");
  EXPECT_EQ(sut.metrics(), sut.root() / "metrics.jsonl");
  EXPECT_EQ(sut.worker_log(3), sut.root() / "worker-3.log");
}

TEST(RunFolder, IsMadeUnderRunsWhenNoNameIsGiven) {
  const test::TempDir dir;
  const fs::path before = fs::current_path();
  fs::current_path(dir.path());
  const RunFolder first = RunFolder::create(Config{});
  const RunFolder second = RunFolder::create(Config{});
  fs::current_path(before);
  const std::regex name(R"(runs/\d{8}-\d{6}-fashion-mnist-hogwild(-2)?)");
  EXPECT_TRUE(std::regex_match(first.root().string(), name)) << first.root();
  EXPECT_TRUE(std::regex_match(second.root().string(), name)) << second.root();
  EXPECT_NE(first.root(), second.root());
}

TEST(RunFolder, TakesAnEmptyFolderAndATrailingSlash) {
  const test::TempDir dir;
  fs::create_directory(dir.path() / "empty");
  EXPECT_EQ(RunFolder::create(config_for((dir.path() / "empty").string() + "/")).root(),
            dir.path() / "empty");
}

TEST(RunFolder, RefusesAFolderThatIsNotEmpty) {
  const test::TempDir dir;
  test::write_file(dir.path() / "thesis.txt", "mine");
  EXPECT_THAT(refusal(dir.path()), AllOf(HasSubstr("expected a new or empty folder"),
                                         HasSubstr(dir.path().string()), HasSubstr("files")));
  EXPECT_FALSE(fs::exists(dir.path() / "config.toml"));
}

TEST(RunFolder, PointsToResumeWhenTheFolderHoldsARun) {
  const test::TempDir dir;
  const auto folder = RunFolder::create(config_for(dir.path() / "run"));
  EXPECT_THAT(refusal(dir.path() / "run"), HasSubstr("a run without a checkpoint. Remove it"));
  test::write_file(folder.checkpoints() / "checkpoint-000000001.safetensors", "");
  EXPECT_THAT(refusal(dir.path() / "run"), HasSubstr("passel resume"));
}

TEST(RunFolder, RefusesAFileInItsPlace) {
  const test::TempDir dir;
  test::write_file(dir.path() / "file", "");
  EXPECT_THAT(refusal(dir.path() / "file"), HasSubstr("it is a file"));
}

TEST(RunFolder, NamesAParentThatCannotHoldIt) {
  const test::TempDir dir;
  test::write_file(dir.path() / "file", "");
  EXPECT_THAT(refusal(dir.path() / "file" / "run"),
              AllOf(HasSubstr((dir.path() / "file").string()), HasSubstr("Not a directory"),
                    HasSubstr("--out")));
  // Nothing can be made in /proc, not even by root.
  EXPECT_THAT(refusal("/proc/run"), AllOf(HasSubstr("/proc"), HasSubstr("No such file")));
}

TEST(RunFolder, RefusesAnInvalidConfigurationBeforeMakingAnything) {
  const test::TempDir dir;
  Config config = config_for(dir.path() / "run");
  config.workers = 0;
  EXPECT_THROW(RunFolder::create(config), UsageError);
  EXPECT_FALSE(fs::exists(dir.path() / "run"));
}

TEST(RunFolder, OpensOnlyRunFolders) {
  const test::TempDir dir;
  EXPECT_THAT(error_of<UsageError>([&] { RunFolder::open(dir.path() / "none"); }),
              HasSubstr("No such file or directory"));
  EXPECT_THAT(error_of<DataError>([&] { RunFolder::open(dir.path()); }), HasSubstr("config.toml"));
  test::write_file(dir.path() / "file", "");
  EXPECT_THAT(error_of<DataError>([&] { RunFolder::open(dir.path() / "file"); }),
              HasSubstr("got a file"));
}

TEST(RunFolder, SaysWhatIsThereInsteadOfAFolder) {
  const test::TempDir dir;
  const fs::path fifo = dir.path() / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  for (const auto& [thing, kind] :
       {std::pair{fifo, "a pipe or FIFO"}, {fs::path("/dev/zero"), "a character device"}}) {
    const fs::path path = thing;
    EXPECT_THAT(error_of<DataError>([&] { RunFolder::open(path); }),
                AllOf(HasSubstr(path.string()), HasSubstr(std::string("got ") + kind)));
    EXPECT_THAT(refusal(path), HasSubstr(std::string("it is ") + kind));
  }
}

TEST(RunFolder, ReportsADamagedConfigurationAsBadData) {
  const test::TempDir dir;
  const RunFolder sut = RunFolder::create(config_for(dir.path() / "run"));
  test::write_file(sut.config(), "workers = 0\n" + std::string(kTomlEnd));
  EXPECT_THAT(error_of<DataError>([&] { sut.read_config(); }),
              AllOf(HasSubstr("config.toml:1"), HasSubstr("workers")));
}

// Lines that are missing would count as defaults.
TEST(RunFolder, RefusesAConfigurationThatWasCutAnywhere) {
  const test::TempDir dir;
  Config config = config_for(dir.path() / "run");
  config.quiet = true;
  const RunFolder sut = RunFolder::create(config);
  const std::string whole = to_toml(config);
  for (std::size_t length = 0; length + 1 < whole.size(); length += length < 2000 ? 97 : 13) {
    test::write_file(sut.config(), whole.substr(0, length));
    EXPECT_THROW(sut.read_config(), DataError) << length;
  }
  test::write_file(sut.config(), "");
  EXPECT_THAT(error_of<DataError>([&] { sut.read_config(); }),
              AllOf(HasSubstr("that was cut"), HasSubstr(sut.config().string()),
                    HasSubstr("passel train --resume")));
  test::write_file(sut.config(), whole + "# a note\n");
  EXPECT_EQ(sut.read_config(), config);
}

TEST(RunFolder, SaysWhatACheckpointAloneIsGoodFor) {
  const test::TempDir dir;
  for (const char* name : {"none", "checkpoints"}) {
    fs::create_directory(dir.path() / "checkpoints");
    std::string text;
    try {
      RunFolder::open(dir.path() / name);
    } catch (const std::exception& error) {
      text = error.what();
    }
    EXPECT_THAT(text, HasSubstr("passel train --resume FILE")) << name;
  }
}

TEST(RunFolder, ReplacesItsConfiguration) {
  const test::TempDir dir;
  Config config = config_for(dir.path() / "run");
  const RunFolder sut = RunFolder::create(config);
  config.workers = 5;
  sut.write_config(config);
  EXPECT_EQ(sut.read_config().workers, 5);
}

// A resume has no --out that could name another place.
TEST(RunFolder, OnAFullDiskIsLeftAsItWas) {
  const test::TempDir dir;
  Config config = config_for(dir.path() / "run");
  const RunFolder sut = RunFolder::create(config);
  config.workers = 5;
  std::string text;
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  {
    const test::ResourceLimit full(RLIMIT_FSIZE, 10);
    text = error_of<UsageError>([&] { sut.write_config(config); });
    EXPECT_THAT(refusal(dir.path() / "other"), HasSubstr("--out"));
  }
  ::signal(SIGXFSZ, handler);
  EXPECT_THAT(text, AllOf(HasSubstr(sut.config().string()), HasSubstr("Make room"),
                          HasSubstr("resume again"), Not(HasSubstr("--out"))));
  EXPECT_EQ(sut.read_config().workers, Config{}.workers);
}

}  // namespace
}  // namespace passel::train
