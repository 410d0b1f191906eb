#include "passel/train/training_memory.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>

#include "passel/device/host_memory.h"
#include "passel/train/carried_state.h"
#include "passel/train/errors.h"

namespace passel::train {
namespace {

constexpr std::size_t kPage = 4096;

constexpr const char* kCommits = "commits";
constexpr const char* kArrivals = "arrivals";
constexpr const char* kReplay = "replay";
constexpr const char* kStates = "states";

// Mode recorded: a worker that computes holds one version, and the others are not to wait for it
// unless it is very slow. One less is the most that a gradient can be stale, which a replay must be
// able to ask for (--staleness).
std::int64_t recorded_versions(std::int64_t workers) {
  return std::min<std::int64_t>({8 * workers, 2 * workers + 32, 256});
}

std::int64_t version_count(const Config& config) {
  if (config.mode == "hogwild") return 1;
  if (config.mode == "recorded") return recorded_versions(config.workers);
  return Schedule::of(config).versions();
}

std::int64_t gradient_count(const Config& config) {
  if (config.mode == "hogwild") return 0;
  if (config.mode == "recorded") return config.workers;
  return Schedule::of(config).gradients();
}

bool ordered(const Config& config) {
  return config.mode == "ordered" || config.mode == "sync";
}

Schedule schedule_of(const shm::Arena& arena, const Config& config) {
  Schedule schedule = Schedule::of(config);
  if (!arena.contains(kReplay)) return schedule;
  const std::span<const std::int64_t> stored = arena.get_array<std::int64_t>(kReplay);
  schedule.first = stored[0];
  schedule.bases = stored.subspan(1);
  return schedule;
}

std::string numbered(const char* name, std::int64_t number) {
  return std::string(name) + "/" + std::to_string(number);
}

// The parent's and the workers' way to the blocks of the arena; lay_out() asks either for the same.
class Creator {
 public:
  explicit Creator(shm::Arena& arena) : arena_(arena) {}

  shm::SharedParameters parameters(const Model& model) const {
    return shm::SharedParameters::create(arena_, "model", model.parameters());
  }
  template <class T>
  std::span<T> array(const std::string& name, std::size_t count) const {
    return arena_.construct_array<T>(name, count);
  }
  template <class T>
  shm::SimpleQueue<T> queue(const std::string& name, const shm::QueueOptions& options) const {
    return shm::SimpleQueue<T>::create(arena_, name, options);
  }
  shm::CommitRing<Contribution> commits(std::uint32_t window) const {
    return shm::CommitRing<Contribution>::create(arena_, kCommits, window);
  }
  shm::ArrivalRing<Arrival> arrivals(const shm::ArrivalRing<Arrival>::Settings& settings) const {
    return shm::ArrivalRing<Arrival>::create(arena_, kArrivals, settings);
  }
  shm::LaneStates states(std::int64_t lanes, std::size_t floats) const {
    return shm::LaneStates::create(arena_, kStates, static_cast<std::uint32_t>(lanes), floats);
  }
  std::span<std::byte> bytes(const char* name, std::size_t count) const {
    return arena_.bytes(arena_.add(name, count, kPage));
  }
  const shm::Arena& arena() const { return arena_; }

 private:
  shm::Arena& arena_;
};

class Opener {
 public:
  explicit Opener(const shm::Arena& arena) : arena_(arena) {}

  shm::SharedParameters parameters(const Model& model) const {
    return shm::SharedParameters::open(arena_, "model", model.parameters());
  }
  template <class T>
  std::span<T> array(const std::string& name, std::size_t /*count*/) const {
    return arena_.get_array<T>(name);
  }
  template <class T>
  shm::SimpleQueue<T> queue(const std::string& name, const shm::QueueOptions& /*options*/) const {
    return shm::SimpleQueue<T>::open(arena_, name);
  }
  shm::CommitRing<Contribution> commits(std::uint32_t /*window*/) const {
    return shm::CommitRing<Contribution>::open(arena_, kCommits);
  }
  shm::ArrivalRing<Arrival> arrivals(const shm::ArrivalRing<Arrival>::Settings& settings) const {
    return shm::ArrivalRing<Arrival>::open(arena_, kArrivals, settings.versions);
  }
  shm::LaneStates states(std::int64_t /*lanes*/, std::size_t /*floats*/) const {
    return shm::LaneStates::open(arena_, kStates);
  }
  std::span<std::byte> bytes(const char* name, std::size_t /*count*/) const {
    return arena_.bytes(arena_.find(name));
  }
  const shm::Arena& arena() const { return arena_; }

