#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

namespace passel::train {

/// Which tickets are granted, to whom, and which are done. Tickets before
/// `border` may be granted; the run is quiescent at the border when all of them
/// are done. Each ticket is counted as done once, whatever dies.
/// Private to the parent; one thread.
class Tickets {
 public:
  Tickets(std::int64_t first, std::int64_t total, std::uint32_t slots);

  /// Fresh tickets are granted up to `window` after the oldest one that is open.
  void set_window(std::int64_t window) { window_ = window; }
  /// So many tickets make a step, from which all of the next step's begin.
  void set_group(std::int64_t group) { group_ = group; }
  /// A ticket is granted only when the one `lanes` before it is done. One that has to wait is
  /// passed over, for those of other lanes.
  void set_lanes(std::int64_t lanes) { lanes_ = lanes; }

  /// The ticket to grant next: lost ones and such as were passed over first, then fresh ones up to
  /// the border.
  std::optional<std::int64_t> next() const;
  /// Whether the slot should be the one that gets next(). Tickets of one step are spread, since a
  /// step takes as long as whoever has most of it: false where another slot has fewer of it and
  /// has room for it, or will have without it.
  /// @param depth how many tickets a slot holds at most
  /// @param ready whether a slot takes tickets
  bool suits(std::uint32_t slot, std::size_t depth,
             const std::function<bool(std::uint32_t)>& ready) const;
  /// Marks next() as held by the slot.
  void grant(std::uint32_t slot);
  /// False if the slot does not hold the ticket (then nothing changes).
  bool finish(std::uint32_t slot, std::int64_t ticket);
  /// The slot died: what it held will be granted again. Returns how many.
  std::size_t lose(std::uint32_t slot);

  /// Held tickets, the oldest grant first.
  const std::deque<std::int64_t>& held(std::uint32_t slot) const { return held_[slot]; }

  /// The oldest ticket that is granted or lost and not done; fresh() when there is none.
  std::int64_t oldest_open() const;

  /// border: fresh tickets are granted up to here; clamped to [fresh(), total].
  void set_border(std::int64_t border);
  std::int64_t border() const { return border_; }
  /// Every ticket before the border is done, none later has begun.
  bool quiescent() const;

  /// The first ticket that was neither granted nor passed over.
  std::int64_t fresh() const { return fresh_; }
  std::int64_t total() const { return total_; }
  std::int64_t done() const { return done_; }  ///< including those before `first`

 private:
  bool must_wait(std::int64_t ticket) const;

  std::int64_t fresh_;
  std::int64_t total_;
  std::int64_t border_;
  std::int64_t window_;
  std::int64_t group_ = 1;
  std::int64_t lanes_ = 0;  // 0: none waits for another
  std::int64_t done_;
  std::deque<std::int64_t> lost_;  // or passed over; to be granted, oldest first
  std::vector<std::deque<std::int64_t>> held_;
};

}  // namespace passel::train
