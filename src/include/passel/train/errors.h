#pragma once

#include <stdexcept>

namespace passel::train {

/// The three ways a run can fail. The command line turns each into its own exit code.
/// Every text says what was expected, what came, and what to do.

/// An option or a configuration that makes no sense (exit code 2).
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A data set or a checkpoint that is missing, damaged or of an unknown kind (exit code 3).
class DataError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A file that could not be read, which says nothing about what it holds.
class ReadError : public DataError {
 public:
  using DataError::DataError;
};

/// Training itself failed (exit code 1).
class TrainingError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace passel::train
