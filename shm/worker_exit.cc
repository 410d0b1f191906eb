#include <csignal>
#include <cstring>

#include "passel/shm/supervisor.h"

namespace passel::shm {

std::string WorkerExit::describe() const {
  std::string sentence = "worker " + std::to_string(slot) + " (incarnation " +
                         std::to_string(incarnation) + ", pid " + std::to_string(pid) + ") ";
  if (kind == Kind::kSignalled) {
    const char* const name = ::sigabbrev_np(code);
    sentence += "was killed by signal " + std::to_string(code);
    if (name != nullptr) sentence.append(" (SIG").append(name).append(")");
  } else {
    sentence += "exited with status " + std::to_string(code);
  }
  if (!text.empty()) sentence += ": " + text;
  return sentence;
}

}  // namespace passel::shm
