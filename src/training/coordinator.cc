#include "passel/train/coordinator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <csignal>

#include "passel/train/errors.h"

namespace passel::train {
namespace {

using std::chrono::duration;
using std::chrono::duration_cast;
using std::chrono::milliseconds;

// How long anything may stay unnoticed that does not ring the doorbell: a
// worker that hangs, a progress line that is due.
constexpr milliseconds kLookAround{50};
// A stopped run waits this long at most for the tickets in work.
constexpr double kStopPatience = 10;  // seconds
// A border waits this many ticket times, and at least a second, for a worker
// that makes no progress; then the others go on without it.
constexpr double kBorderPatience = 20;
// Rejected gradients leave the parameters as they are. After so many different
// batches in a row the next one will not do better.
constexpr std::int64_t kHopeless = 50;
// Mode hogwild, stateful: how many windows one lane may fall behind the others when its worker
// stands still.
constexpr std::int64_t kLaneRounds = 64;

Crew::Clock::duration from_seconds(double seconds) {
  return duration_cast<Crew::Clock::duration>(duration<double>(seconds));
}

}  // namespace

Coordinator::Coordinator(const Parts& parts, BatchPlan plan, std::int64_t first_ticket,
                         std::int64_t total_tickets, std::set<std::int64_t> borders)
    : parts_(parts),
      borders_(std::move(borders)),
      loader_(parts.dataset, std::move(plan), parts.config, parts.arena, parts.memory.batches),
      store_(parts.folder.checkpoints(), static_cast<int>(parts.config.keep_checkpoints),
             [this](const std::string& sentence) { parts_.progress.warn(sentence); }),
      reporter_(parts.config, parts.metrics, parts.events, parts.progress, parts.tty),
      tickets_(first_ticket, total_tickets, static_cast<std::uint32_t>(parts.config.workers)),
      buffers_(batch_count(parts.config)),
      done_(parts.memory.done.consumer()),
      evaluated_epochs_(first_ticket / loader_.plan().tickets_per_epoch()),
      border_task_(parts.dataset, parts.config, store_, [this] { done_.doorbell().ring(); }),
      crew_(parts.config, parts.folder, parts.arena, parts.metrics, parts.progress, parts.simulated,
            [this] { done_.doorbell().ring(); }) {
  for (auto& queue : parts_.memory.grants) grants_.push_back(queue.producer(0));
  if (parts.memory.commits) {
    commits_.emplace(parts.config, parts.memory, crew_.size());
  } else if (parts.memory.arrivals) {
    arrivals_.emplace(parts.config, parts.memory, crew_.size());
  }
  if (commits_ || arrivals_) tickets_.set_window(ticket_window(parts.config));
  if (commits_) tickets_.set_group(commits_->schedule().group);
  // In the ordered modes the version that a ticket reads says that the state is there.
  if (parts.memory.states && !commits_) tickets_.set_lanes(parts.config.lanes);
  if (parts.memory.states && !commits_ && !arrivals_) {
    tickets_.set_window(kLaneRounds * parts.config.lanes);
  }
  set_border(border_after(first_ticket));
}

void Coordinator::set_replay(const Replay& replay) {
  replay_ = replay;
  if (parts_.memory.states) replayed_.insert(replay.batches.begin(), replay.batches.end());
}

Outcome Coordinator::run() {
  while (!finished_) {
    take_results();
    take_events();
    watch_workers();
    settle_border();
    grant_tickets();
    reporter_.show(state());
    if (!finished_) wait_for_news();
  }
  return finish();
}

void Coordinator::wait_for_news() {
  if (crew_.compute()) return;
  done_.doorbell().wait([&] { return !done_.empty() || crew_.pending() || border_task_.ready(); },
                        shm::after(kLookAround));
}

void Coordinator::take_results() {
  Done done;
  while (done_.try_get(done) == shm::QueueStatus::kOk) take_result(done);
  if (border_task_.ready()) take_border_result();
}

void Coordinator::take_result(const Done& done) {
  if (!crew_.is_current(done.lease)) return;
  const std::uint32_t slot = done.lease.slot;
  if (done.ticket == Done::kReady) {
    crew_.note_ready(slot);
    if (!reporter_.started()) reporter_.start();
    return;
  }
  if (!buffers_.accept(done.lease)) return;
  buffers_.give_back(done.lease);
  if (!tickets_.finish(slot, done.ticket)) return;
  crew_.note_trained(slot);
  record(done);
}

void Coordinator::record(const Done& done) {
  if (!std::isfinite(done.loss)) {
    throw TrainingError(
        fmt::format("the loss became {} at ticket {} (epoch {}). Lower --lr or set "
                    "--clip-norm; the checkpoints so far are intact",
                    done.loss, done.ticket, loader_.plan().epoch_of(done.ticket)));
  }
  count_rejected(done);
  if (observer_) observer_(done);
  reporter_.ticket(done, loader_.plan().size_of(done.ticket), state());
}

void Coordinator::count_rejected(const Done& done) {
  if (done.applied_version != Done::kRejected) {
    rejected_in_a_row_ = 0;
    return;
  }
  if (rejected_++ == 0) {
    parts_.progress.warn(
        fmt::format("ticket {}: its gradient is not finite and was rejected, though its loss is "
                    "{}; the summary counts further ones",
                    done.ticket, done.loss));
  }
  if (++rejected_in_a_row_ < kHopeless) return;
  throw TrainingError(
      fmt::format("{} gradients in a row were not finite, the last one at ticket {} (epoch {}) "
                  "with a loss of {}. Lower --lr or set --clip-norm; the checkpoints so far are "
                  "intact",
                  kHopeless, done.ticket, loader_.plan().epoch_of(done.ticket), done.loss));
}

void Coordinator::take_events() {
  while (const auto event = crew_.poll()) {
    if (const auto* exit = std::get_if<shm::WorkerExit>(&*event)) on_exit(*exit);
    if (const auto* signal = std::get_if<shm::Signal>(&*event)) on_signal(signal->number);
  }
}

// What the dead had published counts; what it held is granted again.
void Coordinator::on_exit(const shm::WorkerExit& exit) {
  take_results();
  settle_commits(exit);
  parts_.memory.blocks->forget(exit.slot);
  buffers_.reclaim(exit.slot, exit.incarnation);
  std::optional<std::int64_t> in_work;
  if (holds_work(exit.slot)) in_work = tickets_.held(exit.slot).front();
  redone_ += static_cast<std::int64_t>(tickets_.lose(exit.slot));
  parts_.memory.done.reset_producer(exit.slot);
  parts_.memory.grants[exit.slot].reset();
  grants_[exit.slot] = parts_.memory.grants[exit.slot].producer(0);
  crew_.on_exit(exit, in_work);
}

// What the dead had handed in is applied, and done; only what it had not is computed again.
void Coordinator::settle_commits(const shm::WorkerExit& exit) {
  if (commits_) commits_->bury(exit.slot);
  if (arrivals_) arrivals_->bury(exit.slot);
  const std::deque<std::int64_t> held = tickets_.held(exit.slot);
  for (const std::int64_t ticket : held) {
    std::optional<Done> done = handed_in(ticket);
    if (!done || !tickets_.finish(exit.slot, ticket)) continue;
    done->lease = {.slot = exit.slot, .incarnation = exit.incarnation};
    record(*done);
  }
}

std::optional<Done> Coordinator::handed_in(std::int64_t ticket) const {
  if (arrivals_) {
    const auto applied = arrivals_->applied(ticket);
    if (!applied) return std::nullopt;
    return Done{.ticket = ticket,
                .base_version = applied->arrival.base,
                .applied_version = applied->version,
                .loss = applied->arrival.loss};
  }
  const auto published = commits_ ? commits_->published(ticket) : std::nullopt;
  if (!published) return std::nullopt;
  const Schedule& schedule = commits_->schedule();
  return Done{.ticket = ticket,
              .base_version = schedule.base_of(ticket),
              .applied_version = published->accepted ? schedule.step_of(ticket) : Done::kRejected,
              .loss = published->loss};
}

void Coordinator::on_signal(int signal) {
  if (stop_signal_ != 0) throw Interrupted{signal};
  stop_signal_ = signal;
  set_border(tickets_.fresh());
  parts_.progress.warn(
      fmt::format("{}: {}; once more to stop at once", strsignal(signal),
                  tickets_.fresh() == tickets_.total()
                      ? "all tickets are given out, so the run is ended and saved as usual"
                      : "stopping at the next ticket border and saving"));
}

void Coordinator::grant_tickets() {
  if (!reporter_.started()) return;
  bool granted = true;
  while (granted && tickets_.next()) {
    granted = false;
    for (std::uint32_t i = 0; i < crew_.size() && tickets_.next(); ++i) {
      const std::uint32_t slot = next_slot_;
      next_slot_ = (next_slot_ + 1) % crew_.size();
      if (!crew_.ready(slot) || tickets_.held(slot).size() >= kGrantDepth) continue;
      if (!tickets_.suits(slot, kGrantDepth, [&](auto s) { return crew_.ready(s); })) continue;
      grant_ticket(slot);
      granted = true;
    }
  }
}

// The ledger is written before the grant is published: whenever the worker
// dies, what it may hold is known.
void Coordinator::grant_ticket(std::uint32_t slot) {
  const auto lease = buffers_.lease(slot, crew_.incarnation(slot));
  const std::int64_t ticket = tickets_.next().value();
  if (!holds_work(slot)) crew_.note_progress(slot);
  tickets_.grant(slot);
  const auto index = static_cast<std::size_t>(ticket - replay_.first);
  const std::int64_t batch = replay_.batches.empty() ? ticket : replay_.batches[index];
  grants_[slot].try_put(loader_.fill(ticket, batch, lease.value(), begins_anew(batch)));
  // The worker may be waiting for a commit that comes of this very ticket.
  if (commits_) commits_->bell().ring();
}

// A ticket that was rejected left zeros, and is not in the record that is repeated.
bool Coordinator::begins_anew(std::int64_t batch) const {
  const std::int64_t before = batch - parts_.config.lanes;
  return !replayed_.empty() && before >= replay_.first_batch && !replayed_.contains(before);
}

std::int64_t Coordinator::border_after(std::int64_t ticket) const {
  const std::int64_t per_epoch = loader_.plan().tickets_per_epoch();
  std::int64_t border = (ticket / per_epoch + 1) * per_epoch;
  if (const std::int64_t interval = parts_.config.checkpoint_interval; interval > 0) {
    border = std::min(border, (ticket / interval + 1) * interval);
  }
  if (const auto next = borders_.upper_bound(ticket); next != borders_.end()) {
    border = std::min(border, *next);
  }
  return border;
}

void Coordinator::set_border(std::int64_t ticket) {
  tickets_.set_border(parts_.memory.schedule.border(ticket));
}

// A worker with a later ticket than the oldest may be waiting for that one.
bool Coordinator::may_wait_for_others(std::uint32_t slot) const {
  return (commits_ || arrivals_) &&
         std::ranges::find(tickets_.held(slot), tickets_.oldest_open()) ==
             tickets_.held(slot).end();
}

void Coordinator::watch_workers() {
  crew_.note_time();
  crew_.fill_vacancies();
  double limit = parts_.config.worker_timeout;
  if (stop_signal_ != 0) limit = std::min(limit, kStopPatience);
  for (std::uint32_t slot = 0; slot < crew_.size(); ++slot) {
    if (may_wait_for_others(slot)) crew_.note_progress(slot);
    crew_.kill_if_hanging(slot, holds_work(slot), from_seconds(limit));
  }
}

// A snapshot needs every ticket before the border done. When a stalled worker
// keeps one, the others do not wait for it: the border moves to where they are
// once it has come back, or has been replaced.
void Coordinator::settle_border() {
  if (quiescent()) {
    if (at_end()) reporter_.stop();
    // One snapshot at a time: the one before must have been evaluated and saved.
    if (!border_task_.busy()) on_border();
    return;
  }
  // In these modes all wait for it anyway.
  if (commits_ || arrivals_) return;
  const auto patience =
      from_seconds(std::max(1.0, kBorderPatience * reporter_.seconds_per_ticket()));
  bool stalled = false;
  for (std::uint32_t slot = 0; slot < crew_.size(); ++slot) {
    stalled = stalled || crew_.stalled(slot, holds_work(slot), patience);
  }
  if (border_postponed_ && !stalled) {
    border_postponed_ = false;
    set_border(tickets_.fresh());
  } else if (stalled && !tickets_.next() && stop_signal_ == 0) {
    border_postponed_ = true;
    set_border(tickets_.total());
  }
}

bool Coordinator::quiescent() {
  if (!tickets_.quiescent()) return false;
  if (arrivals_) return arrivals_->settled();
  if (!commits_) return true;
  commits_->help();
  return commits_->committed(tickets_.border());
}

void Coordinator::on_border() {
  const std::int64_t ticket = tickets_.done();
  finished_ = at_end();
  // Stopped right after a border, or resumed at the end: it is saved already.
  const bool saved = last_border_ && last_border_->ticket == ticket && last_border_->error.empty();
  if (!saved) {
    const auto epoch = ticket / loader_.plan().tickets_per_epoch();
    const bool evaluate =
        ticket == tickets_.total() || (epoch > evaluated_epochs_ && stop_signal_ == 0);
    if (evaluate) evaluated_epochs_ = epoch;
    border_task_.start(take_snapshot(parts_.memory, ticket, epoch), evaluate);
  }
  ++parts_.memory.counters->borders;
  note_device_use(ticket);
  if (!finished_) set_border(border_after(ticket));
}

void Coordinator::note_device_use(std::int64_t ticket) {
  for (std::int64_t slot = 0; slot < std::ssize(parts_.memory.device_use); ++slot) {
    const DeviceUse& use = parts_.memory.device_use[static_cast<std::size_t>(slot)];
    if (use.reserved.load() == 0) continue;
    parts_.metrics.memory({.ticket = ticket,
                           .slot = slot,
                           .allocated = use.allocated.load(),
                           .reserved = use.reserved.load(),
                           .peak = use.peak.load(),
                           .emptied = use.emptied.load(),
                           .seconds = use.seconds.load()});
  }
}

void Coordinator::take_border_result() {
  last_border_ = border_task_.take();
  reporter_.border(*last_border_);
  reporter_.failed_writes();
}

void Coordinator::dismiss_workers() {
  crew_.dismiss();
  for (auto& queue : parts_.memory.grants) queue.close();
  const auto deadline = shm::after(std::chrono::seconds(2));
  while (crew_.alive() > 0 && shm::Clock::now() < deadline) {
    done_.doorbell().wait([&] { return crew_.pending(); }, deadline);
    take_events();
  }
}

Outcome Coordinator::finish() {
  dismiss_workers();
  while (border_task_.busy()) {
    wait_for_news();
    take_results();
    take_events();
  }
  const bool complete = tickets_.done() == tickets_.total();
  Outcome outcome{.summary = reporter_.summary(),
                  .stop_signal = complete ? 0 : stop_signal_,
                  .save_error = last_border_ ? last_border_->error : ""};
  outcome.summary.tickets = tickets_.done();
  outcome.summary.respawns = crew_.respawns();
  outcome.summary.redone = redone_;
  outcome.summary.rejected = rejected_;
  outcome.summary.param_hash = last_border_ ? last_border_->param_hash : "";
  return outcome;
}

Reporter::State Coordinator::state() const {
  const auto epoch = std::min(tickets_.done(), tickets_.total() - 1);
  const auto newest = std::max<std::int64_t>(tickets_.done() - 1, 0);
  return {.done = tickets_.done(),
          .total = tickets_.total(),
          .epoch = loader_.plan().epoch_of(epoch) + 1,
          .workers = crew_.alive(),
          .lr = loader_.lr().at(newest)};
}

}  // namespace passel::train
