#include <ATen/ATen.h>
#include <passel/shm_torch.h>

#include <stdexcept>

#include "measurements.h"

namespace bench {
namespace {

struct Received {
  std::uint64_t count;
  double seconds;
};

Received receive(passel::Worker& self) {
  auto tensors = self.queue("tensors");
  Received received{};
  if (!tensors.get()) return received;
  const auto start = Clock::now();
  while (tensors.get()) ++received.count;
  received.seconds = seconds_since(start);
  return received;
}
PASSEL_ENTRY(receive);

}  // namespace

double tensor_handles_per_second(bool lent, double seconds) {
  passel::Shared shared({.workers = 1});
  auto tensors = shared.queue("tensors", {.capacity = 1024});
  at::Tensor tensor = lent ? shared.empty({100}, at::kFloat) : at::empty({100}, at::kFloat);
  tensor.fill_(1);
  if (!lent) shared.share("tensor", tensor);
  auto workers = passel::spawn(receive, shared, {.threads = 1});
  std::uint64_t sent = 0;
  // The queue is full until the worker is there, so this waits for it.
  for (; sent < 2048; ++sent) tensors.put(tensor);
  for (const auto start = Clock::now(); sent % 1024 != 0 || seconds_since(start) < seconds;
       ++sent) {
    tensors.put(tensor);
  }
  tensors.close();
  workers->join();
  const auto received = workers->result<Received>(0);
  if (!received || received->count + 1 != sent) throw std::runtime_error("tensors were lost");
  return static_cast<double>(received->count) / received->seconds;
}

}  // namespace bench
