#include "process_run.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "passel/shm/fork_guard.h"
#include "passel/shm/start_thread.h"
#include "passel/shm/worker.h"
#include "thread_budget.h"

namespace passel::shm {
namespace {

constexpr std::chrono::milliseconds kTick{10};

std::vector<std::string> worker_environment(const SpawnSettings& settings) {
  std::vector<std::string> environment =
      thread_limits(settings.threads != 0 ? settings.threads : fair_threads(settings.nprocs));
  environment.insert(environment.end(), settings.environment.begin(), settings.environment.end());
  return environment;
}

SpawnSettings checked(SpawnSettings settings) {
  throw_if_forked();
  if (settings.nprocs == 0) throw Error("run 0 workers", 0, "Expected 1 or more (nprocs)");
  settings.grace = std::max(settings.grace, std::chrono::nanoseconds(0));
  return settings;
}

void check_registered(const std::string& entry) {
  const std::vector<std::string> names = entry_names();
  if (std::ranges::find(names, entry) != names.end()) return;
  std::string known;
  for (const std::string& name : names) known.append(known.empty() ? "" : ", ").append(name);
  throw Error("spawn workers with entry '" + entry + "'", 0,
              "No entry of this name is registered: put PASSEL_ENTRY(function) at namespace scope. "
              "Registered are: " +
                  (known.empty() ? "none" : known));
}

}  // namespace

ProcessRun::ProcessRun(Arena& arena, std::string name, SpawnSettings given,
                       ProcessHooks given_hooks)
    : entry_(std::move(name)),
      settings_(checked(std::move(given))),
      hooks_(std::move(given_hooks)),
      control_(*arena.construct<RunControl>(RunControl::kName)),
      results_(arena.construct_array<ResultRecord>(ResultRecord::kName, settings_.nprocs)),
      slots_(settings_.nprocs),
      supervisor_(arena, {.slots = settings_.nprocs,
                          .entry = entry_,
                          .environment = worker_environment(settings_),
                          .on_event = [this] { alarm_.ring(); }}) {
  control_.nprocs = settings_.nprocs;
  warden_ = start_thread("start the thread that watches the processes", [this] { watch(); });
}

ProcessRun::~ProcessRun() {
  {
    const std::lock_guard lock(mutex_);
    quitting_ = true;
  }
  alarm_.ring();
  warden_.join();
}

void ProcessRun::watch() {
  for (;;) {
    while (const std::optional<Event> event = supervisor_.poll()) {
      std::visit([&](const auto& what) { handle(what); }, *event);
    }
    const bool ticking = tick();
    kill_if_due();
    {
      const std::lock_guard lock(mutex_);
      if (quitting_) return;
    }
    alarm_.wait(next_look(ticking));
  }
}

void ProcessRun::handle(const WorkerExit& exit) {
  bool replaced = false;
  {
    const std::lock_guard lock(mutex_);
    replaced = judge_locked(exit);
  }
  try {
    if (hooks_.on_exit) hooks_.on_exit(exit, replaced);
  } catch (const std::exception& error) {
    give_up(std::string("What a dead worker held could not be reclaimed: ") + error.what());
  }
  if (replaced) replace(exit.slot);
  {
    const std::lock_guard lock(mutex_);
    Slot& slot = slots_[exit.slot];
    slot.running = slot.incarnation != exit.incarnation;
    settle_locked();
  }
  announce();
}

/// Whether the dead is to be replaced.
bool ProcessRun::judge_locked(const WorkerExit& exit) {
  const bool by_our_signal =
      exit.kind == WorkerExit::Kind::kSignalled && (exit.code == SIGTERM || exit.code == SIGKILL);
  if (!exit.failed() || (by_our_signal && slots_[exit.slot].ended_by_us)) return false;
  failures_.push_back(exit);
  if (settings_.on_death == OnDeath::kContinue || cause_ != Cause::kNone) return false;
  if (settings_.on_death == OnDeath::kRespawn) {
    if (control_.stop.load() != 0) return false;
    if (respawns_ < settings_.max_respawns) return true;
    note_ = "Not replaced, because " + std::to_string(respawns_) +
            " workers have been replaced already (max_respawns)";
  }
  end_locked(Cause::kFailure, settings_.grace);
  return false;
}

void ProcessRun::replace(std::uint32_t slot) {
  try {
    const std::lock_guard lock(mutex_);
    if (cause_ != Cause::kNone || quitting_) return;
    spawn_locked(slot);
    ++respawns_;
  } catch (const std::exception& error) {
    give_up(std::string("A dead worker could not be replaced: ") + error.what());
  }
}

void ProcessRun::handle(const Signal& received) {
  {
    const std::lock_guard lock(mutex_);
    if (cause_ == Cause::kNone || cause_ == Cause::kTerminated) {
      cause_ = Cause::kSignal;
      signal_ = received.number;
    }
    kill_at_ = std::min(kill_at_, ++signals_ > 1 ? kNow : after(settings_.grace));
    settle_locked();
  }
  request_stop();
}

bool ProcessRun::tick() {
  {
    const std::lock_guard lock(mutex_);
    if (!started_ || !hooks_.on_tick || tick_failed_) return false;
  }
  try {
    return hooks_.on_tick();
  } catch (const std::exception& error) {
    tick_failed_ = true;
    give_up(std::string("What workers held could not be reclaimed: ") + error.what());
    return false;
  }
}

void ProcessRun::kill_if_due() {
  const std::lock_guard lock(mutex_);
  if (Clock::now() < kill_at_) return;
  signal_all_locked(SIGKILL);
  kill_at_ = kNoDeadline;
}

Deadline ProcessRun::next_look(bool ticking) {
  const std::lock_guard lock(mutex_);
  return std::min(kill_at_, ticking ? after(kTick) : kNoDeadline);
}

void ProcessRun::start() {
  check_registered(entry_);
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(starting_, true)) throw Error("start workers", 0, "They were started before");
  }
  const auto settle = [&] {
    const std::lock_guard lock(mutex_);
    started_ = true;
    settle_locked();
  };
  try {
    for (std::uint32_t slot = 0; slot < settings_.nprocs; ++slot) {
      // One at a time: meanwhile the warden may find that the run is to end.
      const std::lock_guard lock(mutex_);
      if (cause_ == Cause::kNone) spawn_locked(slot);
    }
  } catch (...) {
    settle();
    terminate({});
    throw;
  }
  settle();
}