 private:
  const shm::Arena& arena_;
};

template <class Source>
std::vector<OptimizerState> optimizers(const Source& source, device::BlockMemory& blocks,
                                       const Config& config, std::size_t floats) {
  std::vector<OptimizerState> states;
  for (std::size_t i = 0; i < optimizer_count(config); ++i) {
    const std::string name = numbered("optimizer", static_cast<std::int64_t>(i)) + "/";
    states.push_back(
        {.blocks = {},
         .steps = source.template array<std::atomic<std::int64_t>>(name + "steps", 1).data()});
    for (const auto state : kernels::state_names(update_options(config))) {
      states.back().blocks.push_back(blocks.block(name + std::string(state), floats));
    }
  }
  return states;
}

template <class Source>
TrainingMemory lay_out(const Source& source,
                       const std::shared_ptr<device::BlockMemory>& memory_of_blocks,
                       const Config& config, const Model& model) {
  device::BlockMemory& blocks = *memory_of_blocks;
  auto parameters = source.parameters(model);
  const std::size_t floats = parameters.values().size();
  const auto workers = static_cast<std::uint32_t>(config.workers);
  TrainingMemory memory{
      .blocks = memory_of_blocks,
      .parameters = parameters,
      .schedule = schedule_of(source.arena(), config),
      .versions = {blocks.share("versions/0", parameters.values())},
      .optimizers = optimizers(source, blocks, config, floats),
      .gradients = {},
      .commits = {},
      .arrivals = {},
      .states = {},
      .counters = source.template array<RunCounters>("counters", 1).data(),
      .device_use = source.template array<DeviceUse>("device_use", workers),
      .done = source.template queue<Done>("done",
                                          {.producers = workers, .capacity = 2 * kGrantDepth + 2}),
      .grants = {},
      .batches = source.bytes("batches", batch_count(config) * batch_bytes(config, model.shape()))};
  for (std::int64_t v = 1; v < version_count(config); ++v) {
    memory.versions.push_back(blocks.block(numbered("versions", v), floats));
  }
  for (std::int64_t g = 0; g < gradient_count(config); ++g) {
    memory.gradients.push_back(blocks.block(numbered("gradients", g), floats));
  }
  for (std::int64_t slot = 0; slot < config.workers; ++slot) {
    memory.grants.push_back(source.template queue<Grant>(
        numbered("grants", slot), {.producers = 1, .capacity = kGrantDepth}));
  }
  if (ordered(config)) memory.commits = source.commits(ticket_window(config));
  if (config.mode == "recorded") {
    memory.arrivals =
        source.arrivals({.processes = workers,
                         .versions = static_cast<std::uint32_t>(version_count(config)),
                         .window = 2 * ticket_window(config)});
  }
  if (config.stateful) {
    memory.states = source.states(config.lanes, state_floats(model, config.batch_size));
  }
  return memory;
}

}  // namespace

kernels::UpdateOptions update_options(const Config& config) {
  kernels::UpdateOptions options{};
  options.momentum = config.momentum;
  options.weight_decay = config.weight_decay;
  options.eps = 1e-8;
  if (config.optimizer == "sgd") {
    options.rule = kernels::UpdateRule::kSgd;
  } else if (config.optimizer == "rmsprop") {
    options.rule = kernels::UpdateRule::kRmsprop;
  } else if (config.optimizer == "adagrad") {
    options.rule = kernels::UpdateRule::kAdagrad;
    options.eps = 1e-10;
  } else if (config.optimizer == "adamw") {
    options.rule = kernels::UpdateRule::kAdamw;
  } else if (config.optimizer == "adam") {
    options.rule = kernels::UpdateRule::kAdam;
  } else {
    throw UsageError("expected --optimizer sgd, rmsprop, adagrad, adam or adamw, got " +
                     config.optimizer);
  }
  return options;
}

std::size_t optimizer_count(const Config& config) {
  if (config.mode != "hogwild") return 2;
  return config.optimizer_state == "private" ? static_cast<std::size_t>(config.workers) : 1;
}

std::uint32_t ticket_window(const Config& config) {
  const auto held = static_cast<std::uint32_t>(config.workers) * kGrantDepth;
  return 2 * (held + static_cast<std::uint32_t>(Schedule::of(config).gradients()));
}

std::uint32_t batch_count(const Config& config) {
  return static_cast<std::uint32_t>(config.workers) * kGrantDepth + 1;
}

std::size_t batch_bytes(const Config& config, const SampleShape& shape) {
  const auto batch = static_cast<std::size_t>(config.batch_size);
  const auto values = static_cast<std::size_t>(shape.steps * shape.features) * batch;
  const std::size_t bytes =
      values * sizeof(float) + batch * (sizeof(std::int64_t) + sizeof(bool)) + 64;
  return (bytes + kPage - 1) / kPage * kPage;
}

std::size_t TrainingMemory::block_bytes(const Config& config, const Model& model) {
  const auto blocks =
      version_count(config) + gradient_count(config) +
      static_cast<std::int64_t>(optimizer_count(config) *
                                kernels::state_names(update_options(config)).size());
  const auto spans = shm::flat_layout(model.parameters());
  return (shm::flat_size(spans) * sizeof(float) + kPage) * static_cast<std::size_t>(blocks);
}

std::size_t TrainingMemory::capacity(const Config& config, const Model& model,
                                     const Replay& replay) {
  const std::size_t flat = block_bytes(config, model);
  const std::size_t batches = batch_count(config) * batch_bytes(config, model.shape());
  const std::size_t per_worker = 64UL * 1024;  // rings, crash record
  const std::size_t window =
      ticket_window(config) * std::size_t{256} + (replay.bases.size() + 1) * sizeof(std::int64_t);
  const std::size_t states = config.stateful
                                 ? 2 * static_cast<std::size_t>(config.lanes) *
                                       (state_floats(model, config.batch_size) * sizeof(float) + 64)
                                 : 0;
  return flat + batches + window + states + static_cast<std::size_t>(config.workers) * per_worker +
         (4UL << 20);
}

TrainingMemory TrainingMemory::create(shm::Arena& arena, const Config& config, const Model& model,
                                      const Replay& replay,
                                      std::shared_ptr<device::BlockMemory> blocks) {
  const std::string text = to_json(config).dump();
  const auto stored = arena.construct_array<char>("config", text.size());
  std::memcpy(stored.data(), text.data(), text.size());
  *arena.construct<SampleShape>("shape") = model.shape();

  if (!replay.bases.empty()) {
    const auto kept = arena.construct_array<std::int64_t>(kReplay, replay.bases.size() + 1);
    kept[0] = replay.first;
    std::ranges::copy(replay.bases, kept.begin() + 1);
  }
  if (!blocks) blocks = std::make_shared<device::HostMemory>(arena);
  TrainingMemory memory = lay_out(Creator(arena), blocks, config, model);
  const std::span<float> first = memory.versions[0];
  for (std::size_t v = 1; v < memory.versions.size(); ++v) {
    memory.blocks->copy(first.data(), memory.versions[v].data(), first.size());
  }
  memory.blocks->finish();
  return memory;
}

TrainingMemory TrainingMemory::open(const shm::Arena& arena, const Config& config,
                                    const Model& model,
                                    std::shared_ptr<device::BlockMemory> blocks) {
  if (!blocks) blocks = std::make_shared<device::HostMemory>(arena);
  return lay_out(Opener(arena), blocks, config, model);
}

std::int64_t TrainingMemory::version() const {
  if (arrivals) return arrivals->committed();
  return commits ? schedule.step_of(commits->committed()) : counters->version.load();
}

std::span<float> TrainingMemory::values(std::int64_t age) const {
  // Before version 0 there was nothing: whatever lies in the slot is never read.
  const std::int64_t size = std::ssize(versions);
  return versions[static_cast<std::size_t>((version() + size - age) % size)];
}

Config TrainingMemory::read_config(const shm::Arena& arena) {
  const auto stored = arena.get_array<char>("config");
  return config_from_json(nlohmann::json::parse(stored.begin(), stored.end()));
}

SampleShape TrainingMemory::read_shape(const shm::Arena& arena) {
  return *arena.get<SampleShape>("shape");
}

}  // namespace passel::train
