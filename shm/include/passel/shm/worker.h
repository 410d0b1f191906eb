#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "passel/shm/arena.h"
#include "passel/shm/result_record.h"
#include "passel/shm/run_control.h"

namespace passel::shm {

/// What a worker knows of itself.
struct WorkerContext {
  std::uint32_t slot;         ///< which of the supervisor's slots, from 0
  std::uint32_t incarnation;  ///< the how-manieth process of this slot, from 1
  Arena arena;                ///< the parent's, mapped here
  std::uint32_t nprocs = 0;   ///< how many slots there are; 0 without a ProcessContext
  // In the arena; nullptr when the parent has a Supervisor, but no ProcessContext.
  const RunControl* control = nullptr;
  ResultRecord* result = nullptr;

  /// The parent asks all workers to finish in order. Cheap: look at it as often as you like.
  [[nodiscard]] bool stop_requested() const noexcept {
    return control != nullptr && control->stop.load() != 0;
  }
};

using Entry = std::function<void(WorkerContext&)>;

/// Makes `entry` startable by name in spawned processes, which run this same program from its
/// start. So register before init(): at static initialisation, as PASSEL_ENTRY does, or first in
/// main. The last registration of a name wins.
/// @param key what find_entry_name() looks for; may be nullptr
void register_entry(std::string_view name, Entry entry, const void* key = nullptr);

/// The name under which a function was registered, or an empty string.
[[nodiscard]] std::string_view find_entry_name(const void* key);

/// All registered names, sorted.
[[nodiscard]] std::vector<std::string> entry_names();

/// Turns `R f(Worker&)` into an entry, where Worker is WorkerContext or is constructible from
/// WorkerContext&. The parent finds what f returned as ProcessContext::result(); without a
/// ProcessContext it is dropped.
template <class R, class Worker>
Entry make_entry(R (*function)(Worker&)) {
  static_assert(
      std::is_void_v<R> || kIsResult<R>,
      "an entry returns nothing, or a trivially copyable value that is no pointer and has "
      "at most passel::shm::kResultBytes (1024) bytes");
  return [function](WorkerContext& context) {
    const auto call = [&](Worker& worker) {
      if constexpr (std::is_void_v<R>) {
        function(worker);
      } else {
        const R value = function(worker);
        if (context.result != nullptr) write_result(*context.result, value);
      }
    };
    if constexpr (std::is_same_v<Worker, WorkerContext>) {
      call(context);
    } else {
      Worker worker(context);
      call(worker);
    }
  };
}

/// The key of a function for register_entry() and find_entry_name().
template <class R, class Worker>
const void* entry_key(R (*function)(Worker&)) noexcept {
  return reinterpret_cast<const void*>(function);
}

/// First thing in main, before any thread starts.
///
/// In a spawned worker it runs the entry and never returns: exit status 0 when the entry returned
/// or let Stopped pass, 70 when it threw anything else (the message goes to the crash record and to
/// stderr), 71 when the worker could not be set up. The worker dies with its parent, however the
/// parent dies.
///
/// In the parent it blocks SIGINT, SIGTERM and SIGHUP, which the supervisor reads from a file
/// descriptor, and undoes an inherited "ignore" of SIGCHLD, under which exit codes are lost.
void init(int argc, char** argv);

/// Whether init() was called. A program that spawns without it would run its main again in the
/// worker, and spawn again: Supervisor::spawn() throws.
[[nodiscard]] bool initialised() noexcept;

}  // namespace passel::shm

/// At namespace scope: makes `function` an entry of its own name.
#define PASSEL_ENTRY(function)                                                          \
  [[maybe_unused]] static const bool passel_entry_##function =                          \
      (::passel::shm::register_entry(#function, ::passel::shm::make_entry(&(function)), \
                                     ::passel::shm::entry_key(&(function))),            \
       true)