bool ProcessRun::wait(Deadline deadline) {
  std::unique_lock lock(mutex_);
  if (!starting_) throw Error("wait for workers", 0, "Call start() first");
  return changed_.wait_until(lock, deadline, [&] { return finished_.load(); });
}

void ProcessRun::terminate(std::chrono::nanoseconds grace) {
  {
    const std::lock_guard lock(mutex_);
    end_locked(Cause::kTerminated, grace);
    settle_locked();
    if (!starting_) return;
  }
  alarm_.ring();
  wait(kNoDeadline);
}

void ProcessRun::request_stop() noexcept {
  control_.stop.store(1);
  announce();
}

void ProcessRun::announce() const {
  if (hooks_.on_change) hooks_.on_change();
}

void ProcessRun::give_up(const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    note_ = why;
    end_locked(Cause::kFailure, settings_.grace);
    settle_locked();
  }
  alarm_.ring();
}

void ProcessRun::spawn_locked(std::uint32_t slot) {
  clear(results_[slot]);
  const SpawnOptions options{
      .output = settings_.output.empty() ? "" : settings_.output + "." + std::to_string(slot)};
  slots_[slot] = {.running = true, .incarnation = supervisor_.spawn(slot, options)};
}

void ProcessRun::end_locked(Cause why, std::chrono::nanoseconds grace) {
  if (cause_ == Cause::kNone) cause_ = why;
  signal_all_locked(grace.count() > 0 ? SIGTERM : SIGKILL);
  kill_at_ = std::min(kill_at_, after(grace));
}

void ProcessRun::signal_all_locked(int signo) {
  for (std::uint32_t slot = 0; slot < settings_.nprocs; ++slot) {
    if (supervisor_.kill(slot, signo)) slots_[slot].ended_by_us = true;
  }
}

void ProcessRun::settle_locked() {
  if (!started_ || std::ranges::any_of(slots_, &Slot::running)) return;
  // Under kRespawn a failure that did not end the run was made good.
  const bool bad = cause_ == Cause::kFailure || cause_ == Cause::kSignal ||
                   (settings_.on_death != OnDeath::kRespawn && !failures_.empty());
  failed_.store(bad);  // first: who sees `finished` sees the verdict
  finished_.store(true);
  changed_.notify_all();
}

void ProcessRun::throw_verdict() const {
  if (!failed_.load()) return;
  const std::lock_guard lock(mutex_);
  if (cause_ == Cause::kSignal) throw Interrupted(signal_);
  throw WorkersFailed(failures_, note_);
}

std::uint32_t ProcessRun::incarnation(std::uint32_t slot) const {
  const std::lock_guard lock(mutex_);
  return slot < slots_.size() ? slots_[slot].incarnation : 0;
}

std::uint32_t ProcessRun::respawns() const {
  const std::lock_guard lock(mutex_);
  return respawns_;
}

std::vector<WorkerExit> ProcessRun::failures() const {
  const std::lock_guard lock(mutex_);
  return failures_;
}

}  // namespace passel::shm
