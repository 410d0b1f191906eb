#include "passel/shm/chunk_ledger.h"

#include <algorithm>

#include "passel/shm/fork_guard.h"

namespace passel::shm {
namespace {

// How many lent chunks an allocation looks at: enough to keep up with any rate of sending.
constexpr std::size_t kGlance = 4;

}  // namespace

ChunkLedger::ChunkLedger(const Arena& arena, const ChunkTable& table, std::uint32_t process)
    : arena_(arena),
      table_(table),
      process_(process),
      heap_(arena, table, process),
      locals_(table.size()) {
  // What a former process of this slot lent and somebody still holds.
  for (std::uint32_t id = process * table.chunks_per_region(), i = 0; i < table.chunks_per_region();
       ++i, ++id) {
    if (!table[id].held()) continue;
    locals_[id].lent = true;
    lent_.push_back(id);
  }
}

ChunkLedger::Allocation ChunkLedger::allocate(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  for (Lane& lane : lanes_) retire(lane);
  sweep_lent(kGlance);
  auto id = heap_.allocate(bytes);
  if (!id && !lent_.empty()) {
    sweep_lent(lent_.size());
    id = heap_.allocate(bytes);
  }
  if (!id) {
    const bool too_large = bytes > table_.region(process_).bytes;
    return {too_large ? Status::kTooLarge : status_of_failure(), {}, nullptr};
  }
  ChunkRecord& record = table_[*id];
  locals_[*id].references = 1;
  // Relaxed: this process alone writes it.
  return {Status::kOk,
          {*id, record.generation.load(std::memory_order_relaxed)},
          table_.elsewhere() ? nullptr : arena_.data() + record.offset};
}

ChunkLedger::Status ChunkLedger::status_of_failure() const noexcept {
  if (heap_.failure() != 0) return Status::kSystem;
  if (!lent_.empty()) return Status::kLent;
  for (const Lane& lane : lanes_) {
    for (const auto& [ticket, id] : lane.entries) {
      if (own(id) && locals_[id].references == 0) return Status::kLent;
    }
  }
  return Status::kOwn;
}

void ChunkLedger::retain(std::uint32_t id) noexcept {
  const std::lock_guard lock(mutex_);
  ++locals_[id].references;
}

void ChunkLedger::release(std::uint32_t id) noexcept {
  if (forked()) return;  // the books are a copy: the reference is still the parent's
  const std::lock_guard lock(mutex_);
  --locals_[id].references;
  settle(id);
}

bool ChunkLedger::claim(ChunkHandle handle) noexcept {
  if (handle.id >= table_.size()) return false;
  ChunkRecord& record = table_[handle.id];
  // Acquire pairs with the release in RegionHeap::free().
  if (record.generation.load(std::memory_order_acquire) != handle.generation) return false;
  const std::lock_guard lock(mutex_);
  retire_next();
  Local& local = locals_[handle.id];
  // A chunk of its own that neither it nor anybody else has is free: an invented handle.
  if (own(handle.id) && local.references + local.under_way == 0 && !local.lent) return false;
  if (!own(handle.id) && local.references + local.under_way == 0) record.hold(process_);
  ++local.references;
  return true;
}

std::uint32_t ChunkLedger::add_lane(const std::atomic<std::uint64_t>& popped) {
  const std::lock_guard lock(mutex_);
  const auto known = std::ranges::find(lanes_, &popped, &Lane::popped);
  if (known != lanes_.end()) return static_cast<std::uint32_t>(known - lanes_.begin());
  lanes_.push_back({&popped, {}});
  return static_cast<std::uint32_t>(lanes_.size() - 1);
}

void ChunkLedger::sent(std::uint32_t lane, std::uint64_t ticket, std::uint32_t id) {
  const std::lock_guard lock(mutex_);
  retire(lanes_[lane]);
  retire_next();
  ++locals_[id].under_way;
  lanes_[lane].entries.emplace_back(ticket, id);
}

bool ChunkLedger::adopt(std::uint32_t lane, std::uint64_t ticket, ChunkHandle handle) {
  if (!claim(handle)) return false;
  sent(lane, ticket, handle.id);
  release(handle.id);
  return true;
}

void ChunkLedger::forget(std::uint32_t process) noexcept {
  for (std::uint32_t id = 0; id < table_.size(); ++id) table_[id].let_go(process);
  for (Doorbell& inbox : table_.inboxes()) inbox.ring();
}

bool ChunkLedger::collect() {
  const std::lock_guard lock(mutex_);
  for (Lane& lane : lanes_) retire(lane);
  sweep_lent(lent_.size());
  return std::ranges::any_of(lanes_, [](const Lane& lane) { return !lane.entries.empty(); });
}

std::uint64_t ChunkLedger::bytes_in_use() const {
  const std::lock_guard lock(mutex_);
  return heap_.bytes_in_use();
}

std::uint32_t ChunkLedger::chunks_in_use() const {
  const std::lock_guard lock(mutex_);
  return heap_.chunks_in_use();
}

// Lets a chunk go once nothing here needs it.
void ChunkLedger::settle(std::uint32_t id) noexcept {
  Local& local = locals_[id];
  if (local.references + local.under_way != 0) return;
  if (!own(id)) {
    table_[id].let_go(process_);
    table_.inboxes()[table_.owner(id)].ring();
  } else if (!local.lent) {
    if (table_[id].held()) {
      local.lent = true;
      lent_.push_back(id);
    } else {
      heap_.free(id);
    }
  }
}

void ChunkLedger::retire(Lane& lane) {
  if (lane.entries.empty()) return;
  // Acquire pairs with the release of the ring's consumer: whoever took an entry has set its bit.
  const std::uint64_t popped = lane.popped->load(std::memory_order_acquire);
  while (!lane.entries.empty() && lane.entries.front().first < popped) {
    const std::uint32_t id = lane.entries.front().second;
    lane.entries.pop_front();
    --locals_[id].under_way;
    settle(id);
  }
}

// So that a lane which nobody sends through any more is looked at, too.
void ChunkLedger::retire_next() {
  if (lanes_.empty()) return;
  next_lane_ = next_lane_ + 1 < lanes_.size() ? next_lane_ + 1 : 0;
  retire(lanes_[next_lane_]);
}

void ChunkLedger::sweep_lent(std::size_t count) {
  for (count = std::min(count, lent_.size()); count > 0; --count) {
    const std::uint32_t id = lent_.front();
    lent_.pop_front();
    Local& local = locals_[id];
    local.lent = false;
    if (local.references + local.under_way != 0) continue;  // came home; settle() sees to it
    if (table_[id].held()) {
      local.lent = true;
      lent_.push_back(id);
    } else {
      heap_.free(id);
    }
  }
}

}  // namespace passel::shm
