#include <fcntl.h>

#include <cstdint>
#include <cstdio>

#include "passel/shm/arena.h"
#include "passel/shm/ring.h"

namespace shm = passel::shm;

// One memory, mapped twice as two processes would: what goes in at one end comes out at the other.
int main() {
  constexpr std::uint64_t kCapacity = 8;
  shm::Arena arena = shm::Arena::create("consumer", 1 << 20);
  auto* const indices = arena.construct<shm::RingIndices>("indices");
  const auto slots = arena.construct_array<int>("slots", kCapacity);
  arena.freeze();
  shm::RingProducer<int> producer(indices, slots.data(), kCapacity);
  if (!producer.try_push(42)) return 1;

  shm::Arena other = shm::Arena::attach(fcntl(arena.fd(), F_DUPFD_CLOEXEC, 0));
  shm::RingConsumer<int> consumer(other.get<shm::RingIndices>("indices"),
                                  other.get_array<int>("slots").data(), kCapacity);
  int value = 0;
  const bool popped = consumer.try_pop(value);
  std::printf("popped %d\n", value);
  return popped && value == 42 ? 0 : 1;
}
