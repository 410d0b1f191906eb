#include "passel/shm/result_record.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "passel/shm/error.h"

namespace passel::shm {

void clear(ResultRecord& record) noexcept {
  record.valid.store(0);
}

void write_result(ResultRecord& record, std::span<const std::byte> value,
                  std::uint64_t type) noexcept {
  record.bytes = static_cast<std::uint32_t>(value.size());
  record.type = type;
  std::memcpy(record.data.data(), value.data(), std::min(value.size(), record.data.size()));
  record.valid.store(1, std::memory_order_release);  // pairs with the load in read_result()
}

bool read_result(const ResultRecord& record, std::span<std::byte> value, std::uint64_t type) {
  // Acquire: pairs with the release in write_result().
  if (record.valid.load(std::memory_order_acquire) == 0) return false;
  if (record.type != type || record.bytes != value.size()) {
    throw Error("read a worker's result as a type of " + std::to_string(value.size()) + " bytes", 0,
                "The entry returned another type, of " + std::to_string(record.bytes) +
                    " bytes: ask for the type that the entry returns");
  }
  std::memcpy(value.data(), record.data.data(), std::min(value.size(), record.data.size()));
  return true;
}

}  // namespace passel::shm
