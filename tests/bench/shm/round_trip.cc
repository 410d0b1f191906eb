#include <passel/shm_torch.h>

#include <array>
#include <stdexcept>

#include "measurements.h"

namespace bench {
namespace {

using Message = std::array<char, 64>;
using Queue = passel::shm::SimpleQueue<Message>;
using passel::QueueStatus;

void echo(passel::Worker& self) {
  const passel::shm::Arena& arena = *self.exchange().arena();
  auto pings = Queue::open(arena, "pings").consumer();
  auto pongs = Queue::open(arena, "pongs").producer(0);
  const int spins = self.value<int>("spins");
  Message message;
  while (pings.get(message, passel::shm::kNoDeadline, spins) == QueueStatus::kOk) {
    pongs.put(message);
  }
}
PASSEL_ENTRY(echo);

}  // namespace

double round_trip_microseconds(int spins, double seconds) {
  passel::Shared shared({.workers = 1});
  const Queue pings = Queue::create(shared.arena(), "pings");
  const Queue pongs = Queue::create(shared.arena(), "pongs");
  shared.value("spins", spins);
  auto workers = passel::spawn(echo, shared, {.threads = 1});
  auto there = pings.producer(0);
  auto back = pongs.consumer();
  const auto deadline = passel::after(std::chrono::seconds(60));
  const auto trip = [&] {
    Message message{};
    if (there.put(message) != QueueStatus::kOk ||
        back.get(message, deadline, spins) != QueueStatus::kOk) {
      throw std::runtime_error("no echo came");
    }
  };
  trip();  // the worker is there
  std::uint64_t trips = 0;
  const auto start = Clock::now();
  do {
    trip();
    ++trips;
  } while (trips % 64 != 0 || seconds_since(start) < seconds);
  const double elapsed = seconds_since(start);
  pings.close();
  workers->join();
  return elapsed / static_cast<double>(trips) * 1e6;
}

}  // namespace bench
