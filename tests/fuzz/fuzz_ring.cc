// The ring's reading end while the indices and entries change under it in any way.
#include <fuzzer/FuzzedDataProvider.h>

#include <cstdint>
#include <cstdlib>
#include <memory>

#include "passel/shm/buffer_pool.h"
#include "passel/shm/ring.h"

namespace {

using namespace passel::shm;

void check(bool right) {
  if (!right) std::abort();
}

/// On the heap and of its exact size, so that AddressSanitizer sees a look beside it.
struct Memory {
  explicit Memory(std::uint64_t entries)
      : capacity(entries), slots(std::make_unique<Lease[]>(entries)) {}

  RingConsumer<Lease> consumer() { return {&indices, slots.get(), capacity}; }

  std::uint64_t capacity;
  RingIndices indices;
  std::unique_ptr<Lease[]> slots;
};

/// Nearly right numbers are the more dangerous ones.
std::uint64_t index_near(FuzzedDataProvider& input, std::uint64_t value) {
  return input.ConsumeBool() ? input.ConsumeIntegral<std::uint64_t>()
                             : value + input.ConsumeIntegralInRange<std::uint64_t>(0, 32) - 16;
}

/// Takes all there is. A buffer may only move by the lease it was granted under.
void drain(RingConsumer<Lease>& consumer, const Memory& memory, BufferPool& pool) {
  std::uint64_t count = 0;
  for (Lease lease{}; consumer.try_pop(lease); ++count) {
    const std::size_t held = pool.held();
    const bool accepted = pool.accept(lease);
    check(pool.held() == held + (accepted ? 1 : 0));
    check(pool.free() + pool.leased() + pool.held() == pool.size());
    if (accepted) check(lease.buffer < pool.size() && pool.give_back(lease));
  }
  check(count <= 2 * memory.capacity);  // what was seen before, then one lap
  check(consumer.empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDataProvider input(data, size);
  Memory memory(1ULL << input.ConsumeIntegralInRange(0, 4));
  BufferPool pool(4);
  auto consumer = memory.consumer();
  while (input.remaining_bytes() > 0) {
    switch (input.ConsumeIntegralInRange(0, 5)) {
      case 0:
        memory.indices.tail.store(index_near(input, memory.indices.head.load()));
        break;
      case 1:
        memory.indices.head.store(index_near(input, memory.indices.tail.load()));
        break;
      case 2: {
        const auto slot = input.ConsumeIntegralInRange<std::uint64_t>(0, memory.capacity - 1);
        input.ConsumeData(&memory.slots[slot], sizeof(Lease));
        break;
      }
      case 3:
        consumer = memory.consumer();
        break;
      case 4:
        if (const auto lease = pool.lease(1, 1)) memory.slots[0] = *lease;
        break;
      default:
        drain(consumer, memory, pool);
    }
  }
  drain(consumer, memory, pool);
  return 0;
}
