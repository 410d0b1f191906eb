// What is shared and the workers that use it may be dropped in any order.
#include <ATen/ops/ones.h>

#include <fstream>

#include "pain/pain.h"

namespace passel::pain {
namespace {

void pain_take_one_and_wait(Worker& self) {
  auto to = self.queue("to");
  auto back = self.queue("back");
  back.put(next(to));
  while (to.get()) {
  }
}
PASSEL_ENTRY(pain_take_one_and_wait);

TEST(TheWorkersContext, OutlivesWhatWasShared) {
  auto shared = std::make_unique<Shared>(SharedSettings{});
  auto to = shared->queue("to");
  auto back = shared->queue("back", {.read_by = ReadBy::kParent});
  auto workers = spawn(pain_take_one_and_wait, *shared);
  shared.reset();
  to.put(at::ones({2}));
  EXPECT_TRUE(next(back).equal(at::ones({2})));
  to.close();
  join(*workers);
}

TEST(AQueueWhoseWorkersContextWasDropped, TakesNothingAndGivesWhatWasInIt) {
  Shared shared({});
  auto to = shared.queue("to");
  auto back = shared.queue("back", {.read_by = ReadBy::kParent});
  auto workers = spawn(pain_take_one_and_wait, shared);
  to.put(at::ones({2}));
  const std::array<shm::ExchangeQueue*, 1> only = {back.channel()};
  ASSERT_EQ(wait_any(only, patience()), 0U);
  workers.reset();
  EXPECT_EQ(to.try_put(at::ones({2})), QueueStatus::kClosed);
  EXPECT_NE(error_of([&] { to.put(at::ones({2})); }).find("queue 'to'"), std::string::npos);
  EXPECT_TRUE(next(back).equal(at::ones({2})));
  EXPECT_FALSE(back.get());
}

TEST(Spawning, ASecondTimeWithOneSharedIsRefusedWithWhatToDo) {
  Shared shared({});
  auto to = shared.queue("to");
  auto workers = spawn(pain_take_one_and_wait, shared);
  const std::string text = error_of([&] { auto more = spawn(pain_take_one_and_wait, shared); });
  EXPECT_NE(text.find("make another Shared"), std::string::npos) << text;
}

std::size_t mappings_of_arenas() {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) {
    count += line.find("memfd:passel") != std::string::npos ? 1 : 0;
  }
  return count;
}

TEST(SharedMemory, GoesWithTheLastTensorInIt) {
  const std::size_t before = mappings_of_arenas();
  {
    const at::Tensor tensor = at::ones({4});
    {
      Shared shared({});
      shared.share("x", tensor);
      auto queue = shared.queue("to");
      EXPECT_GT(mappings_of_arenas(), before);
    }
    EXPECT_TRUE(tensor.equal(at::ones({4}))) << "a tensor keeps the memory it lies in";
  }
  EXPECT_EQ(mappings_of_arenas(), before);
}

struct alignas(8) Hertz {
  double value;
};

bool pain_open_as_another_type(Worker& self) {
  const bool right = self.value<double>("rate") == 2.5;
  return right && error_of([&] { (void)self.value<Hertz>("rate"); }).find("another type") !=
                      std::string::npos;
}
PASSEL_ENTRY(pain_open_as_another_type);

TEST(ASharedValue, IsOpenedWithTheTypeItWasCreatedWithOnly) {
  Shared shared({});
  shared.value<double>("rate", 2.5);
  auto workers = spawn(pain_open_as_another_type, shared);
  join(*workers);
  EXPECT_TRUE(workers->result<bool>(0).value());
}

}  // namespace
}  // namespace passel::pain
