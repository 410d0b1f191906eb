#include "passel/shm/buffer_pool.h"

#include <numeric>

namespace passel::shm {

BufferPool::BufferPool(std::uint32_t count) : entries_(count), free_(count) {
  std::iota(free_.rbegin(), free_.rend(), 0U);
}

std::optional<Lease> BufferPool::lease(std::uint32_t slot, std::uint32_t incarnation) {
  if (free_.empty()) return std::nullopt;
  const std::uint32_t buffer = free_.back();
  free_.pop_back();
  Entry& entry = entries_[buffer];
  entry.owner = Owner::kWorker;
  entry.slot = slot;
  entry.incarnation = incarnation;
  ++leased_;
  return Lease{buffer, entry.generation, slot, incarnation};
}

BufferPool::Entry* BufferPool::match(const Lease& lease, Owner owner) noexcept {
  if (lease.buffer < entries_.size()) {
    Entry& entry = entries_[lease.buffer];
    if (entry.owner == owner && entry.generation == lease.generation && entry.slot == lease.slot &&
        entry.incarnation == lease.incarnation) {
      return &entry;
    }
  }
  ++stale_;
  return nullptr;
}

bool BufferPool::accept(const Lease& lease) noexcept {
  Entry* const entry = match(lease, Owner::kWorker);
  if (entry == nullptr) return false;
  entry->owner = Owner::kParent;
  --leased_;
  return true;
}

bool BufferPool::give_back(const Lease& lease) noexcept {
  if (match(lease, Owner::kParent) == nullptr) return false;
  release(lease.buffer);
  return true;
}

std::size_t BufferPool::reclaim(std::uint32_t slot, std::uint32_t incarnation) noexcept {
  std::size_t reclaimed = 0;
  for (std::uint32_t buffer = 0; buffer < entries_.size(); ++buffer) {
    const Entry& entry = entries_[buffer];
    if (entry.owner == Owner::kWorker && entry.slot == slot && entry.incarnation == incarnation) {
      release(buffer);
      ++reclaimed;
    }
  }
  leased_ -= reclaimed;
  return reclaimed;
}

void BufferPool::release(std::uint32_t buffer) noexcept {
  entries_[buffer].owner = Owner::kNobody;
  ++entries_[buffer].generation;
  free_.push_back(buffer);  // never allocates: its capacity is the number of buffers
}

}  // namespace passel::shm
