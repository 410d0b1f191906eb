#include "passel/shm/region_heap.h"

#include <algorithm>
#include <utility>

namespace passel::shm {
namespace {

constexpr std::uint64_t kPage = 4096;
// Pages are taken in steps, so that a growing region does not pay a system call per chunk.
constexpr std::uint64_t kStep = std::uint64_t{1} << 20;

// Coarse for large chunks: near sizes share a kept list.
std::uint64_t rounded(std::uint64_t bytes) {
  const std::uint64_t unit = bytes < 16 * kPage ? RegionHeap::kAlign : kPage;
  return std::max(unit, (bytes + unit - 1) / unit * unit);
}

}  // namespace

RegionHeap::RegionHeap(const Arena& arena, const ChunkTable& table, std::uint32_t process)
    : arena_(arena),
      table_(table),
      first_(process * table.chunks_per_region()),
      region_(table.region(process)),
      taken_(region_.offset) {
  recover();
}

void RegionHeap::recover() {
  std::map<std::uint64_t, std::uint64_t> used;
  for (std::uint32_t i = table_.chunks_per_region(); i-- > 0;) {
    const ChunkRecord& record = table_[first_ + i];
    const bool inside = record.offset >= region_.offset && record.bytes <= region_.bytes &&
                        record.offset - region_.offset <= region_.bytes - record.bytes;
    if (record.held() && inside) {
      used.emplace(record.offset, record.bytes);
      in_use_ += record.bytes;
      ++chunks_in_use_;
    } else {
      unused_.push_back(first_ + i);
    }
  }
  std::uint64_t at = region_.offset;
  for (const auto& [offset, bytes] : used) {
    if (offset > at) ranges_.emplace(at, offset - at);
    at = std::max(at, offset + bytes);
  }
  const std::uint64_t end = region_.offset + region_.bytes;
  if (at < end) ranges_.emplace(at, end - at);
}

std::optional<std::uint32_t> RegionHeap::allocate(std::uint64_t bytes) {
  failure_ = 0;
  if (bytes > region_.bytes) return std::nullopt;
  const std::uint64_t size = rounded(bytes);
  auto id = take_kept(size);
  if (!id) id = carve(size);
  if (!id && failure_ == 0 && !kept_.empty()) {
    merge_kept();
    id = carve(size);
  }
  if (!id) return std::nullopt;
  in_use_ += size;
  ++chunks_in_use_;
  return id;
}

std::optional<std::uint32_t> RegionHeap::take_kept(std::uint64_t bytes) {
  const auto found = kept_.find(bytes);
  if (found == kept_.end() || found->second.empty()) return std::nullopt;
  const std::uint32_t id = found->second.back();
  found->second.pop_back();
  return id;
}

std::optional<std::uint32_t> RegionHeap::carve(std::uint64_t bytes) {
  if (unused_.empty()) return std::nullopt;
  const auto range =
      std::ranges::find_if(ranges_, [&](const auto& free) { return free.second >= bytes; });
  if (range == ranges_.end() || !take_memory(range->first + bytes)) return std::nullopt;
  const auto [offset, length] = *range;
  ranges_.erase(range);
  if (length > bytes) ranges_.emplace(offset + bytes, length - bytes);
  const std::uint32_t id = unused_.back();
  unused_.pop_back();
  table_[id].offset = offset;
  table_[id].bytes = bytes;
  return id;
}

bool RegionHeap::take_memory(std::uint64_t end) {
  if (end <= taken_ || table_.elsewhere()) return true;
  const std::uint64_t limit = region_.offset + region_.bytes;
  const std::uint64_t to = std::min(limit, std::max(end, taken_ + kStep));
  failure_ = arena_.populate(taken_, to - taken_);
  if (failure_ == 0) taken_ = to;
  return failure_ == 0;
}

void RegionHeap::free(std::uint32_t id) {
  ChunkRecord& record = table_[id];
  // Release pairs with the acquire of whoever checks a handle's generation: a handle that still
  // matches was made before the bytes were given away again.
  record.generation.fetch_add(1, std::memory_order_release);
  in_use_ -= record.bytes;
  --chunks_in_use_;
  kept_[record.bytes].push_back(id);
}

void RegionHeap::merge_kept() {
  for (const auto& [bytes, ids] : kept_) {
    for (const std::uint32_t id : ids) {
      add_range(table_[id].offset, bytes);
      unused_.push_back(id);
    }
  }
  kept_.clear();
}

void RegionHeap::add_range(std::uint64_t offset, std::uint64_t bytes) {
  const auto next = ranges_.lower_bound(offset);
  if (next != ranges_.end() && offset + bytes == next->first) {
    bytes += next->second;
    ranges_.erase(next);
  }
  const auto after = ranges_.lower_bound(offset);
  if (after != ranges_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == offset) {
      before->second += bytes;
      return;
    }
  }
  ranges_.emplace(offset, bytes);
}

}  // namespace passel::shm
