#include "passel/shm_torch/spawn.h"

#include <utility>

namespace passel::shm {

std::shared_ptr<ProcessContext> spawn_entry(const void* entry, Shared& shared,
                                            SpawnSettings settings) {
  settings.nprocs = shared.workers();
  const std::string name(find_entry_name(entry));
  if (name.empty()) {
    throw Error("spawn workers", 0,
                "The function is no registered entry: put PASSEL_ENTRY(function) behind it");
  }
  const std::shared_ptr<SharedState> state = shared.state();
  if (std::exchange(state->spawned, true)) {
    throw Error("spawn workers", 0,
                "This Shared has had its spawn() already: make another Shared for further workers");
  }
  // The state lives as long as the context, and afterwards nobody is left to read what is put.
  const auto drop = [state](ProcessContext* context) {
    delete context;
    state->close_all();
  };
  std::shared_ptr<ProcessContext> context(
      new ProcessContext(
          *state->arena, name, std::move(settings),
          ProcessHooks{.on_exit = [&s = *state](const WorkerExit& exit,
                                                bool replaced) { s.bury(exit, replaced); },
                       .on_change = [&s = *state] { s.wake_all(); },
                       .on_tick = [&s = *state] { return s.collect(); }}),
      drop);
  // Weak: the context may be gone, and its workers with it, before the queues are.
  const std::weak_ptr<ProcessContext> running = context;
  state->exchange->set_interruption({.pending =
                                         [running] {
                                           const auto alive = running.lock();
                                           return !alive || alive->finished();
                                         },
                                     .raise =
                                         [running] {
                                           if (const auto alive = running.lock()) {
                                             alive->throw_if_failed();
                                           }
                                         }});
  context->start();
  return context;
}

}  // namespace passel::shm
