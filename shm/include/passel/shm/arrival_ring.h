#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <type_traits>

#include "passel/shm/arena.h"
#include "passel/shm/doorbell.h"

namespace passel::shm {

/// What an ArrivalRing keeps besides the processes' places.
struct ArrivalControl {
  /// Commits made so far, which is the newest version. Written by the combiner alone.
  alignas(128) std::atomic<std::int64_t> committed;
  /// 1 + the process that commits now, or 0. One that dies is removed by the parent.
  alignas(128) std::atomic<std::uint32_t> combiner;
  std::atomic<std::uint32_t> last;  ///< process of the newest commit
  Doorbell bell;                    ///< rung at every commit, and when a version is no longer read
};

/// Commits the contributions of many processes in the order of their arrival, each to the newest of
/// a ring of versions, and remembers that order. A reader names the version it reads, which is then
/// not overwritten: so its contribution is based on one consistent version.
///
/// As with CommitRing, a SIGKILL at any instruction leaves each contribution committed or not, and
/// never half, provided that the commit to version v + 1 reads version v and writes elsewhere.
///
/// @tparam Entry trivially copyable; what there is to say of a contribution
/// Threads: any member from any process; those with `self` for that process from one thread.
template <class Entry>
class ArrivalRing {
  static_assert(std::is_trivially_copyable_v<Entry> && std::is_default_constructible_v<Entry>);

 public:
  struct Settings {
    std::uint32_t processes;
    std::uint32_t versions;  ///< version v lies in slot v % versions; no reader falls behind more
    std::uint32_t window;    ///< commits remembered
  };
  struct Record {
    std::int64_t ticket;
    std::uint32_t process;
    Entry entry;
  };

  static ArrivalRing create(Arena& arena, const std::string& name, const Settings& settings) {
    auto* const control = arena.construct<ArrivalControl>(name);
    const auto places = arena.construct_array<Place>(name + "/places", settings.processes);
    for (Place& place : places) {
      place.ticket.store(kNone);
      place.reading.store(kNone);
    }
    const auto records = arena.construct_array<Record>(name + "/records", settings.window);
    for (Record& record : records) record.ticket = kNone;
    return {control, places, records, settings.versions};
  }

  /// @param versions as in create()
  static ArrivalRing open(const Arena& arena, const std::string& name, std::uint32_t versions) {
    return {arena.get<ArrivalControl>(name), arena.get_array<Place>(name + "/places"),
            arena.get_array<Record>(name + "/records"), versions};
  }

  /// For the parent before the first spawn: so many commits were made before.
  void start_at(std::int64_t version) const noexcept { control_->committed.store(version); }

  [[nodiscard]] std::int64_t committed() const noexcept { return control_->committed.load(); }

  /// The newest version, which is not overwritten until stop_reading().
  [[nodiscard]] std::int64_t read(std::uint32_t self) const noexcept {
    for (;;) {
      const std::int64_t version = committed();
      // Sequentially consistent, as the loads in room(): either the combiner sees this, or the
      // load below sees that the combiner has gone too far already.
      places_[self].reading.store(version);
      if (committed() - version <= versions_ - 2) return version;
    }
  }
  void stop_reading(std::uint32_t self) const noexcept {
    places_[self].reading.store(kNone);
    control_->bell.ring();
  }

  /// The process's last contribution is committed: it can hand in the next.
  [[nodiscard]] bool free(std::uint32_t self) const noexcept {
    return places_[self].ticket.load() == kNone;
  }
  /// What the caller wrote for the commit must be complete, and stays until free().
  void hand_in(std::uint32_t self, std::int64_t ticket, const Entry& entry) const noexcept {
    places_[self].entry = entry;
    places_[self].ticket.store(ticket);
  }

  /// Commits all that can be, unless another process is at it, who then does it.
  /// @param commit (version, record) noexcept: makes version + 1 from version; may be called again
  ///   for the same version, with this or another record, when this process dies
  /// @return whether anything was committed
  template <class Commit>
  bool help(std::uint32_t self, Commit&& commit) const noexcept {
    bool any = false;
    while (can_commit()) {
      std::uint32_t nobody = 0;
      if (!control_->combiner.compare_exchange_strong(nobody, self + 1)) break;
      release_newest();
      while (can_commit()) {
        commit_next(commit);
        any = true;
      }
      control_->combiner.store(0);
    }
    return any;
  }

