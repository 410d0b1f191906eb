#include "passel/shm/chunk_table.h"

#include <unistd.h>

#include <string>

#include "passel/shm/error.h"

namespace passel::shm {
namespace {

constexpr std::uint32_t kMaxChunks = 1U << 20;

std::string records_name(std::string_view table) {
  return std::string(table) + ".chunks";
}
std::string regions_name(std::string_view table) {
  return std::string(table) + ".regions";
}
std::string elsewhere_name(std::string_view table) {
  return std::string(table) + ".elsewhere";
}
std::string inboxes_name(std::string_view table) {
  return std::string(table) + ".inboxes";
}

}  // namespace

bool ChunkRecord::held() const noexcept {
  for (const auto& word : holders) {
    // Acquire pairs with the release in let_go(): the holder's last access is over.
    if (word.load(std::memory_order_acquire) != 0) return true;
  }
  return false;
}

void ChunkRecord::hold(std::uint32_t process) noexcept {
  // Relaxed: the store of the ring's head that follows releases it to the sender, who looks here
  // only after it has seen that head.
  holders[process / 64].fetch_or(std::uint64_t{1} << process % 64, std::memory_order_relaxed);
}

bool ChunkRecord::let_go(std::uint32_t process) noexcept {
  const std::uint64_t bit = std::uint64_t{1} << process % 64;
  // Release pairs with the acquire in held().
  return (holders[process / 64].fetch_and(~bit, std::memory_order_release) & bit) != 0;
}

ChunkTable ChunkTable::create(Arena& arena, const ChunkOptions& options) {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  if (options.processes == 0 || options.processes > ChunkRecord::kMaxProcesses ||
      options.chunks == 0 || options.chunks > kMaxChunks || options.region_bytes == 0 ||
      (!options.elsewhere && options.region_bytes > arena.size())) {
    throw Error("create regions for " + std::to_string(options.processes) + " processes with " +
                    std::to_string(options.chunks) + " chunks and " +
                    std::to_string(options.region_bytes) + " bytes each",
                0,
                "Expected 1 to " + std::to_string(ChunkRecord::kMaxProcesses) +
                    " processes, 1 to " + std::to_string(kMaxChunks) +
                    " chunks and at least 1 byte, all together at most the arena's " +
                    std::to_string(arena.size()) + " bytes");
  }
  const std::uint64_t region_bytes = (options.region_bytes + page - 1) / page * page;
  arena.construct_array<Doorbell>(inboxes_name(options.name), options.processes);
  arena.construct_array<ChunkRecord>(records_name(options.name),
                                     std::size_t{options.processes} * options.chunks);
  const std::uint64_t bytes = region_bytes * options.processes;
  if (options.elsewhere) {
    *arena.construct<Block>(elsewhere_name(options.name)) = {options.first_offset, bytes};
  } else {
    arena.reserve(regions_name(options.name), bytes, page);
  }
  return open(arena, options.name);
}

ChunkTable ChunkTable::open(const Arena& arena, std::string_view name) {
  ChunkTable table;
  table.inboxes_ = arena.get_array<Doorbell>(inboxes_name(name));
  table.records_ = arena.get_array<ChunkRecord>(records_name(name));
  table.elsewhere_ = arena.contains(elsewhere_name(name));
  table.regions_ =
      table.elsewhere_ ? *arena.get<Block>(elsewhere_name(name)) : arena.find(regions_name(name));
  table.processes_ = static_cast<std::uint32_t>(table.inboxes_.size());
  table.chunks_ = static_cast<std::uint32_t>(table.records_.size() / table.processes_);
  table.region_bytes_ = table.regions_.bytes / table.processes_;
  return table;
}

}  // namespace passel::shm
