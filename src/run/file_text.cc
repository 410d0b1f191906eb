#include "file_text.h"

#include <chrono>
#include <fstream>
#include <sstream>

namespace passel::train {

double unix_time() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

std::string read_text(const std::filesystem::path& file) {
  const std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  if (stream) text << stream.rdbuf();
  return std::move(text).str();
}

}  // namespace passel::train
