#include "passel/train/tickets.h"

#include <algorithm>

namespace passel::train {

Tickets::Tickets(std::int64_t first, std::int64_t total, std::uint32_t slots)
    : fresh_(first), total_(total), border_(total), window_(total), done_(first), held_(slots) {}

std::optional<std::int64_t> Tickets::next() const {
  for (const std::int64_t ticket : lost_) {
    if (!must_wait(ticket)) return ticket;
  }
  const std::int64_t end = std::min(border_, oldest_open() + window_);
  for (std::int64_t ticket = fresh_; ticket < end; ++ticket) {
    if (!must_wait(ticket)) return ticket;
    // Those after a whole round wait for tickets of this one.
    if (ticket == fresh_ + lanes_ - 1) break;
  }
  return std::nullopt;
}

bool Tickets::must_wait(std::int64_t ticket) const {
  if (lanes_ == 0) return false;
  const std::int64_t before = ticket - lanes_;
  return before >= fresh_ || std::ranges::binary_search(lost_, before) ||
         std::ranges::any_of(
             held_, [&](const auto& held) { return std::ranges::count(held, before) > 0; });
}

bool Tickets::suits(std::uint32_t slot, std::size_t depth,
                    const std::function<bool(std::uint32_t)>& ready) const {
  if (group_ == 1) return true;
  const std::int64_t step = *next() / group_;
  const auto share = [&](std::uint32_t s) {
    return std::ranges::count(held_[s], step, [&](std::int64_t ticket) { return ticket / group_; });
  };
  const auto own = share(slot);
  for (std::uint32_t other = 0; other < held_.size(); ++other) {
    const auto& held = held_[other];
    const bool takes_it =
        held.size() < depth ||
        std::ranges::any_of(held, [&](std::int64_t ticket) { return ticket / group_ < step; });
    if (ready(other) && takes_it && share(other) < own) return false;
  }
  return true;
}

void Tickets::grant(std::uint32_t slot) {
  const std::int64_t ticket = next().value();
  held_[slot].push_back(ticket);
  if (ticket < fresh_) {
    lost_.erase(std::ranges::find(lost_, ticket));
  } else {
    while (fresh_ < ticket) lost_.push_back(fresh_++);
    ++fresh_;
  }
}

bool Tickets::finish(std::uint32_t slot, std::int64_t ticket) {
  auto& held = held_[slot];
  const auto found = std::ranges::find(held, ticket);
  if (found == held.end()) return false;
  held.erase(found);
  ++done_;
  return true;
}

std::size_t Tickets::lose(std::uint32_t slot) {
  auto& held = held_[slot];
  const std::size_t count = held.size();
  lost_.insert(lost_.end(), held.begin(), held.end());
  held.clear();
  std::ranges::sort(lost_);
  return count;
}

std::int64_t Tickets::oldest_open() const {
  std::int64_t oldest = lost_.empty() ? fresh_ : lost_.front();
  for (const auto& held : held_) {
    for (const std::int64_t ticket : held) oldest = std::min(oldest, ticket);
  }
  return oldest;
}

void Tickets::set_border(std::int64_t border) {
  border_ = std::clamp(border, fresh_, total_);
}

bool Tickets::quiescent() const {
  return done_ == border_;
}

}  // namespace passel::train
