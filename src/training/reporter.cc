#include "passel/train/reporter.h"

#include <fmt/format.h>

namespace passel::train {
namespace {

double seconds(Reporter::Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

std::string describe(const Score& score) {
  return score.test_accuracy ? fmt::format("test accuracy {:.4f}", *score.test_accuracy)
                             : fmt::format("test loss {:.6f}", *score.test_loss);
}

tensorboard::Scalar curve_of(const Score& score) {
  if (score.test_accuracy) return {"eval/accuracy", *score.test_accuracy};
  return {"eval/loss", *score.test_loss};
}

}  // namespace

Reporter::Reporter(const Config& config, MetricsLog& metrics, tensorboard::EventFile& events,
                   Progress& progress, bool tty)
    : config_(config),
      metrics_(metrics),
      events_(events),
      progress_(progress),
      redraw_(tty ? std::chrono::milliseconds(100) : std::chrono::milliseconds(2000)),
      worker_staleness_(static_cast<std::size_t>(config.workers)) {}

void Reporter::start() {
  started_ = Clock::now();
  interval_.begin = *started_;
  shown_ = *started_;
}

void Reporter::stop() {
  stopped_ = Clock::now();
}

double Reporter::elapsed() const {
  return started_ ? seconds(stopped_.value_or(Clock::now()) - *started_) : 0;
}

double Reporter::seconds_per_ticket() const {
  return tickets_ == 0 ? 0 : elapsed() / static_cast<double>(tickets_);
}

void Reporter::ticket(const Done& done, std::int64_t samples, const State& state) {
  interval_.loss += done.loss;
  ++interval_.tickets;
  interval_.samples += samples;
  if (done.applied_version != Done::kRejected) {
    const auto staleness = static_cast<std::uint64_t>(done.applied_version - done.base_version);
    interval_.staleness.add(staleness);
    staleness_.add(staleness);
    worker_staleness_[done.lease.slot].add(staleness);
  }
  ++tickets_;
  samples_ += samples;
  if (interval_.tickets >= config_.log_interval) close_interval(state);
}

void Reporter::close_interval(const State& state) {
  const auto now = Clock::now();
  last_ = {
      .ticket = state.done,
      .epoch = state.epoch,
      .loss = interval_.loss / static_cast<double>(interval_.tickets),
      .lr = state.lr,
      .samples_per_second = static_cast<double>(interval_.samples) / seconds(now - interval_.begin),
      .staleness_mean = interval_.staleness.mean(),
      .staleness_max = interval_.staleness.max(),
      .workers = state.workers};
  metrics_.train(last_);
  events_.scalars(last_.ticket, {{"train/loss", last_.loss},
                                 {"lr", last_.lr},
                                 {"perf/samples_per_s", last_.samples_per_second},
                                 {"async/staleness_mean", last_.staleness_mean},
                                 {"async/alive_workers", static_cast<double>(last_.workers)}});
  interval_ = {.begin = now};
}

void Reporter::show(const State& state) {
  const auto now = Clock::now();
  if (!started_ || last_.ticket == 0 || now - shown_ < redraw_) return;
  shown_ = now;
  progress_.update(
      {.ticket = state.done,
       .total = state.total,
       .epoch = state.epoch,
       .loss = last_.loss,
       .samples_per_second = last_.samples_per_second,
       .lr = state.lr,
       .workers_alive = state.workers,
       .staleness_mean = last_.staleness_mean,
       .elapsed = elapsed(),
       .remaining = seconds_per_ticket() * static_cast<double>(state.total - state.done)});
}

void Reporter::border(const BorderResult& result) {
  if (result.score) {
    score_ = result.score;
    metrics_.eval({.ticket = result.ticket,
                   .epoch = result.epoch,
                   .test_accuracy = result.score->test_accuracy,
                   .test_loss = result.score->test_loss});
    events_.scalars(result.ticket, {curve_of(*result.score)});
    progress_.note(fmt::format("epoch {}: {} at ticket {}", result.epoch, describe(*result.score),
                               result.ticket));
  }
  if (!result.error.empty()) {
    progress_.warn(fmt::format("checkpoint of ticket {} was not saved: {}; training goes on",
                               result.ticket, result.error));
    return;
  }
  checkpoint_ = result.checkpoint;
  metrics_.checkpoint({.ticket = result.ticket,
                       .epoch = result.epoch,
                       .file = result.checkpoint,
                       .seconds = result.save_seconds,
                       .best = result.best,
                       .version = result.version,
                       .param_hash = result.param_hash,
                       .tensors = result.tensor_hashes});
}

void Reporter::failed_writes() {
  if (const auto error = metrics_.take_error()) progress_.warn(*error);
  if (const auto error = events_.take_error()) progress_.warn(*error);
}

SummaryRecord Reporter::summary() const {
  SummaryRecord record{.samples = samples_, .seconds = elapsed()};
  record.samples_per_second =
      record.seconds > 0 ? static_cast<double>(samples_) / record.seconds : 0;
  if (score_) {
    record.test_accuracy = score_->test_accuracy;
    record.test_loss = score_->test_loss;
  }
  record.mode = config_.mode;
  record.workers = config_.workers;
  record.staleness = staleness_;
  record.worker_staleness = worker_staleness_;
  record.checkpoint = checkpoint_;
  return record;
}

}  // namespace passel::train
