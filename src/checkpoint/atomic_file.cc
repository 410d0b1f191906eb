#include "passel/train/atomic_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <system_error>
#include <utility>

namespace passel::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMark = ".tmp.";

[[noreturn]] void fail(const std::string& action, const fs::path& path, int error_number) {
  throw FileError(path.string() + ": " + action +
                      " failed: " + std::generic_category().message(error_number) +
                      "; what was there before is unchanged",
                  error_number);
}

/// Removes a temporary unless its writer, who keeps it locked, is still at work. A lock, unlike
/// the process id in the name, also tells the living from the dead in another container.
bool remove_if_abandoned(const fs::path& temporary) {
  const int fd = open(temporary.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  if (fd < 0) {
    return false;
  }
  const bool removed = flock(fd, LOCK_EX | LOCK_NB) == 0 && unlink(temporary.c_str()) == 0;
  close(fd);
  return removed;
}

/// A file under a temporary name, which is removed again unless it took its final name.
class Temporary {
 public:
  explicit Temporary(const fs::path& target)
      : target_(target), name_(target.string() + std::string(kMark) + std::to_string(getpid())) {
    fd_ = create();
    if (fd_ < 0 && errno == EEXIST && remove_if_abandoned(name_)) {
      fd_ = create();  // left by a dead process that had our id
    }
    if (fd_ < 0) {
      fail("creating a temporary file", name_, errno);
    }
    flock(fd_, LOCK_EX);
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  ~Temporary() {
    if (fd_ >= 0) {
      close(fd_);
    }
    if (!renamed_) {
      unlink(name_.c_str());
    }
  }

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
      if (written < 0 && errno != EINTR) {
        fail("writing", target_, errno);
      }
      bytes = bytes.subspan(written > 0 ? static_cast<std::size_t>(written) : 0);
    }
  }

  void publish() {
    if (fsync(fd_) != 0) {
      fail("syncing", target_, errno);
    }
    if (rename(name_.c_str(), target_.c_str()) != 0) {
      fail("renaming the temporary file", target_, errno);
    }
    renamed_ = true;
    close(std::exchange(fd_, -1));  // gives the lock up; what could fail has failed in fsync
  }

 private:
  int create() const { return open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666); }

  fs::path target_;
  fs::path name_;
  int fd_ = -1;
  bool renamed_ = false;
};

void sync_folder(const fs::path& folder) {
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) {
    fail("opening the folder", folder, errno);
  }
  const int error_number = fsync(fd) == 0 ? 0 : errno;
  close(fd);
  if (error_number != 0 && error_number != EINVAL) {  // EINVAL: such folders cannot be synced
    fail("syncing the folder", folder, error_number);
  }
}

bool is_temporary_name(std::string_view name) {
  const std::size_t mark = name.rfind(kMark);
  if (mark == std::string_view::npos || mark + kMark.size() == name.size()) {
    return false;
  }
  const std::string_view id = name.substr(mark + kMark.size());
  return std::all_of(id.begin(), id.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

void write_atomically(const fs::path& path, std::span<const std::span<const std::byte>> parts) {
  {
    Temporary file(path);
    for (const std::span<const std::byte> part : parts) {
      file.write(part);
    }
    file.publish();
  }
  sync_folder(path.has_parent_path() ? path.parent_path() : fs::path("."));
}

int sweep_temporaries(const fs::path& directory) {
  int removed = 0;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    if (is_temporary_name(entry->path().filename().string()) &&
        remove_if_abandoned(entry->path())) {
      ++removed;
    }
  }
  return removed;
}

}  // namespace passel::train
