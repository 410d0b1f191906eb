#include "passel/train/training_memory.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>

#include "passel/train/errors.h"

namespace passel::train {
namespace {

constexpr std::size_t kPage = 4096;

std::string optimizer_name(std::size_t owner) {
  return "optimizer/" + std::to_string(owner);
}
constexpr const char* kCommits = "commits";
constexpr const char* kArrivals = "arrivals";
constexpr const char* kReplay = "replay";

// Versions of mode recorded: a worker that computes holds one, and the others are not to wait for
// it unless it is very slow.
constexpr std::int64_t kVersionsPerWorker = 8;

std::int64_t version_count(const Config& config) {
  if (config.mode == "hogwild") return 1;
  if (config.mode == "recorded") return kVersionsPerWorker * config.workers;
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
std::string version_name(std::size_t index) {
  return "versions/" + std::to_string(index);
}
std::string gradient_name(std::size_t index) {
  return "gradients/" + std::to_string(index);
}
std::string grant_queue(std::int64_t slot) {
  return "grants/" + std::to_string(slot);
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
  return (values * sizeof(float) + batch * sizeof(std::int64_t) + 64 + kPage - 1) / kPage * kPage;
}

std::size_t TrainingMemory::capacity(const Config& config, const Model& model,
                                     const Replay& replay) {
  const auto spans = shm::flat_layout(model.parameters());
  const auto blocks =
      version_count(config) + gradient_count(config) +
      static_cast<std::int64_t>(optimizer_count(config) *
                                kernels::state_names(update_options(config)).size());
  const std::size_t flat =
      (shm::flat_size(spans) * sizeof(float) + kPage) * static_cast<std::size_t>(blocks);
  const std::size_t batches = batch_count(config) * batch_bytes(config, model.shape());
  const std::size_t per_worker = 64UL * 1024;  // rings, crash record
  const std::size_t window =
      ticket_window(config) * std::size_t{256} + (replay.bases.size() + 1) * sizeof(std::int64_t);
  return flat + batches + window + static_cast<std::size_t>(config.workers) * per_worker +
         (4UL << 20);
}

TrainingMemory TrainingMemory::create(shm::Arena& arena, const Config& config, const Model& model,
                                      const Replay& replay) {
  const std::string text = to_json(config).dump();
  const auto stored = arena.construct_array<char>("config", text.size());
  std::memcpy(stored.data(), text.data(), text.size());
  *arena.construct<SampleShape>("shape") = model.shape();

  auto parameters = shm::SharedParameters::create(arena, "model", model.parameters());
  std::vector<OptimizerState> optimizers;
  for (std::size_t owner = 0; owner < optimizer_count(config); ++owner) {
    const std::string name = optimizer_name(owner);
    optimizers.push_back(
        {.blocks = {}, .steps = arena.construct<std::atomic<std::int64_t>>(name + "/steps")});
    for (const auto state : kernels::state_names(update_options(config))) {
      optimizers.back().blocks.push_back(arena.construct_array<float>(
          name + "/" + std::string(state), parameters.values().size()));
    }
  }
  auto* counters = arena.construct<RunCounters>("counters");
  const auto workers = static_cast<std::uint32_t>(config.workers);
  auto done = shm::SimpleQueue<Done>::create(
      arena, "done", {.producers = workers, .capacity = 2 * kGrantDepth + 2});
  std::vector<shm::SimpleQueue<Grant>> grants;
  for (std::int64_t slot = 0; slot < config.workers; ++slot) {
    grants.push_back(shm::SimpleQueue<Grant>::create(arena, grant_queue(slot),
                                                     {.producers = 1, .capacity = kGrantDepth}));
  }
  const auto batches = arena.bytes(
      arena.add("batches", batch_count(config) * batch_bytes(config, model.shape()), kPage));
  if (!replay.bases.empty()) {
    const auto stored = arena.construct_array<std::int64_t>(kReplay, replay.bases.size() + 1);
    stored[0] = replay.first;
    std::ranges::copy(replay.bases, stored.begin() + 1);
  }
  std::vector<std::span<float>> versions{parameters.values()};
  std::vector<std::span<float>> gradients;
  while (std::ssize(versions) < version_count(config)) {
    versions.push_back(
        arena.construct_array<float>(version_name(versions.size()), versions[0].size()));
    std::ranges::copy(versions[0], versions.back().begin());
  }
  while (std::ssize(gradients) < gradient_count(config)) {
    gradients.push_back(
        arena.construct_array<float>(gradient_name(gradients.size()), versions[0].size()));
  }
  std::optional<shm::CommitRing<Contribution>> commits;
  std::optional<shm::ArrivalRing<Arrival>> arrivals;
  if (ordered(config)) {
    commits = shm::CommitRing<Contribution>::create(arena, kCommits, ticket_window(config));
  } else if (config.mode == "recorded") {
    arrivals =
        shm::ArrivalRing<Arrival>::create(arena, kArrivals,
                                          {.processes = workers,
                                           .versions = static_cast<std::uint32_t>(versions.size()),
                                           .window = 2 * ticket_window(config)});
  }
  return {std::move(parameters),
          schedule_of(arena, config),
          std::move(versions),
          std::move(optimizers),
          std::move(gradients),
          commits,
          arrivals,
          counters,
          done,
          std::move(grants),
          batches};
}

TrainingMemory TrainingMemory::open(const shm::Arena& arena, const Config& config,
                                    const Model& model) {
  auto parameters = shm::SharedParameters::open(arena, "model", model.parameters());
  std::vector<OptimizerState> optimizers;
  for (std::size_t owner = 0; owner < optimizer_count(config); ++owner) {
    const std::string name = optimizer_name(owner);
    optimizers.push_back(
        {.blocks = {}, .steps = arena.get<std::atomic<std::int64_t>>(name + "/steps")});
    for (const auto state : kernels::state_names(update_options(config))) {
      optimizers.back().blocks.push_back(arena.get_array<float>(name + "/" + std::string(state)));
    }
  }
  std::vector<shm::SimpleQueue<Grant>> grants;
  for (std::int64_t slot = 0; slot < config.workers; ++slot) {
    grants.push_back(shm::SimpleQueue<Grant>::open(arena, grant_queue(slot)));
  }
  std::vector<std::span<float>> versions{parameters.values()};
  std::vector<std::span<float>> gradients;
  while (std::ssize(versions) < version_count(config)) {
    versions.push_back(arena.get_array<float>(version_name(versions.size())));
  }
  while (std::ssize(gradients) < gradient_count(config)) {
    gradients.push_back(arena.get_array<float>(gradient_name(gradients.size())));
  }
  std::optional<shm::CommitRing<Contribution>> commits;
  std::optional<shm::ArrivalRing<Arrival>> arrivals;
  if (ordered(config)) {
    commits = shm::CommitRing<Contribution>::open(arena, kCommits);
  } else if (config.mode == "recorded") {
    arrivals = shm::ArrivalRing<Arrival>::open(arena, kArrivals,
                                               static_cast<std::uint32_t>(versions.size()));
  }
  return {std::move(parameters),
          schedule_of(arena, config),
          std::move(versions),
          std::move(optimizers),
          std::move(gradients),
          commits,
          arrivals,
          arena.get<RunCounters>("counters"),
          shm::SimpleQueue<Done>::open(arena, "done"),
          std::move(grants),
          arena.bytes(arena.find("batches"))};
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
