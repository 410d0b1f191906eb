#include <ATen/ATen.h>
#include <passel/shm_torch.h>

#include <csignal>
#include <stdexcept>

#include "measurements.h"

namespace bench {
namespace {

/// What a worker has done when it is ready to work.
void first_operation(passel::Worker& self) {
  auto results = self.queue("results");
  results.put(at::ones({16}) + 1);
  while (self.queue("work").get()) {
  }
}
PASSEL_ENTRY(first_operation);

struct Workplace {
  passel::Shared shared{{.workers = 1}};
  passel::TensorQueue work = shared.queue("work");
  passel::TensorQueue results = shared.queue("results", {.read_by = passel::ReadBy::kParent});

  void await_result() {
    const auto result = results.get();
    if (!result || result->sum().item<float>() != 32) throw std::runtime_error("wrong result");
  }
};

}  // namespace

double spawn_seconds(std::size_t gigabytes) {
  // malloc maps anonymous memory for it; the writes touch every page.
  const std::vector<char> ballast(gigabytes << 30, 1);
  Workplace place;
  const auto start = Clock::now();
  auto workers = passel::spawn(first_operation, place.shared, {.threads = 1});
  place.await_result();
  const double elapsed = seconds_since(start);
  place.work.close();
  workers->join();
  return elapsed;
}

double respawn_seconds() {
  Workplace place;
  auto workers = passel::spawn(first_operation, place.shared,
                               {.on_death = passel::OnDeath::kRespawn, .threads = 1});
  place.await_result();
  const auto start = Clock::now();
  workers->kill(0, SIGKILL);
  place.await_result();
  const double elapsed = seconds_since(start);
  place.work.close();
  workers->join();
  return elapsed;
}

}  // namespace bench
