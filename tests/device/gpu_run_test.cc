// The trainer on GPUs in all modes, wherever the parameters are.
#include "gpu_run.h"

#include <signal.h>

#include <fstream>
#include <random>

#include "support/stress.h"

namespace passel::testing {
namespace {

/// Where a run computes and where its parameters are.
struct Place {
  const char* name;
  Options options;
  const char* note;  ///< what the program says of it
};

const Place kPlaces[] = {
    {"Shared", {"--device", "cuda"}, "the parameters are on it"},
    {"OfTheSecondGpu", {"--device", "cuda:1"}, "the parameters are on it"},
    {"Staged", {"--device", "cuda", "--no-cuda-ipc"}, "as --no-cuda-ipc asks for"},
    {"OnTwoGpus", {"--device", "cuda:0,1"}, "as there are several devices"}};

/// What a run does with the gradients.
struct Rule {
  const char* name;
  Options options;
};

const Rule kRules[] = {
    {"Ordered", {"--mode", "ordered"}},
    {"OrderedMomentum", {"--mode", "ordered", "--optimizer", "sgd", "--momentum", "0.9"}},
    {"Compensated", {"--mode", "ordered", "--delay-compensation", "0.5", "--staleness", "3"}},
    {"Sync", {"--mode", "sync", "--shards", "3"}}};

// GoogleTest looks for this name.
// NOLINTBEGIN(readability-identifier-naming)
void PrintTo(const Place& place, std::ostream* out) {
  *out << place.name;
}
void PrintTo(const Rule& rule, std::ostream* out) {
  *out << rule.name;
}
// NOLINTEND(readability-identifier-naming)

template <class T>
std::string name_of(const ::testing::TestParamInfo<T>& info) {
  return info.param.name;
}

class GpuRunOf : public GpuRun, public ::testing::WithParamInterface<Rule> {};

TEST_P(GpuRunOf, ComesToTheBitsOfTheCpuWhereverTheParametersAre) {
  const Options rule = join(GetParam().options, {"--epochs", "3", "--dropout", "0.2"});
  const std::string expected = hash_of(join(rule, {"--workers", "2"}), "cpu");
  for (const Place& place : kPlaces) {
    const Options options = join(rule, place.options);
    EXPECT_EQ(hash_of(join(options, {"--workers", "2"}), place.name), expected) << place.name;
  }
  EXPECT_EQ(hash_of(join(rule, {"--device", "cuda", "--workers", "1"}), "one"), expected);
  EXPECT_EQ(hash_of(join(rule, {"--device", "cuda", "--workers", "3"}), "three"), expected);
}

TEST_P(GpuRunOf, ComesToTheSameBitsWhenItsWorkersAreKilled) {
  const int wanted_kills = stress_size(4, 40);
  const std::string tickets = std::to_string(900 * wanted_kills);
  const Options options = join(GetParam().options, {"--device", "cuda", "--max-tickets", tickets,
                                                    "--max-respawns", "100000"});
  PasselProgram program(long_train(join(options, {"--workers", "3"})), text_file());
  std::mt19937 random(7);
  std::int64_t reached = 0;
  for (int kills = 0; kills < wanted_kills; ++kills) {
    reached += std::uniform_int_distribution(20, 200)(random);
    ASSERT_TRUE(trained(reached)) << program.text();
    const auto workers = program.workers();
    if (!workers.empty()) kill(workers[random() % workers.size()], SIGKILL);
  }
  const Finished finished = program.wait(std::chrono::seconds(stress_size(100, 600)));
  ASSERT_EQ(finished.code, 0) << finished.text;
  EXPECT_EQ(finished.text.find("fake CUDA"), std::string::npos) << finished.text;
  EXPECT_GE(summary().at("respawns"), 1);
  const std::string expected = hash_of(
      join(GetParam().options, {"--max-tickets", tickets, "--epochs", "20000", "--workers", "1"}),
      "undisturbed");
  EXPECT_EQ(summary().at("param_hash"), expected);
}

INSTANTIATE_TEST_SUITE_P(Of, GpuRunOf, ::testing::ValuesIn(kRules), name_of<Rule>);

class GpuRunOn : public GpuRun, public ::testing::WithParamInterface<Place> {};

TEST_P(GpuRunOn, SaysWhereTheParametersAre) {
  const Finished finished = run_it(join(GetParam().options, {"--epochs", "1"}), "run");
  ASSERT_EQ(finished.code, 0) << finished.text;
  EXPECT_NE(finished.text.find(GetParam().note), std::string::npos) << finished.text;
  EXPECT_NE(finished.text.find("no GPU at all"), std::string::npos) << finished.text;
}

TEST_P(GpuRunOn, OfHogwildIsTheCpusWithOneWorker) {
  for (const Options& rule :
       {Options{"--optimizer", "adam"}, Options{"--optimizer", "sgd", "--momentum", "0.9"},
        Options{"--optimizer", "rmsprop"}, Options{"--optimizer", "adagrad"}}) {
    const Options options = join(rule, {"--workers", "1", "--epochs", "2"});
    const std::string expected = hash_of(options, "cpu-" + rule[1]);
    EXPECT_EQ(hash_of(join(options, GetParam().options), rule[1]), expected) << rule[1];
  }
}

TEST_P(GpuRunOn, OfHogwildLosesNoTicketWhenWorkersAreKilled) {
  expect_no_ticket_lost(GetParam().options);
}

TEST_P(GpuRunOn, IsRepeatedFromItsRecord) {
  const Options options = join(GetParam().options, {"--mode", "recorded", "--workers", "3"});
  ASSERT_EQ(run_it(join(options, {"--epochs", "3"}), "run").code, 0);
  const Finished replayed = run_passel({"replay", run(), "--workers", "2"});
  EXPECT_EQ(replayed.code, 0) << replayed.text;
  EXPECT_NE(replayed.text.find("bit-identical"), std::string::npos) << replayed.text;
}

TEST_P(GpuRunOn, GoesOnOnTheSameDevicesAfterAStop) {
  const Options options = join(GetParam().options, {"--mode", "ordered", "--workers", "2"});
  const std::string expected = hash_of(join(options, {"--epochs", "4"}), "whole");
  ASSERT_EQ(run_it(join(options, {"--epochs", "4", "--max-tickets", "20"}), "run").code, 0);
  const Finished resumed = run_passel({"resume", run(), "--max-tickets", "0"});
  ASSERT_EQ(resumed.code, 0) << resumed.text;
  EXPECT_NE(resumed.text.find(GetParam().note), std::string::npos) << resumed.text;
  EXPECT_EQ(summary().at("param_hash"), expected);
  EXPECT_EQ(run_passel({"verify", run()}).code, 0);
  const Finished on_cpu = run_passel({"resume", run(), "--epochs", "5", "--device", "cpu"});
  EXPECT_EQ(on_cpu.code, 0) << on_cpu.text;
  EXPECT_EQ(on_cpu.text.find("computes on"), std::string::npos) << on_cpu.text;
}

INSTANTIATE_TEST_SUITE_P(On, GpuRunOn, ::testing::ValuesIn(kPlaces), name_of<Place>);

TEST_F(GpuRun, StagesWhereProcessesCannotOpenEachOthersMemory) {
  const Options options = {"--mode", "ordered", "--epochs", "2"};
  const std::string expected = hash_of(options, "cpu");
  const Variable fails("FAKE_CUDA_FAILS", "cudaIpcOpenMemHandle");
  const Finished finished = run_it(join(options, {"--device", "cuda"}), "run");
  ASSERT_EQ(finished.code, 0) << finished.text;
  EXPECT_NE(finished.text.find("CUDA IPC is refused"), std::string::npos) << finished.text;
  EXPECT_EQ(summary().at("param_hash"), expected);
}

TEST_F(GpuRun, SaysWhatAWorkerCouldNotDo) {
  struct Case {
    const char* function;
    const char* words;
    const char* not_there;
  };
  const Case cases[] = {{"cudaHostRegister", "pin ", "--no-cuda-ipc"},
                        {"cudaEventRecord", "mark ", "SIGSEGV"}};
  for (const Case& bad : cases) {
    const Variable fails("FAKE_CUDA_FAILS", bad.function);
    const Finished finished =
        run_it({"--device", "cuda", "--epochs", "1", "--max-respawns", "3"}, bad.function);
    EXPECT_NE(finished.code, 0);
    EXPECT_NE(finished.text.find(bad.words), std::string::npos) << finished.text;
    EXPECT_EQ(finished.text.find(bad.not_there), std::string::npos) << finished.text;
  }
}

TEST_F(GpuRun, NamesGpusThatNoWorkerComputesOn) {
  const Finished finished =
      run_it({"--device", "cuda:0,1", "--workers", "1", "--epochs", "1"}, "run");
  ASSERT_EQ(finished.code, 0) << finished.text;
  EXPECT_NE(finished.text.find("1 of them have no worker"), std::string::npos) << finished.text;
}

TEST_F(GpuRun, IsRefusedInWordsWhereThereIsNoGpu) {
  struct Case {
    const char* variable;
    const char* value;
    Options options;
    const char* words;
  };
  const Case cases[] = {{"FAKE_GPUS", "0", {"--device", "cuda"}, "There is no such GPU"},
                        {"FAKE_GPUS", "1", {"--device", "cuda:1"}, "none for number 1"},
                        {"FAKE_GPUS", "2", {"--device", "cuda:0,2"}, "none for number 2"},
                        {"FAKE_DRIVER", "0", {"--device", "cuda"}, "There is no NVIDIA driver"},
                        {"CUDA_VISIBLE_DEVICES", "", {"--device", "cuda"}, "There is no such GPU"}};
  for (const Case& bad : cases) {
    const Variable variable(bad.variable, bad.value);
    const Finished finished = run_it(bad.options, "run");
    EXPECT_EQ(finished.code, 2) << finished.text;
    EXPECT_NE(finished.text.find(bad.words), std::string::npos) << finished.text;
    EXPECT_NE(finished.text.find("--device cpu"), std::string::npos) << finished.text;
    EXPECT_FALSE(std::filesystem::exists(run())) << bad.words;
  }
}

TEST_F(GpuRun, TakesTheGpusThatItMaySee) {
  const Variable variable("CUDA_VISIBLE_DEVICES", "1");
  ASSERT_EQ(run_it({"--device", "cuda", "--epochs", "1"}, "run").code, 0);
  std::ifstream in(run() / "manifest.json");
  const auto devices = nlohmann::json::parse(in).at("devices");
  ASSERT_EQ(devices.size(), 1U);
  EXPECT_NE(devices[0].get<std::string>().find("GPU-41414141"), std::string::npos) << devices;
}

TEST_F(GpuRun, HasAsManyWorkersOnEachGpuAsAskedFor) {
  ASSERT_EQ(run_it({"--device", "cuda:0,1", "--workers-per-device", "2"}, "run").code, 0);
  EXPECT_EQ(summary().at("workers"), 4);
}

TEST_F(GpuRun, HintsAtMpsWhenWorkersShareAGpu) {
  const Finished many = run_it({"--device", "cuda", "--epochs", "1"}, "many");
  EXPECT_NE(many.text.find("nvidia-cuda-mps-control"), std::string::npos) << many.text;
  const Finished one = run_it({"--device", "cuda", "--workers", "1", "--epochs", "1"}, "one");
  EXPECT_EQ(one.text.find("nvidia-cuda-mps-control"), std::string::npos) << one.text;
}

}  // namespace
}  // namespace passel::testing
