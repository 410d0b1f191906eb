#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>

namespace passel::train {

/// Says it on stderr. Where stderr takes nothing (a full disk, a reader that has gone) nobody can
/// be told; the exit code must still be the right one, so that is no error.
inline void complain(std::string_view sentence) noexcept {
  const std::string line = fmt::format("passel: {}\n", sentence);
  static_cast<void>(std::fwrite(line.data(), 1, line.size(), stderr));
}

}  // namespace passel::train
