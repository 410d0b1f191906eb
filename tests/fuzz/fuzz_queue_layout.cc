// QueueLayout::open() over a block of arbitrary bytes, and what it lets through used as a queue.
#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "passel/shm/arena.h"
#include "passel/shm/error.h"
#include "passel/shm/queue.h"

namespace {

using namespace passel::shm;

struct Entry {
  std::array<std::uint64_t, 3> word;
};
using Queue = SimpleQueue<Entry>;

/// Blocks that were queues of several sizes once, and how they looked.
struct Blocks {
  Blocks() {
    add({.producers = 1, .capacity = 1});
    add({.producers = 1, .capacity = 8});
    add({.producers = 3, .capacity = 4});
    const Block block = arena.add("3", 8192);
    images.emplace_back(arena.bytes(block).begin(), arena.bytes(block).end());
  }

  void add(QueueOptions options) {
    const std::string name = std::to_string(images.size());
    Queue::create(arena, name, options).producer(0).try_put({});
    const auto bytes = arena.bytes(arena.find(name));
    images.emplace_back(bytes.begin(), bytes.end());
  }

  Arena arena = Arena::create("fuzz", 1 << 16);
  std::vector<std::vector<std::byte>> images;
};

void check(bool right) {
  if (!right) std::abort();
}

/// All that a survivor does with a queue. Nobody writes meanwhile, so each ring has one lap at
/// most.
void use(const Queue& queue) {
  auto consumer = queue.consumer();
  Entry entry{};
  std::uint64_t count = 0;
  while (consumer.try_get(entry) == QueueStatus::kOk) ++count;
  check(count <= std::uint64_t{queue.producers()} * queue.capacity());
  check(consumer.empty());
  for (std::uint32_t i = 0; i < queue.producers(); ++i) queue.reset_producer(i);
  queue.close();
  queue.reset();
  auto successor = queue.consumer();
  for (std::uint32_t i = 0; i < queue.producers(); ++i) {
    check(queue.producer(i).try_put(Entry{}) == QueueStatus::kOk);
    check(successor.try_get(entry) == QueueStatus::kOk);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Blocks blocks;
  FuzzedDataProvider input(data, size);
  const auto which = input.ConsumeIntegralInRange<std::size_t>(0, blocks.images.size() - 1);
  const std::string name = std::to_string(which);
  const std::vector<std::byte>& image = blocks.images[which];
  const auto bytes = blocks.arena.bytes(blocks.arena.find(name));
  std::ranges::copy(image, bytes.begin());
  if (input.ConsumeBool()) {  // words here and there
    while (input.remaining_bytes() > 0) {
      const auto word = input.ConsumeIntegralInRange<std::size_t>(0, bytes.size() / 8 - 1);
      const auto value = input.ConsumeIntegral<std::uint64_t>();
      std::memcpy(bytes.data() + 8 * word, &value, sizeof(value));
    }
  } else {  // the block from its start
    input.ConsumeData(bytes.data(), bytes.size());
  }
  try {
    use(Queue::open(blocks.arena, name));
  } catch (const Error&) {
    // What is refused may be anything.
  }
  return 0;
}
