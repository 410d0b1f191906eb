#include "passel/shm/error.h"

#include <sys/resource.h>

#include <cerrno>
#include <system_error>

namespace passel::shm {
namespace {

std::string sentence(std::string_view operation, int code, std::string_view hint) {
  std::string text(operation);
  if (code != 0) text.append(": ").append(std::generic_category().message(code));
  if (!hint.empty()) text.append(". ").append(hint);
  return text;
}

// Every descriptor that cannot be had has the same cause and the same cure, whatever was opened.
std::string hint_for(int code, std::string_view hint) {
  rlimit limit{};
  if (code == EMFILE && ::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    return "The limit of this process is reached, " + std::to_string(limit.rlim_cur) +
           " (ulimit -n): each worker takes one. Allow more or use fewer workers";
  }
  if (code == ENFILE) {
    return "The limit of the whole machine is reached (sysctl fs.file-max): allow more or end "
           "other programs";
  }
  if (code == EAGAIN && ::getrlimit(RLIMIT_NPROC, &limit) == 0) {
    const bool limited = limit.rlim_cur != RLIM_INFINITY;
    return "No more processes and threads can be had: the limit of the user" +
           (limited ? ", " + std::to_string(limit.rlim_cur) : std::string()) +
           " (ulimit -u), or that of the container or the machine, is reached. Allow more, use "
           "fewer workers or end other programs";
  }
  return std::string(hint);
}

}  // namespace

Error::Error(std::string_view operation, int code, std::string_view hint)
    : std::runtime_error(sentence(operation, code, hint_for(code, hint))),
      operation_(operation),
      code_(code),
      hint_(hint_for(code, hint)) {}

}  // namespace passel::shm
