#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <thread>

#include "pain/pain.h"

namespace passel::pain {
namespace {

using shm::test::mappings;
using shm::test::open_descriptors;

struct Counts {
  std::size_t before = 0;
  std::size_t after = 0;
  std::size_t received = 0;
};

/// Lets go of each tensor before it takes the next.
Counts pain_count_descriptors(Worker& self) {
  auto queue = self.queue("many");
  Counts counts{.before = open_descriptors()};
  while (queue.get()) ++counts.received;
  counts.after = open_descriptors();
  return counts;
}
PASSEL_ENTRY(pain_count_descriptors);

/// Holds all tensors until it has counted.
Counts pain_count_mappings(Worker& self) {
  auto queue = self.queue("many");
  std::vector<at::Tensor> held;
  held.reserve(self.value<std::uint64_t>("expected"));
  Counts counts{.before = mappings()};
  while (const auto tensor = queue.get()) held.push_back(*tensor);
  counts.after = mappings();
  counts.received = held.size();
  return counts;
}
PASSEL_ENTRY(pain_count_mappings);

void pain_echo(Worker& self) {
  auto to = self.queue("to");
  auto back = self.queue("back");
  while (const auto tensor = to.get()) back.put(*tensor);
}
PASSEL_ENTRY(pain_echo);

/// Few file descriptors for this process and those it starts.
class FewDescriptors {
 public:
  explicit FewDescriptors(rlim_t most) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit few{.rlim_cur = most, .rlim_max = before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  }
  ~FewDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  rlimit before_{};
};

TEST(SharedTensors, PassByTheHundredThousandWithoutADescriptorEach) {
  constexpr std::size_t kTensors = 100'000;
  const FewDescriptors limit(64);
  Shared shared({});
  auto queue = shared.queue("many", {.capacity = 256});
  auto workers = spawn(pain_count_descriptors, shared);
  const std::size_t before = open_descriptors();
  for (std::size_t i = 0; i < kTensors; ++i) queue.put(shared.empty({4}, at::kFloat));
  EXPECT_EQ(open_descriptors(), before);
  queue.close();
  join(*workers);
  const auto counts = workers->result<Counts>(0).value();
  EXPECT_EQ(counts.received, kTensors);
  EXPECT_EQ(counts.after, counts.before);
}

TEST(SharedTensors, AreHeldByTheTensOfThousandsWithoutAMappingEach) {
  constexpr std::size_t kTensors = 80'000;
  Shared shared({.chunks = kTensors + 1});
  auto queue = shared.queue("many", {.capacity = 256});
  shared.value<std::uint64_t>("expected", kTensors);
  auto workers = spawn(pain_count_mappings, shared);
  std::vector<at::Tensor> held;
  held.reserve(kTensors);
  const std::size_t before = mappings();
  for (std::size_t i = 0; i < kTensors; ++i) {
    held.push_back(shared.empty({4}, at::kFloat));
    queue.put(held.back());
  }
  EXPECT_LE(mappings(), before + 2);
  queue.close();
  join(*workers);
  const auto counts = workers->result<Counts>(0).value();
  EXPECT_EQ(counts.received, kTensors);
  EXPECT_LE(counts.after, counts.before + 2);
}

TEST(SharedMemory, HasNoNameInAnyFolder) {
  const auto before = shm::test::names_in("/dev/shm");
  Shared shared({});
  auto queue = shared.queue("to");
  shared.queue("back", {.read_by = ReadBy::kParent});
  const at::Tensor weight = at::zeros({1000});
  shared.share("weight", weight);
  auto workers = spawn(pain_echo, shared);
  queue.put(at::zeros({1000}));

  struct stat status {};
  ASSERT_EQ(::fstat(shared.arena().fd(), &status), 0);
  EXPECT_EQ(status.st_nlink, 0U) << "a file with a name";
  EXPECT_TRUE(comes_to([&] {
    return std::ranges::includes(before, shm::test::names_in("/dev/shm"));
  })) << "new names in /dev/shm, semaphores perhaps";
  queue.close();
  join(*workers);
}

TEST(SharedMemory, OfAnAbsurdSizeIsAnErrorThatNamesTheBytesAndTheProgramGoesOn) {
  const auto absurd = std::size_t{1} << 50;
  const std::string text = error_of([&] { Shared({.memory = absurd}); });
  ASSERT_NE(text.find(" of "), std::string::npos) << text;
  EXPECT_GE(std::stoull(text.substr(text.find(" of ") + 4)), absurd) << text;
  error_of([&] { Shared({.region = ~std::size_t{0}}); });

  Shared shared({.region = kMiB});
  const std::string too_large = error_of([&] { shared.empty({kMiB}, at::kFloat); });
  EXPECT_NE(too_large.find(std::to_string(4 * kMiB)), std::string::npos) << too_large;
  EXPECT_EQ(shared.empty({4}, at::kFloat).numel(), 4);
}

TEST(SharedMemory, IsGivenBackOnceHoweverManyHoldItAndInWhateverOrderTheyLetGo) {
  const std::size_t before = open_descriptors();
  at::Tensor weight = at::arange(1000);
  std::vector<at::Tensor> tensors;
  {
    Shared shared({});
    shared.share("weight", weight);
    for (int i = 0; i < 64; ++i) tensors.push_back(shared.compact(weight));
  }
  // The arena lives on in its tensors; these are dropped by many threads at once.
  EXPECT_EQ(weight[999].item<int>(), 999);
  std::vector<std::jthread> droppers;
  for (at::Tensor& tensor : tensors) {
    droppers.emplace_back([&tensor] {
      EXPECT_EQ(tensor[999].item<int>(), 999);
      tensor.reset();
    });
  }
  droppers.clear();
  EXPECT_GT(open_descriptors(), before) << "the weight still holds it";
  weight.reset();
  EXPECT_EQ(open_descriptors(), before);
}

TEST(SharedMemory, HoldsNoMoreThanTheViewThatIsSentAsACompactCopy) {
  Shared shared({.memory = kMiB, .region = kMiB});
  auto to = shared.queue("to");
  auto back = shared.queue("back", {.read_by = ReadBy::kParent});
  auto workers = spawn(pain_echo, shared);
  const at::Tensor large = at::arange(16 * static_cast<std::int64_t>(kMiB), at::kByte);
  const at::Tensor view = large.slice(0, 1000, 2024);
  EXPECT_EQ(exposed_bytes(view), 16 * kMiB);
  error_of([&] { to.put(view); });
  const at::Tensor small = shared.compact(view);
  EXPECT_EQ(exposed_bytes(small), 1024U);
  EXPECT_LE(shared.exchange().ledger().bytes_in_use(), 4096U);
  to.put(small);
  EXPECT_TRUE(next(back).equal(view));
  to.close();
  join(*workers);
}

TEST(TensorsWithoutElements, PassLikeAllOthers) {
  Shared shared({});
  auto to = shared.queue("to");
  auto back = shared.queue("back", {.read_by = ReadBy::kParent});
  const at::Tensor empty = at::zeros({0});
  shared.share("empty", empty);
  auto workers = spawn(pain_echo, shared);
  for (const at::Tensor& sent : {empty, at::zeros({3, 0, 2}), at::zeros({0}, at::kBool)}) {
    to.put(sent);
    const at::Tensor got = next(back);
    EXPECT_EQ(got.sizes(), sent.sizes());
    EXPECT_EQ(got.scalar_type(), sent.scalar_type());
  }
  to.close();
  join(*workers);
}

}  // namespace
}  // namespace passel::pain
