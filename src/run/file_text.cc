#include "file_text.h"

#include <chrono>
#include <system_error>

#include "passel/train/errors.h"
#include "passel/train/input_file.h"

namespace passel::train {

double unix_time() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

std::string read_whole(const std::filesystem::path& file) {
  InputFile input(file);
  std::string text(input.size(), '\0');
  text.resize(input.read(std::as_writable_bytes(std::span(text))));
  return text;
}

std::string read_text(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::exists(file, error) && !error) return {};
  try {
    return read_whole(file);
  } catch (const ReadError&) {
    throw;
  } catch (const DataError&) {
    return {};
  }
}

}  // namespace passel::train
