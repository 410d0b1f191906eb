#include "passel/train/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include "passel/train/errors.h"
#include "temp_dir.h"

namespace passel::train {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json load(const std::filesystem::path& file) {
  return json::parse(test::read_file(file));
}

TEST(Manifest, SaysHowTheRunWasStarted) {
  const test::TempDir dir;
  const auto file = dir.path() / "manifest.json";
  const Manifest sut(file, {"passel", "train", "--lr", "0.1"}, UINT64_MAX, "2.11.0");
  const json written = load(file);
  EXPECT_EQ(written, sut.contents());
  EXPECT_EQ(written.at("argv"), (json{"passel", "train", "--lr", "0.1"}));
  EXPECT_EQ(written.at("seed").get<std::uint64_t>(), UINT64_MAX);
  EXPECT_EQ(written.at("torch_version"), "2.11.0");
  EXPECT_GT(written.at("start_time").get<double>(), 1.6e9);
  EXPECT_FALSE(written.contains("exit"));
}

TEST(Manifest, DescribesTheMachine) {
  const json machine = describe_machine("2.11.0");
  cpu_set_t cores;
  ASSERT_EQ(::sched_getaffinity(0, sizeof cores, &cores), 0);
  EXPECT_EQ(machine.at("cores_allowed").get<int>(), CPU_COUNT(&cores));
  EXPECT_GT(machine.at("memory_bytes").get<std::int64_t>(), 1 << 20);
  EXPECT_THAT(machine.at("kernel").get<std::string>(), HasSubstr("Linux"));
  EXPECT_FALSE(machine.at("compiler").get<std::string>().empty());
  EXPECT_FALSE(machine.at("passel_version").get<std::string>().empty());
}

TEST(Manifest, HoldsOnlyVariablesThatMatter) {
  ::setenv("OMP_NUM_THREADS", "3", 1);
  ::setenv("MKL_DYNAMIC", "FALSE", 1);
  ::setenv("ATEN_CPU_CAPABILITY", "avx2", 1);
  ::setenv("CUDA_VISIBLE_DEVICES", "", 1);
  ::setenv("A_PASSWORD", "secret", 1);
  const json variables = describe_machine("x").at("environment");
  EXPECT_EQ(variables.at("OMP_NUM_THREADS"), "3");
  EXPECT_EQ(variables.at("MKL_DYNAMIC"), "FALSE");
  EXPECT_EQ(variables.at("ATEN_CPU_CAPABILITY"), "avx2");
  EXPECT_EQ(variables.at("CUDA_VISIBLE_DEVICES"), "");
  EXPECT_FALSE(variables.contains("A_PASSWORD"));
  EXPECT_FALSE(variables.contains("PATH"));
}

TEST(Manifest, AddsHowTheRunEnded) {
  const test::TempDir dir;
  const auto file = dir.path() / "manifest.json";
  Manifest sut(file, {"passel"}, 1, "x");
  EXPECT_TRUE(sut.finish("stopped by SIGINT", 130));
  const json end = load(file).at("exit");
  EXPECT_EQ(end.at("reason"), "stopped by SIGINT");
  EXPECT_EQ(end.at("code"), 130);
  EXPECT_GE(end.at("time"), sut.contents().at("start_time"));
}

TEST(Manifest, KeepsEarlierStartsOfAResumedRun) {
  const test::TempDir dir;
  const auto file = dir.path() / "manifest.json";
  Manifest(file, {"first"}, 1, "x").finish("stopped", 143);
  const Manifest second(file, {"second"}, 1, "x");
  const Manifest third(file, {"third"}, 1, "x");
  const json written = load(file);
  ASSERT_EQ(written.at("previous").size(), 2u);
  EXPECT_EQ(written.at("argv"), json{"third"});
  EXPECT_EQ(written.at("previous")[0].at("argv"), json{"first"});
  EXPECT_EQ(written.at("previous")[0].at("exit").at("code"), 143);
  EXPECT_EQ(written.at("previous")[1].at("argv"), json{"second"});
  EXPECT_FALSE(written.at("previous")[1].contains("previous"));
}

TEST(Manifest, ReplacesADamagedOne) {
  const test::TempDir dir;
  for (const char* text : {"{\"argv\": [", "[]", "", "{\"previous\": 3}"}) {
    test::write_file(dir.path() / "manifest.json", text);
    EXPECT_NO_THROW(Manifest(dir.path() / "manifest.json", {"again"}, 1, "x")) << text;
    EXPECT_EQ(load(dir.path() / "manifest.json").at("argv"), json{"again"}) << text;
  }
}

TEST(Manifest, TakesArgumentsOfAnyBytes) {
  const test::TempDir dir;
  const Manifest sut(dir.path() / "m.json", {"passel", "\xff\n"}, 1, "x");
  EXPECT_EQ(load(dir.path() / "m.json").at("argv").size(), 2u);
}

TEST(Manifest, SaysWhenItCannotBeWritten) {
  const test::TempDir dir;
  EXPECT_THROW(Manifest(dir.path() / "none" / "m.json", {"x"}, 1, "x"), UsageError);
  const auto folder = dir.path() / "run";
  std::filesystem::create_directory(folder);
  Manifest sut(folder / "m.json", {"x"}, 1, "x");
  std::filesystem::remove_all(folder);
  EXPECT_FALSE(sut.finish("done", 0));
}

}  // namespace
}  // namespace passel::train
