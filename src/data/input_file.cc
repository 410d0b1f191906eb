#include "passel/train/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "passel/train/errors.h"
#include "passel/train/file_kind.h"

namespace passel::train {
namespace {

std::string errno_text() {
  return std::generic_category().message(errno);
}

}  // namespace

InputFile::InputFile(const std::filesystem::path& path) : path_(path) {
  // O_NONBLOCK: opening a FIFO by mistake must not wait for its writer.
  do {
    fd_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  } while (fd_ < 0 && errno == EINTR);
  if (fd_ < 0) {
    if (errno == ENXIO) fail_as(file_kind(path_));  // a socket, or a device without its driver
    fail_to_read("cannot be opened for reading: " + errno_text());
  }
  struct stat status {};
  if (fstat(fd_, &status) != 0) {
    const std::string cause = errno_text();
    close(fd_);
    fail_to_read("cannot be looked at: " + cause);
  }
  if (!S_ISREG(status.st_mode)) {
    close(fd_);
    fail_as(file_kind(status.st_mode));
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
}

InputFile::~InputFile() {
  close(fd_);
}

std::size_t InputFile::read(std::span<std::byte> out) {
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t got = ::read(fd_, out.data() + done, out.size() - done);
    if (got < 0 && errno != EINTR) {
      fail_to_read("reading failed: " + errno_text());
    }
    if (got == 0) {
      break;
    }
    done += got > 0 ? static_cast<std::size_t>(got) : 0;
  }
  return done;
}

void InputFile::fail_as(std::string_view kind) const {
  fail("expected a regular file, got " + std::string(kind));
}

void InputFile::fail(const std::string& cause) const {
  throw DataError(path_.string() + ": " + cause);
}

void InputFile::fail_to_read(const std::string& cause) const {
  throw ReadError(path_.string() + ": " + cause);
}

}  // namespace passel::train
