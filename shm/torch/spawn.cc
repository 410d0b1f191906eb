#include "passel/shm_torch/spawn.h"

namespace passel::shm {

std::shared_ptr<ProcessContext> spawn_entry(const void* entry, Shared& shared,
                                            SpawnSettings settings) {
  settings.nprocs = shared.workers();
  const std::string name(find_entry_name(entry));
  if (name.empty()) {
    throw Error("spawn workers", 0,
                "The function is no registered entry: put PASSEL_ENTRY(function) behind it");
  }
  auto context = std::make_shared<ProcessContext>(
      shared.arena(), name, std::move(settings),
      ProcessHooks{
          .on_exit = [&](const WorkerExit& exit, bool replaced) { shared.bury(exit, replaced); },
          .on_change = [&] { shared.wake_all(); },
          .on_tick = [&] { return shared.collect(); }});
  // Weak: the context may be gone, and its workers with it, before the queues are.
  const std::weak_ptr<ProcessContext> running = context;
  shared.exchange().set_interruption({.pending =
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
