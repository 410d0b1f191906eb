#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <typeinfo>

#include "passel/shm/arena.h"
#include "passel/shm/error.h"

namespace passel::shm {

/// Plain data of the user in the arena. The type is noted beside it, because two types of one size
/// are no less of a mistake than two sizes.
template <class T>
struct SharedValue {
  static_assert(std::is_trivially_copyable_v<T>,
                "a shared value must be trivially copyable: processes see its bytes only");
  static_assert(alignof(T) <= 4096, "a shared value can be aligned to a page at most");

  std::uint64_t type;  // the same in every process of one executable
  T value;
};

template <class T>
T& create_value(Arena& arena, const std::string& name, const T& initial) {
  auto* const shared = arena.construct<SharedValue<T>>(name);
  shared->type = typeid(T).hash_code();
  std::memcpy(static_cast<void*>(&shared->value), &initial, sizeof(T));
  return shared->value;
}

/// @throws Error when there is none, or it was created with another type
template <class T>
T& open_value(const Arena& arena, const std::string& name) {
  auto* const shared = arena.get<SharedValue<T>>(name);
  if (shared->type == typeid(T).hash_code()) return shared->value;
  throw Error("open the shared value '" + name + "'", 0,
              "It was created with another type: use the one given to Shared::value()");
}

}  // namespace passel::shm
