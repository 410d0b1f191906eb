#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <type_traits>

#include "passel/shm/arena.h"

namespace passel::shm {

/// What a worker knows of itself.
struct WorkerContext {
  std::uint32_t slot;         ///< which of the supervisor's slots, from 0
  std::uint32_t incarnation;  ///< the how-manieth process of this slot, from 1
  Arena arena;                ///< the parent's, mapped here
};

using Entry = std::function<void(WorkerContext&)>;

/// Makes `entry` startable by name in spawned processes, which run this same program from its
/// start. So register before init(): at static initialisation, as PASSEL_ENTRY does, or first in
/// main. The last registration of a name wins.
/// @param key what find_entry_name() looks for; may be nullptr
void register_entry(std::string_view name, Entry entry, const void* key = nullptr);

/// The name under which a function was registered, or an empty string.
[[nodiscard]] std::string_view find_entry_name(const void* key);

/// Turns `void f(Worker&)` into an entry, where Worker is WorkerContext or is constructible from
/// WorkerContext&.
template <class Worker>
Entry make_entry(void (*function)(Worker&)) {
  if constexpr (std::is_same_v<Worker, WorkerContext>) {
    return function;
  } else {
    return [function](WorkerContext& context) {
      Worker worker(context);
      function(worker);
    };
  }
}

/// The key of a function for register_entry() and find_entry_name().
template <class Worker>
const void* entry_key(void (*function)(Worker&)) noexcept {
  return reinterpret_cast<const void*>(function);
}

/// First thing in main, before any thread starts.
///
/// In a spawned worker it runs the entry and never returns: exit status 0 when the entry returned,
/// 70 when it threw (the message goes to the crash record and to stderr), 71 when the worker could
/// not be set up. The worker dies with its parent, however the parent dies.
///
/// In the parent it blocks SIGINT, SIGTERM and SIGHUP, which the supervisor reads from a file
/// descriptor, and undoes an inherited "ignore" of SIGCHLD, under which exit codes are lost.
void init(int argc, char** argv);

}  // namespace passel::shm

/// At namespace scope: makes `function` an entry of its own name.
#define PASSEL_ENTRY(function)                                                          \
  [[maybe_unused]] static const bool passel_entry_##function =                          \
      (::passel::shm::register_entry(#function, ::passel::shm::make_entry(&(function)), \
                                     ::passel::shm::entry_key(&(function))),            \
       true)
