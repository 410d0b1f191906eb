#include "passel/train/file_kind.h"

#include <sys/stat.h>

namespace passel::train {

std::string_view file_kind(mode_t mode) noexcept {
  switch (mode & S_IFMT) {
    case S_IFREG:
      return "a file";
    case S_IFDIR:
      return "a folder";
    case S_IFIFO:
      return "a pipe or FIFO";
    case S_IFCHR:
      return "a character device";
    case S_IFBLK:
      return "a block device";
    case S_IFSOCK:
      return "a socket";
    default:
      return "something else";
  }
}

std::string_view file_kind(const std::filesystem::path& path) noexcept {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? file_kind(status.st_mode) : "nothing";
}

}  // namespace passel::train
