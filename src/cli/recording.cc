#include "recording.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <iterator>

#include "passel/train/config_fields.h"
#include "passel/train/errors.h"

namespace passel::train {

Recording::Recording(const RunFolder& folder)
    : file_(folder.updates()), records_(read_updates(file_)) {
  if (!records_.empty()) return;
  throw DataError(
      fmt::format("{}: expected updates, and there is none yet", folder.updates().string()));
}

void Recording::prepare(Training& training) {
  const std::int64_t begin = training.start.snapshot ? training.start.snapshot->version : 0;
  if (records_[0].version != begin) {
    throw DataError(fmt::format(
        "{}: expected updates from {} on, where the run began, got the first one at {}: what is "
        "before cannot be repeated",
        file_.string(), begin, records_[0].version));
  }
  Replay& replay = training.replay;
  replay.first = records_[0].version;
  replay.first_batch = training.start.ticket;
  std::int64_t staleness = 0;
  for (const UpdateRecord& record : records_) {
    check(record, begin, training.plan);
    replay.bases.push_back(record.base);
    replay.batches.push_back(record.ticket);
    staleness = std::max<std::int64_t>(staleness, record.version - record.base);
  }
  training.config.mode = "ordered";
  training.config.staleness = staleness;
  training.start.ticket = replay.first;
  if (training.start.snapshot) training.start.snapshot->ticket = replay.first;
  training.total = replay.first + std::ssize(records_);
  training.observer = [this](const Done& done) { compare(done); };
}

HashHistory Recording::by_updates(const HashHistory& history) const {
  const std::int64_t end = records_[0].version + std::ssize(records_);
  HashHistory result;
  for (const auto& [ticket, hashes] : history) {
    if (hashes.version > end) {
      throw DataError(
          fmt::format("{}: expected {} updates before the checkpoint of ticket {}, got only {}: "
                      "the last ones are missing",
                      file_.string(), hashes.version, ticket, end));
    }
    result[hashes.version] = hashes;
  }
  return result;
}

std::optional<std::string> Recording::difference() const {
  if (!differs_) return std::nullopt;
  const UpdateRecord& record = records_[static_cast<std::size_t>(*differs_ - records_[0].version)];
  return fmt::format("update {} (ticket {}): its loss is {} instead of {}", *differs_,
                     record.ticket, loss_, record.loss);
}

void Recording::check(const UpdateRecord& record, std::int64_t begin, const BatchPlan& plan) const {
  // As many versions as are kept, which no run exceeds.
  static const auto most = static_cast<std::int64_t>(find_field("staleness")->range.high);
  const std::int64_t oldest = std::max(begin, record.version - most);
  if (record.base < oldest) {
    throw DataError(
        fmt::format("{}: expected update {} computed from version {} or a later one, got {}",
                    file_.string(), record.version, oldest, record.base));
  }
  if (record.ticket >= plan.tickets()) {
    throw DataError(fmt::format("{}: expected tickets below {}, got {} in update {}",
                                file_.string(), plan.tickets(), record.ticket, record.version));
  }
}

void Recording::compare(const Done& done) {
  const float expected = records_[static_cast<std::size_t>(done.ticket - records_[0].version)].loss;
  if (std::bit_cast<std::uint32_t>(expected) == std::bit_cast<std::uint32_t>(done.loss)) return;
  if (differs_ && *differs_ <= done.ticket) return;
  differs_ = done.ticket;
  loss_ = done.loss;
}

}  // namespace passel::train
