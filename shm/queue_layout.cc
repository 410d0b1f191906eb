#include "passel/shm/queue_layout.h"

#include <bit>
#include <new>
#include <string>

#include "passel/shm/error.h"

namespace passel::shm {
namespace {

constexpr std::uint64_t kMagic = 0x31657565'75516c50;  // "PlQueue1"
constexpr std::uint32_t kMaxCapacity = 1U << 24;
constexpr std::uint32_t kMaxProducers = 1U << 12;

std::string quoted(std::string_view name) {
  return "queue '" + std::string(name) + "'";
}

}  // namespace

std::size_t QueueLayout::slots_bytes(std::uint32_t capacity, std::size_t entry_bytes) noexcept {
  return (capacity * entry_bytes + kAlign - 1) / kAlign * kAlign;
}

std::size_t QueueLayout::block_bytes(std::uint32_t producers, std::uint32_t capacity,
                                     std::size_t entry_bytes) noexcept {
  return sizeof(Head) + producers * (sizeof(Lane) + slots_bytes(capacity, entry_bytes));
}

QueueLayout::QueueLayout(std::byte* block, std::uint32_t producers, std::uint32_t capacity,
                         std::size_t entry_bytes) noexcept
    : head_(reinterpret_cast<Head*>(block)),
      lanes_(reinterpret_cast<Lane*>(block + sizeof(Head))),
      slots_(block + sizeof(Head) + producers * sizeof(Lane)),
      slots_bytes_(slots_bytes(capacity, entry_bytes)),
      producers_(producers),
      capacity_(capacity) {}

QueueLayout QueueLayout::create(Arena& arena, std::string_view name, QueueOptions options,
                                std::size_t entry_bytes, std::size_t entry_align) {
  if (options.producers == 0 || options.producers > kMaxProducers || options.capacity == 0 ||
      options.capacity > kMaxCapacity) {
    throw Error("create " + quoted(name) + " with " + std::to_string(options.producers) +
                    " producers and capacity " + std::to_string(options.capacity),
                0,
                "Expected 1 to " + std::to_string(kMaxProducers) +
                    " producers and a capacity of 1 to " + std::to_string(kMaxCapacity));
  }
  const std::uint32_t capacity = std::bit_ceil(options.capacity);
  const Block block =
      arena.add(name, block_bytes(options.producers, capacity, entry_bytes), kAlign);
  QueueLayout layout(arena.bytes(block).data(), options.producers, capacity, entry_bytes);
  const std::uint64_t bells =
      options.bells.empty()
          ? 0
          : static_cast<std::uint64_t>(reinterpret_cast<std::byte*>(options.bells.data()) -
                                       arena.data());
  new (layout.head_) Head{.magic = kMagic,
                          .entry_bytes = entry_bytes,
                          .entry_align = entry_align,
                          .producers = options.producers,
                          .capacity = capacity,
                          .bells = bells,
                          .bell_count = options.bells.size(),
                          .consumer = options.consumer,
                          .closed = 0,
                          .bell = {}};
  for (std::uint32_t i = 0; i < options.producers; ++i) new (layout.lanes_ + i) Lane();
  layout.use_bells(arena, *layout.head_, name);
  return layout;
}

QueueLayout QueueLayout::open(const Arena& arena, std::string_view name, std::size_t entry_bytes,
                              std::size_t entry_align) {
  const Block block = arena.find(name);
  if (block.bytes < sizeof(Head) + sizeof(Lane) || block.offset % kAlign != 0) {
    throw Error("open " + quoted(name), 0, "The block of this name is no queue");
  }
  std::byte* const base = arena.bytes(block).data();
  const Head& head = *std::launder(reinterpret_cast<const Head*>(base));
  const std::uint32_t producers = head.producers;
  const std::uint32_t capacity = head.capacity;
  if (head.magic != kMagic || producers == 0 || producers > kMaxProducers ||
      capacity > kMaxCapacity || !std::has_single_bit(capacity)) {
    throw Error("open " + quoted(name), 0, "The block of this name is no queue");
  }
  if (head.entry_bytes != entry_bytes || head.entry_align != entry_align ||
      block.bytes != block_bytes(producers, capacity, entry_bytes)) {
    throw Error(
        "open " + quoted(name) + " for entries of " + std::to_string(entry_bytes) + " bytes", 0,
        "It was created for entries of " + std::to_string(head.entry_bytes) +
            " bytes: open it with the type it was created with");
  }
  QueueLayout layout(base, producers, capacity, entry_bytes);
  layout.use_bells(arena, head, name);
  return layout;
}

void QueueLayout::use_bells(const Arena& arena, const Head& head, std::string_view name) {
  if (head.bells == 0) return;
  const std::uint64_t count = head.bell_count;
  std::byte* const first =
      count <= kMaxProducers ? arena.at(head.bells, count * sizeof(Doorbell)) : nullptr;
  if (first == nullptr || head.bells % alignof(Doorbell) != 0 || producers_ > count ||
      head.consumer >= count) {
    throw Error("use the bells of " + quoted(name), 0,
                "Expected a bell of this arena for each of " + std::to_string(producers_) +
                    " producers and for the consumer, got " + std::to_string(count) +
                    " bells and consumer " + std::to_string(head.consumer));
  }
  bells_ = std::launder(reinterpret_cast<Doorbell*>(first));
  consumer_ = head.consumer;
}

std::pair<std::uint64_t, std::uint64_t> QueueLayout::undelivered(std::uint32_t i) const noexcept {
  const RingIndices& ring = *indices(i);
  // Acquire as in the ends of the ring.
  const std::uint64_t head = ring.head.load(std::memory_order_acquire);
  const std::uint64_t tail = ring.tail.load(std::memory_order_acquire);
  return tail - head > capacity_ ? std::pair{head, head} : std::pair{head, tail};
}

void QueueLayout::check_producer(std::uint32_t index) const {
  if (index < producers_) return;
  throw Error("take producer " + std::to_string(index) + " of a queue", 0,
              "It was created for " + std::to_string(producers_) + " producers, counted from 0");
}

void QueueLayout::close() const noexcept {
  // Before the bells: a waiter that a bell wakes must find the reason. Release pairs with closed().
  head_->closed.store(1, std::memory_order_release);
  consumer_bell().wake_all();
  for (std::uint32_t i = 0; i < producers_; ++i) producer_bell(i).wake_all();
}

void QueueLayout::reset_producer(std::uint32_t index) const noexcept {
  RingIndices& ring = *indices(index);
  // Both relaxed: the producer is dead, and the death was learned through the kernel.
  const std::uint64_t head = ring.head.load(std::memory_order_relaxed);
  const std::uint64_t tail = ring.tail.load(std::memory_order_relaxed);
  if (tail - head > capacity_) ring.tail.store(head, std::memory_order_relaxed);  // scribbled
  consumer_bell().wake_all();
}

void QueueLayout::reset() const noexcept {
  for (std::uint32_t i = 0; i < producers_; ++i) {
    RingIndices& ring = *indices(i);
    // The parent takes the dead consumer's part and gets everything. Acquire and release as in
    // RingConsumer, because the producers may be alive.
    ring.head.store(ring.tail.load(std::memory_order_acquire), std::memory_order_release);
  }
  head_->closed.store(0, std::memory_order_release);
  for (std::uint32_t i = 0; i < producers_; ++i) producer_bell(i).wake_all();
}

}  // namespace passel::shm
