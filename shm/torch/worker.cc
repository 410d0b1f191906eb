#include "passel/shm_torch/worker.h"

#include <ATen/Context.h>

namespace passel::shm {
namespace {

// SplitMix64 (Steele, Lea, Flood 2014): neighbouring inputs give unrelated outputs.
std::uint64_t mixed(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
  value = (value ^ value >> 27) * 0x94d049bb133111eb;
  return value ^ value >> 31;
}

}  // namespace

Worker::Worker(WorkerContext& context)
    : context_(context),
      // The context, and with it the arena, lives to the end of the process.
      exchange_(std::make_shared<TensorExchange>(
          std::shared_ptr<const Arena>(&context.arena, [](const Arena*) {}), context.slot + 1)) {
  const std::uint64_t worker = std::uint64_t{slot()} << 32 | incarnation();
  at::manual_seed(mixed(value<std::uint64_t>("passel.seed") ^ mixed(worker)));
  // Not `this`: threads that the entry leaves running may still wait in queues when it has
  // returned.
  exchange_->set_interruption({.pending = [&context] { return context.stop_requested(); }});
}

std::uint32_t Worker::workers() const noexcept {
  return exchange_->ledger().table().processes() - 1;
}

void Worker::bind(const std::string& name, const std::vector<NamedTensor>& tensors) {
  exchange_->bind(name, tensors, this->tensors(name));
}

void Worker::refuse_type(const std::string& name) {
  throw Error("open queue '" + name + "'", 0,
              "It is open already for other records: use the types it was created with");
}

at::Tensor Worker::tensor(const std::string& name) const {
  const std::vector<NamedTensor> group = tensors(name);
  if (group.size() == 1) return group[0].second;
  throw Error("use '" + name + "' as one tensor", 0,
              "It was shared as " + std::to_string(group.size()) + ": use tensors()");
}

std::vector<NamedTensor> Worker::tensors(const std::string& name) const {
  return open_group(*exchange_, name);
}

}  // namespace passel::shm
