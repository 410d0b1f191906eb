#include "passel/shm/process_context.h"

#include <utility>

#include "passel/shm/fork_guard.h"
#include "process_run.h"

namespace passel::shm {

ProcessContext::ProcessContext(Arena& arena, std::string entry, SpawnSettings settings,
                               ProcessHooks hooks)
    : run_(std::make_unique<ProcessRun>(arena, std::move(entry), std::move(settings),
                                        std::move(hooks))) {}

ProcessContext::~ProcessContext() {
  if (!forked()) return;
  [[maybe_unused]] static ProcessRun* left_alone =
      nullptr;  // its threads and workers are those of another process
  left_alone = run_.release();
}

void ProcessContext::start() {
  throw_if_forked();
  run_->start();
}

void ProcessContext::join() {
  join_for(std::chrono::nanoseconds::max());
}

bool ProcessContext::join_for(std::chrono::nanoseconds wait) {
  throw_if_forked();
  if (!run_->wait(after(wait))) return false;
  run_->throw_verdict();
  return true;
}

void ProcessContext::terminate() {
  terminate(run_->settings().grace);
}

void ProcessContext::terminate(std::chrono::nanoseconds grace) {
  throw_if_forked();
  run_->terminate(grace);
}

bool ProcessContext::kill(std::uint32_t slot, int signo) {
  throw_if_forked();
  return run_->supervisor().kill(slot, signo);
}

void ProcessContext::request_stop() noexcept {
  if (!forked()) run_->request_stop();
}

bool ProcessContext::failed() const noexcept {
  return run_->failed();
}

bool ProcessContext::finished() const {
  throw_if_forked();
  return run_->finished();
}

void ProcessContext::throw_if_failed() const {
  throw_if_forked();
  run_->throw_verdict();
}

pid_t ProcessContext::pid(std::uint32_t slot) const {
  throw_if_forked();
  return run_->supervisor().pid(slot);
}

bool ProcessContext::alive(std::uint32_t slot) const {
  return pid(slot) != 0;
}

std::uint32_t ProcessContext::alive_count() const {
  std::uint32_t count = 0;
  for (std::uint32_t slot = 0; slot < run_->settings().nprocs; ++slot) count += alive(slot) ? 1 : 0;
  return count;
}

std::uint32_t ProcessContext::incarnation(std::uint32_t slot) const {
  throw_if_forked();
  return run_->incarnation(slot);
}

std::uint32_t ProcessContext::respawns() const {
  throw_if_forked();
  return run_->respawns();
}

std::vector<WorkerExit> ProcessContext::failures() const {
  throw_if_forked();
  return run_->failures();
}

const ResultRecord& ProcessContext::record(std::uint32_t slot) const {
  throw_if_forked();
  if (slot < run_->results().size()) return run_->results()[slot];
  throw Error("read the result of worker " + std::to_string(slot), 0,
              "There are " + std::to_string(run_->results().size()) + " workers, counted from 0");
}

}  // namespace passel::shm
