#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace passel::shm {

/// Thrown by every set-up function of this layer. Hot paths return status values instead.
/// what() reads "OPERATION: SYSTEM ERROR. HINT", with the parts that are there.
class Error : public std::runtime_error {
 public:
  /// @param operation what was tried, with the values it was tried with
  /// @param code an errno value, or 0 where the kernel was not asked
  /// @param hint what was expected and what to do about it; where the limit of open files (EMFILE,
  /// ENFILE) or of processes (EAGAIN) is reached, a sentence about that takes its place
  Error(std::string_view operation, int code, std::string_view hint = {});

  [[nodiscard]] const std::string& operation() const noexcept { return operation_; }
  [[nodiscard]] int code() const noexcept { return code_; }
  [[nodiscard]] const std::string& hint() const noexcept { return hint_; }

 private:
  std::string operation_;
  int code_;
  std::string hint_;
};

/// Thrown out of a worker's blocking call when the run is being stopped in order. A worker that
/// lets it pass ends with status 0.
class Stopped : public Error {
 public:
  explicit Stopped(std::string_view operation) : Error(operation, 0, "The run is being stopped") {}
};

}  // namespace passel::shm
