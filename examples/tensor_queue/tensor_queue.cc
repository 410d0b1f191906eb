// A producer and two consumers. Frames travel as handles: each is written once, into
// shared memory, read where it lies, and its bytes are used again for a later frame.

#include <ATen/ATen.h>
#include <passel/shm_torch.h>

#include <cstdint>
#include <cstdio>

namespace {

constexpr std::int64_t kFrames = 1000;

struct FrameInfo {
  std::int64_t number;
};

struct Brightness {
  std::int64_t number;
  double mean;
};

void consume(passel::Worker& self) {
  auto frames = self.queue<FrameInfo, 1>("frames");
  auto results = self.queue<Brightness, 0>("results");
  while (auto frame = frames.get()) {
    const at::Tensor& pixels = frame->tensors[0];
    results.put({frame->data.number, pixels.to(at::kFloat).mean().item<double>()});
  }
}
PASSEL_ENTRY(consume);

}  // namespace

int main(int argc, char** argv) {
  passel::init(argc, argv);  // in a worker this runs consume() and does not return

  // A region of 4 MiB holds a few dozen frames: all 1,000 of them pass through these.
  passel::Shared shared({.workers = 2, .region = 4 * passel::kMiB});
  auto frames = shared.queue<FrameInfo, 1>("frames", {.capacity = 16});
  auto results = shared.queue<Brightness, 0>(
      "results", {.capacity = 1024, .read_by = passel::ReadBy::kParent});
  auto workers = passel::spawn(consume, shared);

  for (std::int64_t number = 0; number < kFrames; ++number) {
    const at::Tensor frame = shared.empty({240, 320}, at::kByte);
    frame.fill_(number % 256);
    frames.put({number}, {frame});
  }
  frames.close();

  std::int64_t right = 0;
  for (std::int64_t i = 0; i < kFrames; ++i) {
    const auto result = results.get();
    if (!result) break;
    right += result->data.mean == static_cast<double>(result->data.number % 256) ? 1 : 0;
  }
  workers->join();  // throws what a worker threw
  std::printf("%lld of %lld frames measured right\n", static_cast<long long>(right),
              static_cast<long long>(kFrames));
  return right == kFrames ? 0 : 1;
}
