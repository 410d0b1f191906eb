#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>

namespace passel::train {

/// A file could not be written; error_number() is the errno of the call that failed.
class FileError : public std::runtime_error {
 public:
  FileError(const std::string& what, int error_number)
      : std::runtime_error(what), error_number_(error_number) {}
  int error_number() const noexcept { return error_number_; }

 private:
  int error_number_;
};

/// Makes `path` hold the parts, one after the other, or leaves it as it was: the bytes go to
/// PATH.tmp.PID in the same folder, are synced, and take the name by rename; then the folder is
/// synced. A crash or a SIGKILL at any instruction leaves the old file or the new one, and at most
/// a temporary. On failure the temporary is removed and FileError is thrown.
/// Threads of one process must not write the same path at once.
void write_atomically(const std::filesystem::path& path,
                      std::span<const std::span<const std::byte>> parts);

/// Removes temporaries in `directory` whose writers are gone. Returns how many.
/// A missing folder has none.
int sweep_temporaries(const std::filesystem::path& directory);

}  // namespace passel::train
