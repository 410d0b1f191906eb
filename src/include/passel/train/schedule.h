#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "passel/train/config.h"

namespace passel::train {

/// Which parameter version a ticket is computed from, in the modes whose result is the same
/// whatever the workers do. A step makes version s + 1 from version s and the gradients of the
/// `group` tickets s * group ... of that step, which are computed from version
/// max(0, s - staleness).
///
///   ordered: group 1, staleness as asked for ("Slow learners are fast", Langford, Smola,
///            Zinkevich 2009: delayed updates in a fixed order)
///   sync:    group as asked for, staleness 0: data parallel
struct Schedule {
  std::int64_t group = 1;
  std::int64_t staleness = 0;
  bool reads_base = false;  ///< a step is made from the version of its gradients, too
  /// A recorded run that is repeated: bases[i] is the base of ticket first + i. They are at most
  /// `staleness` before it, and `group` is 1.
  std::int64_t first = 0;
  std::span<const std::int64_t> bases = {};

  static Schedule of(const Config& config);

  std::int64_t step_of(std::int64_t ticket) const { return ticket / group; }
  /// Version that the ticket's gradient is computed from.
  std::int64_t base_of(std::int64_t ticket) const {
    if (!bases.empty()) return bases[static_cast<std::size_t>(ticket - first)];
    return std::max<std::int64_t>(0, step_of(ticket) - staleness);
  }
  /// Tickets before this one are to be committed before the ticket can be computed.
  std::int64_t needs(std::int64_t ticket) const { return base_of(ticket) * group; }
  /// With this ticket a step is complete.
  bool ends_step(std::int64_t ticket) const { return (ticket + 1) % group == 0; }
  /// The first ticket from here on before which a step is complete.
  std::int64_t border(std::int64_t ticket) const { return (ticket + group - 1) / group * group; }

  /// Versions kept: those being read, and one being written. The oldest that is read while a step
  /// is made is the step's own base, if at all.
  std::int64_t versions() const {
    return std::max<std::int64_t>(staleness + (reads_base ? 2 : 1), 2);
  }
  /// Gradients kept: those of all tickets that can be computed at once.
  std::int64_t gradients() const { return group * (staleness + 1); }
};

}  // namespace passel::train
