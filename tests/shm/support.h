#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

#include "passel/shm/arena.h"
#include "passel/shm/deadline.h"
#include "passel/shm/doorbell.h"
#include "passel/shm/error.h"
#include "passel/shm/supervisor.h"

namespace passel::shm::test {

/// For waits that succeed in a correct program: long enough for a loaded machine.
inline Deadline patience() {
  return after(std::chrono::seconds(60));
}

/// The message of the Error that `action` throws; fails the test when it throws none.
template <class Action>
std::string error_of(Action&& action) {
  try {
    std::forward<Action>(action)();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "expected an Error, came none";
  return {};
}

/// A supervisor and the doorbell on which the test sleeps until it has news.
class Team {
 public:
  Team(Arena& arena, Supervisor::Options options)
      : supervisor(arena, with_bell(std::move(options), bell)) {}

  Event next_event() {
    std::optional<Event> event;
    bell.wait([&] { return (event = supervisor.poll()).has_value(); }, patience());
    if (!event) throw std::runtime_error("the supervisor reported nothing in time");
    return *event;
  }

  WorkerExit next_exit() { return std::get<WorkerExit>(next_event()); }

  Doorbell bell;
  Supervisor supervisor;

 private:
  static Supervisor::Options with_bell(Supervisor::Options options, Doorbell& bell) {
    options.on_event = [&bell] { bell.ring(); };
    return options;
  }
};

}  // namespace passel::shm::test
