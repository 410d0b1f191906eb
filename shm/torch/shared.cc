#include "passel/shm_torch/shared.h"

#include "passel/shm/error.h"
#include "passel/shm_torch/shared_tensors.h"

namespace passel::shm {
namespace {

// Crash record, result, inbox and the like of one process.
constexpr std::size_t kPerProcess = std::size_t{16} << 10;
constexpr std::size_t kControl = std::size_t{1} << 20;

Arena create_arena(const SharedSettings& settings) {
  if (settings.workers == 0 || settings.workers >= ChunkRecord::kMaxProcesses) {
    throw Error("share memory with " + std::to_string(settings.workers) + " workers", 0,
                "Expected 1 to " + std::to_string(ChunkRecord::kMaxProcesses - 1));
  }
  const std::size_t processes = std::size_t{settings.workers} + 1;
  std::size_t each = 0;
  std::size_t total = 0;
  if (__builtin_add_overflow(settings.region, settings.chunks * sizeof(ChunkRecord) + kPerProcess,
                             &each) ||
      __builtin_mul_overflow(each, processes, &total) ||
      __builtin_add_overflow(total, settings.memory, &total) ||
      __builtin_add_overflow(total, kControl, &total)) {
    throw Error("share " + std::to_string(settings.memory) + " bytes and regions of " +
                    std::to_string(settings.region) + " bytes",
                0, "Expected less than the machine's memory");
  }
  return Arena::create("passel", total);
}

}  // namespace

Shared::Shared(const SharedSettings& settings)
    : settings_(settings), state_(std::make_shared<SharedState>(create_arena(settings))) {
  ChunkTable::create(arena(), {.processes = settings.workers + 1,
                               .chunks = settings.chunks,
                               .region_bytes = settings.region});
  value<std::uint64_t>("passel.seed", settings.seed);
  state_->exchange = std::make_shared<TensorExchange>(state_->arena, 0);
}

void Shared::share(const std::string& name, std::span<const NamedTensor> tensors,
                   ShareOptions options) {
  std::vector<NamedTensor> group(tensors.begin(), tensors.end());
  if (options.gradients) {
    for (const auto& [member, tensor] : with_gradients(tensors)) group.emplace_back(member, tensor);
  }
  share_group(arena(), exchange(), name, group);
  exchange().watch(name, group);
}

void Shared::share(const std::string& name, const at::Tensor& tensor) {
  share(name, std::span(&tensor, 1));
}

void Shared::share(const std::string& name, std::span<const at::Tensor> tensors) {
  std::vector<NamedTensor> named;
  for (const at::Tensor& tensor : tensors) named.emplace_back(std::to_string(named.size()), tensor);
  share(name, std::span<const NamedTensor>(named));
}

Readers Shared::readers(const std::string& name, const TensorQueueOptions& options) const {
  switch (options.read_by) {
    case ReadBy::kParent:
      return {.first = 0, .count = 1};
    case ReadBy::kWorkers:
      return {.first = 1, .count = settings_.workers};
    default:
      break;
  }
  if (options.worker >= settings_.workers) {
    throw Error("create queue '" + name + "' read by worker " + std::to_string(options.worker), 0,
                "There are " + std::to_string(settings_.workers) + " workers, counted from 0");
  }
  return {.first = options.worker + 1, .count = 1};
}

void SharedState::bury(const WorkerExit& exit, bool replaced) {
  const std::uint32_t process = exit.slot + 1;
  // First what it sent and what waits for it: while it holds a chunk, nobody reuses that.
  for (const auto& channel : channels) {
    channel->adopt(process);
    if (!replaced) channel->abandon(process);
  }
  exchange->ledger().forget(process);
}

bool SharedState::collect() {
  bool more = exchange->ledger().collect();
  for (const auto& channel : channels) more = channel->hand_on() || more;
  return more;
}

void SharedState::wake_all() noexcept {
  for (Doorbell& inbox : exchange->ledger().table().inboxes()) inbox.wake_all();
}

void SharedState::close_all() noexcept {
  for (const auto& channel : channels) channel->close();
}

}  // namespace passel::shm
