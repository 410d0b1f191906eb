// What torch is told about determinism in a worker on a GPU, over a CUDA runtime without one.
#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "cuda_gpus.h"
#include "passel/shm/worker.h"
#include "shm/support.h"
#include "shm_cuda/fake_cuda/fake_cuda.h"

namespace passel::device {
namespace {

struct Found {
  bool deterministic;
  bool fills_memory;
  char workspace[16];
};

void tells_its_settings(shm::WorkerContext& context) {
  const WorkerPlace place = cuda_gpus().open(context.arena, context.slot);
  const char* workspace = std::getenv("CUBLAS_WORKSPACE_CONFIG");
  Found& found = *context.arena.get<Found>("found");
  found.deterministic = at::globalContext().deterministicAlgorithms();
  found.fills_memory = at::globalContext().deterministicFillUninitializedMemory();
  std::string(workspace == nullptr ? "" : workspace)
      .copy(found.workspace, sizeof(Found::workspace) - 1);
}
PASSEL_ENTRY(tells_its_settings);

Found settings(bool deterministic, std::vector<std::string> environment) {
  fake_cuda::reset();
  shm::Arena arena = shm::Arena::create("gpu", 8 << 20);
  Found& found = *arena.construct<Found>("found");
  const auto memory =
      cuda_gpus().lay_out(arena, {.ordinals = {0}, .workers = 1, .deterministic = deterministic});
  shm::test::Team team(
      arena, {.slots = 1, .entry = "tells_its_settings", .environment = std::move(environment)});
  team.supervisor.spawn(0);
  const shm::WorkerExit exit = team.next_exit();
  EXPECT_FALSE(exit.failed()) << exit.describe();
  return found;
}

TEST(Deterministic, AreTorchAndCublasOfAWorkerIfTheRunIs) {
  const Found found = settings(true, {});
  EXPECT_TRUE(found.deterministic);
  EXPECT_FALSE(found.fills_memory) << "each new tensor is written twice";
  EXPECT_STREQ(found.workspace, ":4096:8");
}

TEST(Deterministic, LeavesTheUsersChoiceOfCublasWorkspace) {
  EXPECT_STREQ(settings(true, {"CUBLAS_WORKSPACE_CONFIG=:16:8"}).workspace, ":16:8");
}

TEST(Deterministic, IsNothingWhereWorkersRace) {
  const Found found = settings(false, {});
  EXPECT_FALSE(found.deterministic);
  EXPECT_STREQ(found.workspace, "");
}

}  // namespace
}  // namespace passel::device
