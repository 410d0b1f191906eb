#pragma once

#include <c10/util/Exception.h>

#include <string>

namespace passel::train {

/// What libtorch says went wrong, without its stack trace; with what to do where memory is short.
inline std::string what_torch_says(const c10::Error& error) {
  std::string text = error.what_without_backtrace();
  if (text.find("can't allocate memory") != std::string::npos) {
    text += ". Lower --batch-size or --hidden-size";
  }
  return text;
}

}  // namespace passel::train
