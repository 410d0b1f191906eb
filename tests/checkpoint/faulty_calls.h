#pragma once

#include <cerrno>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace passel::testing {

/// What goes wrong in the calls of the file layer: open, read, write, fsync, rename and so on,
/// those of the C++ library's filesystem included.
struct FaultPlan {
  static constexpr int kNever = std::numeric_limits<int>::max();
  static constexpr std::int64_t kEndless = std::numeric_limits<std::int64_t>::max();

  int at = kNever;  ///< number of the call that fails, from 0
  int error_number = EIO;
  bool lasting = false;           ///< all later calls fail as well
  int short_write_at = kNever;    ///< number of the call that, if it is a write, writes one byte
  std::int64_t space = kEndless;  ///< bytes there is room for; a write beyond them gives ENOSPC
};

/// While it lives, the calls of the thread that made it follow the plan. Where none is alive, and
/// in other threads, calls do what they always do; but fsync() returns at once in this program,
/// which only outlives the processes it tests, never the machine.
class FaultyCalls {
 public:
  explicit FaultyCalls(FaultPlan plan);
  FaultyCalls(const FaultyCalls&) = delete;
  FaultyCalls& operator=(const FaultyCalls&) = delete;
  ~FaultyCalls();

  /// The calls so far, such as "write".
  const std::vector<std::string>& calls() const { return calls_; }

  /// For the calls themselves: counts one, and tells whether it fails, with errno set.
  bool fails(const char* name);
  /// For write(): how many of `bytes` to write after fails() said no; 0: none, errno is ENOSPC.
  std::size_t room_for(std::size_t bytes);

 private:
  FaultPlan plan_;
  std::vector<std::string> calls_;
};

}  // namespace passel::testing
