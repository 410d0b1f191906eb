#pragma once

#include <pthread.h>

#include <csignal>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "passel/shm/error.h"

namespace passel::shm {

/// Starts a thread on which no signal handler of the program's runs.
///
/// @param operation what it is for, as "start the supervisor's thread"
/// Throws Error where the machine has no more threads; `run` is lost then.
template <class Run>
std::thread start_thread(std::string_view operation, Run&& run) {
  struct AllSignalsBlocked {
    sigset_t before;
    AllSignalsBlocked() {
      sigset_t all;
      ::sigfillset(&all);
      ::pthread_sigmask(SIG_SETMASK, &all, &before);
    }
    ~AllSignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before, nullptr); }
  };
  const AllSignalsBlocked inherited;
  try {
    return std::thread(std::forward<Run>(run));
  } catch (const std::system_error& error) {
    throw Error(operation, error.code().value());
  }
}

}  // namespace passel::shm
