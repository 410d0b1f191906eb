#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string_view>

namespace passel::train {

/// What stat() says a thing is, with its article, for an error text: "a file", "a folder", "a pipe
/// or FIFO", "a character device", "a block device", "a socket".
std::string_view file_kind(mode_t mode) noexcept;

/// The same of what a path leads to, links followed; "nothing" where there is nothing to be seen.
std::string_view file_kind(const std::filesystem::path& path) noexcept;

}  // namespace passel::train
