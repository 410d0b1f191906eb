#include <ATen/ATen.h>
#include <passel/shm_torch.h>

#include <cstring>
#include <stdexcept>

#include "measurements.h"

namespace bench {
namespace {

// Larger than one batch, so that filling reads memory and not the cache alone.
constexpr std::int64_t kSourceBytes = 8 << 20;

class Source {
 public:
  explicit Source(std::int64_t bytes) : bytes_(bytes) {}

  void fill(const at::Tensor& batch) {
    std::memcpy(batch.mutable_data_ptr(), data_.const_data_ptr<float>() + at_, bytes_);
    at_ = (at_ + bytes_ / 4) % data_.numel();
  }

 private:
  std::int64_t bytes_;
  std::int64_t at_ = 0;
  at::Tensor data_ = at::ones({kSourceBytes / 4});
};

void check_sum(const at::Tensor& batch) {
  if (batch.sum().item<float>() != static_cast<float>(batch.numel())) {
    throw std::runtime_error("a batch has other values than it was filled with");
  }
}

void fill_batches(passel::Worker& self) {
  const auto bytes = self.value<std::int64_t>("bytes");
  const auto& stop = self.value<std::atomic<bool>>("stop");
  auto batches = self.queue("batches");
  Source source(bytes);
  while (!stop.load()) {
    const at::Tensor batch = self.empty({bytes / 4}, at::kFloat);
    source.fill(batch);
    batches.put(batch);
  }
  batches.close();
}
PASSEL_ENTRY(fill_batches);

double gigabytes_per_second(std::uint64_t batches, std::int64_t bytes, double seconds) {
  return static_cast<double>(batches) * static_cast<double>(bytes) / seconds / 1e9;
}

}  // namespace

double handover_gigabytes_per_second(std::int64_t bytes, double seconds) {
  passel::Shared shared({.workers = 1, .region = 16 * passel::kMiB});
  auto batches =
      shared.queue("batches", {.capacity = static_cast<std::uint32_t>(4 * passel::kMiB / bytes),
                               .read_by = passel::ReadBy::kParent});
  shared.value("bytes", bytes);
  auto& stop = shared.value<std::atomic<bool>>("stop", false);
  auto workers = passel::spawn(fill_batches, shared, {.threads = 1});
  // A lap through the region takes its pages.
  for (std::size_t warm = 0; warm < 16 * passel::kMiB; warm += bytes) check_sum(*batches.get());
  std::uint64_t count = 0;
  const auto start = Clock::now();
  do {
    check_sum(*batches.get());
    ++count;
  } while (seconds_since(start) < seconds);
  const double elapsed = seconds_since(start);
  stop = true;
  while (batches.get()) {
  }
  workers->join();
  return gigabytes_per_second(count, bytes, elapsed);
}

double local_gigabytes_per_second(std::int64_t bytes, double seconds) {
  Source source(bytes);
  const at::Tensor batch = at::empty({bytes / 4}, at::kFloat);
  std::uint64_t count = 0;
  const auto start = Clock::now();
  do {
    source.fill(batch);
    check_sum(batch);
    ++count;
  } while (seconds_since(start) < seconds);
  return gigabytes_per_second(count, bytes, seconds_since(start));
}

}  // namespace bench
