#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "passel/shm/arena.h"
#include "passel/shm/doorbell.h"

namespace passel::shm {

/// What a CommitRing keeps besides its entries.
struct CommitControl {
  /// Tickets before this one are committed. Written by the combiner alone.
  alignas(128) std::atomic<std::int64_t> committed;
  /// 1 + the process that commits now, or 0. One that dies is removed by the parent.
  alignas(128) std::atomic<std::uint32_t> combiner;
  Doorbell bell;  ///< rung at every commit
};

/// Commits the contributions of many processes strictly in the order of their tickets 0, 1, 2 ...,
/// whoever computed them and whenever they came: each process publishes what it has, and whoever
/// finds the next ticket published commits it, for all (flat combining: Hendler, Incze, Shavit,
/// Tzafrir 2010).
///
/// A SIGKILL at any instruction leaves every ticket unpublished, published or committed, and never
/// half of that, provided that the commit of ticket n reads what was there at committed() == n and
/// writes elsewhere: then a commit that was cut off is begun again from the same state.
///
/// @tparam Entry trivially copyable; what there is to say of a ticket
/// Threads: any member from any process, but publish() of one ticket from one at a time.
template <class Entry>
class CommitRing {
  static_assert(std::is_trivially_copyable_v<Entry> && std::is_default_constructible_v<Entry>);

 public:
  /// @param window entries kept; publish(n) may not be called before n - window is committed
  static CommitRing create(Arena& arena, const std::string& name, std::uint32_t window) {
    auto* const control = arena.construct<CommitControl>(name);
    const auto slots = arena.construct_array<Slot>(slots_name(name), window);
    for (Slot& slot : slots) slot.published.store(-1);
    return {control, slots};
  }

  static CommitRing open(const Arena& arena, const std::string& name) {
    return {arena.get<CommitControl>(name), arena.get_array<Slot>(slots_name(name))};
  }

  /// For the parent before the first spawn: tickets before `ticket` are committed.
  void start_at(std::int64_t ticket) const noexcept { control_->committed.store(ticket); }

  /// Tickets before this one are committed, and all that their commits wrote can be read.
  [[nodiscard]] std::int64_t committed() const noexcept {
    return control_->committed.load(std::memory_order_acquire);  // pairs with help()'s release
  }

  /// Hands the ticket in. What the caller wrote for its commit must be complete.
  void publish(std::int64_t ticket, const Entry& entry) const noexcept {
    Slot& slot = slot_of(ticket);
    slot.entry = entry;
    // Sequentially consistent, as the loads in next_published() and the words of the combiner:
    // of a publisher that finds a combiner and a combiner that is about to leave, one sees the
    // other.
    slot.published.store(ticket);
  }

  /// The entry of a ticket that is published and among the last `window`.
  [[nodiscard]] std::optional<Entry> entry(std::int64_t ticket) const noexcept {
    const Slot& slot = slot_of(ticket);
    if (slot.published.load() != ticket) return std::nullopt;
    return slot.entry;
  }

  /// Commits all that can be, unless another process is at it, who then does it.
  /// @param self this process, of its own number
  /// @param commit (ticket, entry) noexcept: makes the state after the ticket; may be called again
  ///   for the same ticket by another process when this one dies
  /// @return whether anything was committed
  template <class Commit>
  bool help(std::uint32_t self, Commit&& commit) const noexcept {
    bool any = false;
    while (next_published()) {
      std::uint32_t nobody = 0;
      if (!control_->combiner.compare_exchange_strong(nobody, self + 1)) break;
      while (next_published()) {
        // Relaxed: nobody else writes it now.
        const std::int64_t ticket = control_->committed.load(std::memory_order_relaxed);
        commit(ticket, slot_of(ticket).entry);
        control_->committed.store(ticket + 1, std::memory_order_release);
        any = true;
        control_->bell.ring();
      }
      control_->combiner.store(0);
    }
    return any;
  }

  /// For the parent, once `process` is provably dead and before it has a successor: it commits no
  /// more. help() then.
  void bury(std::uint32_t process) const noexcept {
    std::uint32_t dead = process + 1;
    if (control_->combiner.compare_exchange_strong(dead, 0)) control_->bell.wake_all();
  }

  /// There is something to commit and nobody who does: help() would do something.
  [[nodiscard]] bool needs_help() const noexcept {
    return next_published() && control_->combiner.load() == 0;
  }

  /// What to wait on for committed() and needs_help(). Ring it for other reasons too.
  [[nodiscard]] Doorbell& bell() const noexcept { return control_->bell; }

 private:
  struct alignas(64) Slot {
    std::atomic<std::int64_t> published;  ///< the ticket whose entry this is; -1: none yet
    Entry entry;
  };

  CommitRing(CommitControl* control, std::span<Slot> slots) : control_(control), slots_(slots) {}

  static std::string slots_name(const std::string& name) { return name + "/slots"; }

  [[nodiscard]] Slot& slot_of(std::int64_t ticket) const noexcept {
    return slots_[static_cast<std::uint64_t>(ticket) % slots_.size()];
  }

  [[nodiscard]] bool next_published() const noexcept {
    const std::int64_t ticket = control_->committed.load();
    return slot_of(ticket).published.load() == ticket;
  }

  CommitControl* control_;  // in the arena, as what follows
  std::span<Slot> slots_;   // [window]
};

}  // namespace passel::shm
