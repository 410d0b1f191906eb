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

constexpr const char* kUnchanged = "; what was there before is unchanged";

[[noreturn]] void fail(const std::string& action, const fs::path& path, int error_number,
                       const char* consequence = kUnchanged) {
  throw FileError(path.string() + ": " + action +
                      " failed: " + std::generic_category().message(error_number) + consequence,
                  error_number);
}

/// A signal may interrupt any of them on file systems over a network or in user space.
template <typename Call>
auto repeat_if_interrupted(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) {
    result = call();
  }
  return result;
}

int open_file(const fs::path& path, int flags) {
  return repeat_if_interrupted([&] { return open(path.c_str(), flags | O_CLOEXEC, 0666); });
}

/// Removes a temporary unless its writer, who keeps it locked, is still at work. A lock, unlike
/// the process id in the name, also tells the living from the dead in another container.
bool remove_if_abandoned(const fs::path& temporary) {
  const int fd = open_file(temporary, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
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
    repeat_if_interrupted([this] { return flock(fd_, LOCK_EX); });
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
      const ssize_t written =
          repeat_if_interrupted([&] { return ::write(fd_, bytes.data(), bytes.size()); });
      if (written <= 0) {
        fail("writing", target_, written < 0 ? errno : ENOSPC);
      }
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
  }

  void publish() {
    if (repeat_if_interrupted([this] { return fsync(fd_); }) != 0) {
      fail("syncing", target_, errno);
    }
    if (rename(name_.c_str(), target_.c_str()) != 0) {
      fail("renaming the temporary file", target_, errno);
    }
    renamed_ = true;
    close(std::exchange(fd_, -1));  // gives the lock up; what could fail has failed in fsync
  }

 private:
  int create() const { return open_file(name_, O_WRONLY | O_CREAT | O_EXCL); }

  fs::path target_;
  fs::path name_;
  int fd_ = -1;
  bool renamed_ = false;
};

void sync_folder(const fs::path& file) {
  constexpr const char* kMayBeUndone = "; it is there, but may be gone after a loss of power";
  const int fd = open_file(file.has_parent_path() ? file.parent_path() : fs::path("."),
                           O_RDONLY | O_DIRECTORY);
  if (fd < 0) {
    fail("opening its folder", file, errno, kMayBeUndone);
  }
  const int synced = repeat_if_interrupted([fd] { return fsync(fd); });
  const int error_number = synced == 0 ? 0 : errno;
  close(fd);
  if (error_number != 0 && error_number != EINVAL) {  // EINVAL: such folders cannot be synced
    fail("syncing its folder", file, error_number, kMayBeUndone);
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
  sync_folder(path);
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
