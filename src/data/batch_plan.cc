#include "passel/train/batch_plan.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

#include "passel/train/errors.h"
#include "passel/train/philox.h"

namespace passel::train {
namespace {

void expect_positive(std::int64_t value, const char* what) {
  if (value < 1) {
    throw UsageError(std::string(what) + " must be at least 1, not " + std::to_string(value));
  }
}

void shuffle(std::vector<std::uint32_t>& samples, Philox random) {
  for (std::size_t last = samples.size(); last > 1; --last) {
    const std::uint32_t chosen = random.uniform_below(static_cast<std::uint32_t>(last));
    std::swap(samples[last - 1], samples[chosen]);
  }
}

}  // namespace

BatchPlan::BatchPlan(std::int64_t train_size, std::int64_t batch_size, std::int64_t epochs,
                     std::uint64_t seed)
    : train_size_(train_size), batch_size_(batch_size), epochs_(epochs), seed_(seed) {
  expect_positive(train_size, "the number of training samples");
  expect_positive(batch_size, "the batch size");
  if (train_size > std::numeric_limits<std::uint32_t>::max()) {
    throw UsageError("at most 4294967295 training samples are supported, not " +
                     std::to_string(train_size));
  }
  tickets_per_epoch_ = 1 + (train_size - 1) / batch_size;
  check_epochs();
}

BatchPlan::BatchPlan(const Streams& streams, std::int64_t epochs)
    : train_size_(streams.batches() * streams.rows()),
      batch_size_(streams.rows()),
      epochs_(epochs),
      seed_(0),
      tickets_per_epoch_(streams.batches()),
      streams_(streams) {
  check_epochs();
}

void BatchPlan::check_epochs() const {
  expect_positive(epochs_, "the number of epochs");
  if (epochs_ > std::numeric_limits<std::int64_t>::max() / train_size_) {
    throw UsageError(std::to_string(epochs_) + " epochs of " + std::to_string(train_size_) +
                     " samples are more than 2^63 samples; ask for fewer epochs");
  }
}

std::int64_t BatchPlan::size_of(std::int64_t ticket) const noexcept {
  const std::int64_t first = ticket % tickets_per_epoch_ * batch_size_;
  return std::min(batch_size_, train_size_ - first);
}

std::int64_t BatchPlan::samples_before(std::int64_t ticket) const noexcept {
  return epoch_of(ticket) * train_size_ + ticket % tickets_per_epoch_ * batch_size_;
}

void BatchPlan::indices(std::int64_t ticket, std::vector<std::int64_t>& out) {
  if (ticket < 0 || ticket >= tickets()) {
    throw std::out_of_range("ticket " + std::to_string(ticket) + " is not one of the " +
                            std::to_string(tickets()) + " tickets of this run");
  }
  if (streams_) return streams_->indices(ticket % tickets_per_epoch_, out);
  const std::vector<std::uint32_t>& samples = order_of(epoch_of(ticket)).samples;
  const auto first = samples.begin() + ticket % tickets_per_epoch_ * batch_size_;
  out.assign(first, first + size_of(ticket));
}

void BatchPlan::fresh(std::int64_t ticket, std::span<bool> fresh) {
  streams_.value().fresh(ticket % tickets_per_epoch_, fresh);
}

const BatchPlan::EpochOrder& BatchPlan::order_of(std::int64_t epoch) {
  // Neighbouring epochs differ in parity, so they never push each other out.
  EpochOrder& order = orders_[static_cast<std::size_t>(epoch % 2)];
  if (order.epoch != epoch) {
    order.samples.resize(static_cast<std::size_t>(train_size_));
    std::iota(order.samples.begin(), order.samples.end(), 0U);
    shuffle(order.samples,
            Philox(seed_, RandomPurpose::kShuffle, static_cast<std::uint64_t>(epoch)));
    order.epoch = epoch;
  }
  return order;
}

}  // namespace passel::train
