#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "passel/shm/arena.h"

namespace passel::shm {

/// What tickets leave for each other where they go round in lanes: ticket n belongs to lane
/// n % lanes, begins with the state that ticket n - lanes left, and leaves its own for n + lanes.
/// Each lane has two places, which its tickets write in turn, so no ticket writes what it reads.
///
/// Whoever hands out tickets or versions of parameters keeps the one rule: ticket n begins when
/// n - lanes is finished and will not be computed again, whatever dies. Then
/// - what n reads is whole, and stays as it is until n is finished: its place is written by
///   n + lanes only;
/// - what n overwrites, the state of n - 2 * lanes, was read by n - lanes and has no other reader.
/// A SIGKILL in leave() costs nothing: whoever computes the ticket again reads the same state, and
/// writes the place anew.
///
/// Threads: leave() of one ticket from one process at a time; find() from any.
class LaneStates {
 public:
  /// @param floats of one state
  static LaneStates create(Arena& arena, const std::string& name, std::uint32_t lanes,
                           std::size_t floats) {
    const auto places = arena.construct_array<Place>(name, kPlaces * std::size_t{lanes});
    for (Place& place : places) place.ticket.store(kNobody);
    return {places, arena.construct_array<float>(floats_name(name), places.size() * floats)};
  }

  static LaneStates open(const Arena& arena, const std::string& name) {
    return {arena.get_array<Place>(name), arena.get_array<float>(floats_name(name))};
  }

  [[nodiscard]] std::int64_t lanes() const noexcept {
    return static_cast<std::int64_t>(places_.size() / kPlaces);
  }

  /// Of one state.
  [[nodiscard]] std::size_t floats() const noexcept { return size_; }

  /// The state that the ticket left, [floats]; empty where it is not there, not whole, or
  /// overwritten by a later one.
  [[nodiscard]] std::span<const float> find(std::int64_t ticket) const noexcept {
    const std::size_t place = place_of(ticket);
    // Acquire pairs with the release in leave().
    if (places_[place].ticket.load(std::memory_order_acquire) != ticket) return {};
    return floats_of(place);
  }

  /// Leaves the ticket's state.
  /// @param write (span of [floats]) noexcept: writes all of it
  template <class Write>
  void leave(std::int64_t ticket, Write&& write) const noexcept {
    const std::size_t place = place_of(ticket);
    // Acquire keeps the writing behind it: a place that is being written belongs to nobody.
    places_[place].ticket.exchange(kNobody, std::memory_order_acq_rel);
    write(floats_of(place));
    places_[place].ticket.store(ticket, std::memory_order_release);
  }

  /// The newest ticket of the lane that left a state, or kNobody.
  [[nodiscard]] std::int64_t latest(std::int64_t lane) const noexcept {
    const auto first = static_cast<std::size_t>(lane) * kPlaces;
    const std::int64_t even = places_[first].ticket.load(std::memory_order_acquire);
    const std::int64_t odd = places_[first + 1].ticket.load(std::memory_order_acquire);
    return even > odd ? even : odd;
  }

  static constexpr std::int64_t kNobody = -1;

 private:
  static constexpr std::size_t kPlaces = 2;  // of a lane

  struct alignas(64) Place {
    std::atomic<std::int64_t> ticket;  // whose state lies here, whole; or kNobody
  };

  LaneStates(std::span<Place> places, std::span<float> floats)
      : places_(places), floats_(floats), size_(floats.size() / places.size()) {}

  static std::string floats_name(const std::string& name) { return name + "/floats"; }

  [[nodiscard]] std::size_t place_of(std::int64_t ticket) const noexcept {
    const auto lane = static_cast<std::size_t>(ticket % lanes());
    return lane * kPlaces + static_cast<std::size_t>(ticket / lanes()) % kPlaces;
  }
  [[nodiscard]] std::span<float> floats_of(std::size_t place) const noexcept {
    return floats_.subspan(place * size_, size_);
  }

  std::span<Place> places_;  // [lanes * kPlaces], in the arena, as what follows
  std::span<float> floats_;  // [lanes * kPlaces * size_]
  std::size_t size_;
};

}  // namespace passel::shm