  /// There is something to commit and nobody who does: help() would do something.
  [[nodiscard]] bool needs_help() const noexcept {
    return control_->combiner.load() == 0 && can_commit();
  }
  /// Everything that was handed in is committed.
  [[nodiscard]] bool settled() const noexcept { return next_place() == nullptr; }

  /// For the parent, once `process` is provably dead and before it has a successor: it commits and
  /// reads no more. help() then; what it had handed in counts.
  void bury(std::uint32_t process) const noexcept {
    std::uint32_t dead = process + 1;
    control_->combiner.compare_exchange_strong(dead, 0);
    places_[process].reading.store(kNone);
    control_->bell.wake_all();
  }

  /// The version that the ticket's contribution was committed to, if it is among those remembered.
  [[nodiscard]] std::optional<std::int64_t> version_of(std::int64_t ticket) const noexcept {
    const std::int64_t end = committed();
    const std::int64_t begin = std::max<std::int64_t>(0, end - std::ssize(records_));
    for (std::int64_t version = end - 1; version >= begin; --version) {
      if (record(version).ticket == ticket) return version;
    }
    return std::nullopt;
  }
  [[nodiscard]] const Record& record(std::int64_t version) const noexcept {
    return records_[static_cast<std::size_t>(version) % records_.size()];
  }

  /// What to wait on for free() and needs_help().
  [[nodiscard]] Doorbell& bell() const noexcept { return control_->bell; }

 private:
  static constexpr std::int64_t kNone = -1;

  struct alignas(128) Place {
    std::atomic<std::int64_t> ticket;   ///< handed in and not committed, or kNone
    std::atomic<std::int64_t> reading;  ///< version, or kNone
    Entry entry;
  };

  ArrivalRing(ArrivalControl* control, std::span<Place> places, std::span<Record> records,
              std::uint32_t versions)
      : control_(control), places_(places), records_(records), versions_(versions) {}

  /// Who waits, beginning behind the process of the newest commit, so that nobody is passed over.
  [[nodiscard]] Place* next_place() const noexcept {
    for (std::size_t i = 1; i <= places_.size(); ++i) {
      Place& place = places_[(control_->last.load() + i) % places_.size()];
      if (place.ticket.load() != kNone) return &place;
    }
    return nullptr;
  }

  /// Nobody reads what the next commit overwrites.
  [[nodiscard]] bool room() const noexcept {
    const std::int64_t overwritten = committed() + 1 - versions_;
    return std::ranges::all_of(places_, [&](const Place& place) {
      const std::int64_t reading = place.reading.load();
      return reading == kNone || reading > overwritten;
    });
  }

  [[nodiscard]] bool can_commit() const noexcept { return next_place() != nullptr && room(); }

  // A combiner may have died between the commit and the release of the place: then it is done.
  void release_newest() const noexcept {
    const std::int64_t version = committed();
    if (version == 0) return;
    const Record& newest = record(version - 1);
    if (newest.ticket == kNone || places_[newest.process].ticket.load() != newest.ticket) return;
    places_[newest.process].ticket.store(kNone);
    control_->bell.ring();
  }

  template <class Commit>
  void commit_next(Commit&& commit) const noexcept {
    Place& place = *next_place();
    const auto process = static_cast<std::uint32_t>(&place - places_.data());
    const std::int64_t version = committed();
    const std::int64_t ticket = place.ticket.load();
    Record& slot = records_[static_cast<std::size_t>(version) % records_.size()];
    slot = {.ticket = ticket, .process = process, .entry = place.entry};
    commit(version, slot);
    control_->committed.store(version + 1);
    control_->last.store(process);
    place.ticket.store(kNone);
    control_->bell.ring();
  }

  ArrivalControl* control_;    // in the arena, as what follows
  std::span<Place> places_;    // [processes]
  std::span<Record> records_;  // [window]
  std::int64_t versions_;
};

}  // namespace passel::shm
