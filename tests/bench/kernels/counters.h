#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace bench {

/// The processor's counters of the calling thread, user code only, where the kernel lets us read
/// them.
class Counters {
 public:
  struct Values {
    std::uint64_t cycles, instructions;
  };

  Counters();
  ~Counters();
  Counters(const Counters&) = delete;
  Counters& operator=(const Counters&) = delete;

  /// Why there are none; empty if there are.
  const std::string& missing() const { return missing_; }

  /// Since the object was made.
  std::optional<Values> read() const;

 private:
  int cycles_ = -1;  // leader of the group
  int instructions_ = -1;
  std::string missing_;
};

}  // namespace bench
