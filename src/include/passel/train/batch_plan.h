#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "passel/train/streams.h"

namespace passel::train {

/// Which samples belong to which ticket. Ticket k is the k-th batch of the run; its samples are a
/// function of (train_size, batch_size, seed, k) alone, so a resumed run and a ticket that is
/// granted again need no state. Within an epoch each sample occurs exactly once, in an order that
/// depends on (seed, epoch); the last batch of an epoch may be smaller.
///
/// A plan of streams reads them window by window instead, from their beginning in every epoch.
/// The orders of two epochs are kept, so tickets on both sides of a border are cheap.
/// One thread at a time.
class BatchPlan {
 public:
  /// Throws UsageError where an argument is not positive or the sizes overflow.
  BatchPlan(std::int64_t train_size, std::int64_t batch_size, std::int64_t epochs,
            std::uint64_t seed);
  /// Throws UsageError as well.
  BatchPlan(const Streams& streams, std::int64_t epochs);

  std::int64_t tickets() const noexcept { return tickets_per_epoch_ * epochs_; }
  std::int64_t tickets_per_epoch() const noexcept { return tickets_per_epoch_; }
  std::int64_t batch_size() const noexcept { return batch_size_; }

  /// The epoch, from 0, that `ticket` belongs to.
  std::int64_t epoch_of(std::int64_t ticket) const noexcept { return ticket / tickets_per_epoch_; }

  /// How many samples `ticket` has: batch_size(), or fewer at the end of an epoch.
  std::int64_t size_of(std::int64_t ticket) const noexcept;

  /// Samples of all tickets before `ticket`; also what a finished run of that many tickets saw.
  std::int64_t samples_before(std::int64_t ticket) const noexcept;

  /// Replaces `out` by the indices of the training samples of `ticket`.
  /// Throws std::out_of_range where ticket is not in [0, tickets()).
  void indices(std::int64_t ticket, std::vector<std::int64_t>& out);

  /// Of streams: which rows of the ticket begin without a past, fresh [batch_size].
  void fresh(std::int64_t ticket, std::span<bool> fresh);

 private:
  struct EpochOrder {
    std::int64_t epoch = -1;
    std::vector<std::uint32_t> samples;
  };

  void check_epochs() const;
  const EpochOrder& order_of(std::int64_t epoch);

  std::int64_t train_size_;
  std::int64_t batch_size_;
  std::int64_t epochs_;
  std::uint64_t seed_;
  std::int64_t tickets_per_epoch_;
  std::array<EpochOrder, 2> orders_;
  std::optional<Streams> streams_;
};

}  // namespace passel::train
