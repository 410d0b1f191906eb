#include "passel/shm/error.h"

#include <system_error>

namespace passel::shm {
namespace {

std::string sentence(std::string_view operation, int code, std::string_view hint) {
  std::string text(operation);
  if (code != 0) text.append(": ").append(std::generic_category().message(code));
  if (!hint.empty()) text.append(". ").append(hint);
  return text;
}

}  // namespace

Error::Error(std::string_view operation, int code, std::string_view hint)
    : std::runtime_error(sentence(operation, code, hint)),
      operation_(operation),
      code_(code),
      hint_(hint) {}

}  // namespace passel::shm
