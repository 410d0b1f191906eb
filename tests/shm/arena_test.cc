#include "passel/shm/arena.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "support.h"

namespace passel::shm {
namespace {

using test::error_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::size_t kMiB = 1024 * 1024;

struct Counters {
  std::array<std::uint64_t, 4> value;
};

/// Attaches to a second mapping of the same file, as another process would.
Arena attach_again(const Arena& arena) {
  return Arena::attach(::fcntl(arena.fd(), F_DUPFD_CLOEXEC, 0));
}

std::string refusal(const Arena& arena) {
  return error_of([&] { attach_again(arena); });
}

TEST(Arena, GivesZeroedAlignedRangesThatDoNotOverlap) {
  Arena arena = Arena::create("test", kMiB);
  std::vector<Block> blocks;
  for (const std::size_t align :
       {std::size_t{1}, std::size_t{128}, std::size_t{512}, std::size_t{4096}}) {
    const Block block = arena.add("block" + std::to_string(align), 1000, align);
    EXPECT_EQ(block.offset % std::max(align, Arena::kBlockAlign), 0U);
    EXPECT_TRUE(
        std::ranges::all_of(arena.bytes(block), [](std::byte b) { return b == std::byte{0}; }));
    for (const Block& other : blocks) EXPECT_GE(block.offset, other.offset + other.bytes);
    std::ranges::fill(arena.bytes(block), std::byte{0xff});
    blocks.push_back(block);
  }
}

TEST(Arena, FindsABlockByNameAndNamesWhatItCannotFind) {
  Arena arena = Arena::create("test", kMiB);
  const Block added = arena.add("weights", 256);
  EXPECT_EQ(arena.find("weights").offset, added.offset);
  EXPECT_EQ(arena.find("weights").bytes, 256U);
  EXPECT_TRUE(arena.contains("weights"));
  EXPECT_FALSE(arena.contains("biases"));
  EXPECT_THAT(error_of([&] { (void)arena.find("biases"); }), HasSubstr("biases"));
}

TEST(Arena, SaysThatTheLimitOfOpenFilesIsReached) {
  // UBSan looks at a type the first time it meets it, and needs two descriptors for that.
  (void)Arena::create("test", kMiB);
  EXPECT_NE(error_of([] { (void)Arena::create("test", 0); }), "");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  // MemAvailable cannot be read either; that must not be what is complained about.
  const std::string text = error_of([] { (void)Arena::create("test", kMiB); });
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_THAT(text, AllOf(HasSubstr("Too many open files"), HasSubstr("ulimit -n")));
}

TEST(Arena, RefusesBlocksThatMakeNoSense) {
  Arena arena = Arena::create("test", kMiB);
  arena.add("taken", 1);
  EXPECT_THAT(error_of([&] { arena.add("taken", 1); }), HasSubstr("taken"));
  EXPECT_THAT(error_of([&] { arena.add("", 1); }), HasSubstr("name"));
  EXPECT_THAT(error_of([&] { arena.add("empty", 0); }), HasSubstr("0 bytes"));
  EXPECT_THAT(error_of([&] { arena.add("odd", 1, 48); }), HasSubstr("48"));
  EXPECT_THAT(error_of([&] { arena.construct_array<int>("none", 0); }), HasSubstr("none"));
}

TEST(Arena, RefusesNamesThatItsDirectoryCannotHold) {
  Arena arena = Arena::create("test", kMiB);
  for (const std::size_t length : {256U, 65'536U, 300'000U}) {
    EXPECT_THAT(error_of([&] { arena.add(std::string(length, 'x'), 1); }),
                HasSubstr("at most 255 characters"));
  }
  EXPECT_THAT(error_of([&] { arena.add(std::string("a\0b", 3), 1); }),
              HasSubstr("none of them zero"));
  EXPECT_NO_THROW(arena.add(std::string(255, 'x'), 1));
}

TEST(Arena, RefusesBlocksOnceFrozen) {
  Arena arena = Arena::create("test", kMiB);
  EXPECT_FALSE(arena.frozen());
  arena.freeze();
  EXPECT_TRUE(arena.frozen());
  EXPECT_THAT(error_of([&] { arena.add("late", 1); }), HasSubstr("before the first spawn"));
}

TEST(Arena, SaysHowMuchIsLeftWhenABlockDoesNotFit) {
  Arena arena = Arena::create("test", kMiB);
  EXPECT_THAT(error_of([&] { arena.add("big", 2 * kMiB); }), HasSubstr("1048576 bytes left"));
  EXPECT_THAT(error_of([&] { arena.add("huge", ~std::size_t{0}); }), HasSubstr("bytes left"));
  EXPECT_NO_THROW(arena.add("all", kMiB));
  EXPECT_THAT(error_of([&] { arena.add("more", 1); }), HasSubstr("0 bytes left"));
}

TEST(Arena, IsNotCreatedBeyondTheMemoryOfTheMachine) {
  const std::string message = error_of([] { Arena::create("test", std::size_t{1} << 50); });
  EXPECT_THAT(message, HasSubstr("1125899906842624 bytes"));
  EXPECT_THAT(message, HasSubstr("left"));
  EXPECT_THAT(error_of([] { Arena::create("test", 0); }), HasSubstr("capacity"));
}

TEST(Arena, FillsItsDirectoryWithoutHarmToTheNamesInIt) {
  Arena arena = Arena::create("test", 16 * kMiB);
  std::size_t names = 0;
  const std::string message = error_of([&] {
    for (; names < 100'000; ++names) arena.add("name" + std::to_string(names), 1);
  });
  EXPECT_THAT(message, HasSubstr("directory is full"));
  EXPECT_GE(names, 1000U);
  for (std::size_t i = 0; i < names; ++i) EXPECT_TRUE(arena.contains("name" + std::to_string(i)));
}

TEST(Arena, GivesNoAddressForARangeOutsideIt) {
  const Arena arena = Arena::create("test", kMiB);
  const std::uint64_t size = arena.size();
  EXPECT_EQ(arena.at(0, 1), arena.data());
  EXPECT_NE(arena.at(0, size), nullptr);
  EXPECT_NE(arena.at(size, 0), nullptr);
  EXPECT_EQ(arena.at(0, size + 1), nullptr);
  EXPECT_EQ(arena.at(size, 1), nullptr);
  EXPECT_EQ(arena.at(~0ULL, 2), nullptr);
  EXPECT_EQ(arena.at(2, ~0ULL), nullptr);
  EXPECT_TRUE(arena.bytes({size, 1}).empty());
}

TEST(Arena, SharesItsObjectsWithWhoeverAttaches) {
  Arena arena = Arena::create("test", kMiB);
  auto* counters = arena.construct<Counters>("counters");
  const auto numbers = arena.construct_array<double>("numbers", 7);
  numbers[6] = 2.5;
  const Arena other = attach_again(arena);
  EXPECT_NE(other.data(), arena.data());
  EXPECT_EQ(other.get_array<double>("numbers").size(), 7U);
  EXPECT_EQ(other.get_array<double>("numbers")[6], 2.5);
  other.get<Counters>("counters")->value[3] = 11;
  EXPECT_EQ(counters->value[3], 11U);
}

TEST(Arena, RefusesToReadAnObjectAsAnotherType) {
  Arena arena = Arena::create("test", kMiB);
  arena.construct<Counters>("counters");
  EXPECT_THAT(error_of([&] { (void)arena.get<std::uint64_t>("counters"); }), HasSubstr("32 bytes"));
  using Five = std::array<char, 5>;
  EXPECT_THAT(error_of([&] { (void)arena.get_array<Five>("counters"); }), HasSubstr("counters"));
}

TEST(Arena, IsFrozenForWhoeverAttaches) {
  const Arena arena = Arena::create("test", kMiB);
  Arena other = attach_again(arena);
  EXPECT_THAT(error_of([&] { other.add("mine", 1); }), HasSubstr("frozen"));
}

TEST(Arena, KeepsItsMappingWhenMoved) {
  Arena arena = Arena::create("test", kMiB);
  auto* counters = arena.construct<Counters>("counters");
  Arena moved = std::move(arena);
  EXPECT_EQ(moved.get<Counters>("counters"), counters);
  moved = Arena::create("other", kMiB);
  EXPECT_FALSE(moved.contains("counters"));
}

TEST(Arena, CannotBeMadeSmallerOrLarger) {
  const Arena arena = Arena::create("test", kMiB);
  EXPECT_EQ(::ftruncate(arena.fd(), 4096), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::ftruncate(arena.fd(), static_cast<off_t>(2 * arena.size())), -1);
}

TEST(Arena, RefusesWhatIsNoArena) {
  EXPECT_THAT(error_of([] { Arena::attach(-1); }), HasSubstr("-1"));
  EXPECT_THAT(error_of([] { Arena::attach(::open("/dev/null", O_RDWR | O_CLOEXEC)); }),
              HasSubstr("sealed"));
  // The right size, but a peer could truncate it under our feet.
  const int unsealed = ::memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(::ftruncate(unsealed, static_cast<off_t>(kMiB)), 0);
  EXPECT_THAT(error_of([&] { Arena::attach(unsealed); }), HasSubstr("sealed"));
}

// The header starts with: magic (8 bytes), version (4), reserved (4), size (8), build (32).
TEST(Arena, RefusesAHeaderOfAnotherProgram) {
  const auto refusal_after = [](std::size_t offset) {
    const Arena arena = Arena::create("test", kMiB);
    EXPECT_NO_THROW(attach_again(arena));
    arena.data()[offset] ^= std::byte{1};
    return refusal(arena);
  };
  EXPECT_THAT(refusal_after(0), HasSubstr("magic"));
  EXPECT_THAT(refusal_after(8), HasSubstr("layout version 0"));
  EXPECT_THAT(refusal_after(16), HasSubstr("damaged"));
  EXPECT_THAT(refusal_after(24), HasSubstr("another build"));
}

}  // namespace
}  // namespace passel::shm
