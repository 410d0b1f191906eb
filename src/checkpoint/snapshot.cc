#include "passel/train/snapshot.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <xxhash.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "passel/train/canary.h"
#include "passel/train/checkpoint_store.h"
#include "passel/train/errors.h"
#include "snapshot_states.h"

namespace passel::train {
namespace {

// Names of the state tensors of one optimiser of a run.
class StateNames {
 public:
  StateNames(const Config& config, std::size_t owner)
      : prefix_(config.optimizer_state == "private" ? fmt::format("optimizer/worker-{}", owner)
                                                    : "optimizer") {}

  std::string operator()(std::string_view state, const std::string& parameter) const {
    return fmt::format("{}/{}/{}", prefix_, state, parameter);
  }

 private:
  std::string prefix_;
};

std::string version_tensor(std::size_t age, const std::string& parameter) {
  return fmt::format("version-{}/{}", age, parameter);
}

TensorView view_of(std::string name, const shm::ParameterSpan& span,
                   const std::vector<float>& block) {
  return {.name = std::move(name),
          .dtype = DType::kF32,
          .shape = span.shape,
          .bytes = std::as_bytes(std::span(block).subspan(span.begin, span.count))};
}

const TensorView& tensor_of(const SafetensorsFile& file, const std::string& name,
                            const shm::ParameterSpan& span) {
  const TensorView& tensor = file.at(name);
  if (tensor.dtype != DType::kF32 || tensor.shape != span.shape) {
    throw DataError(fmt::format("{}: expected {} to be F32 [{}], got {} [{}]", file.path().string(),
                                name, fmt::join(span.shape, ", "), dtype_name(tensor.dtype),
                                fmt::join(tensor.shape, ", ")));
  }
  return tensor;
}

void copy_tensor(const SafetensorsFile& file, const std::string& name,
                 const shm::ParameterSpan& span, std::vector<float>& block) {
  const TensorView& tensor = tensor_of(file, name, span);
  std::memcpy(block.data() + span.begin, tensor.bytes.data(), tensor.bytes.size());
}

const std::string& field(const SafetensorsFile& file, const std::string& key) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end()) {
    throw DataError(
        fmt::format("{}: expected the metadata field {}, which is missing; it is no "
                    "checkpoint of passel train",
                    file.path().string(), key));
  }
  return found->second;
}

// Of another number get() would make an integer, whatever comes out.
std::int64_t count_of(const nlohmann::json& value, const char* what, std::int64_t least) {
  const bool right = value.is_number_integer() && value.get<std::int64_t>() >= least;
  if (!right) {
    throw std::invalid_argument(
        fmt::format("expected {} to be a whole number from {}, got {}", what, least, value.dump()));
  }
  return value.get<std::int64_t>();
}

// One for each optimiser.
std::vector<std::int64_t> step_counts(const nlohmann::json& list, const Config& config) {
  if (!list.is_array() || list.empty() ||
      (config.optimizer_state == "shared" && list.size() != 1)) {
    throw std::invalid_argument(fmt::format("expected optimizer_steps to be {} {}, got {}",
                                            config.optimizer_state == "shared"
                                                ? "one count with the state"
                                                : "a count for each worker with the state",
                                            config.optimizer_state, list.dump()));
  }
  std::vector<std::int64_t> counts;
  for (const auto& count : list) counts.push_back(count_of(count, "optimizer_steps", 0));
  return counts;
}

// hogwild: all; the other modes: the one of the present version.
std::span<const OptimizerState> current_optimizers(const TrainingMemory& memory) {
  const std::span<const OptimizerState> all = memory.optimizers;
  if (!memory.commits && !memory.arrivals) return all;
  return all.subspan(static_cast<std::size_t>(memory.version()) % all.size(), 1);
}

}  // namespace

Snapshot take_snapshot(const TrainingMemory& memory, std::int64_t ticket, std::int64_t epoch) {
  const auto copy = [&](std::span<const float> block) {
    std::vector<float> host(block.size());
    memory.blocks->read(block, host);
    return host;
  };
  Snapshot snapshot{.ticket = ticket,
                    .epoch = epoch,
                    .version = memory.version(),
                    .spans = memory.parameters.spans(),
                    .parameters = copy(memory.values()),
                    .older = {},
                    .optimizers = {},
                    .states = memory.states ? copy_states(*memory.states) : std::vector<float>(),
                    .states_ticket = ticket};
  for (std::int64_t age = 1; age <= memory.schedule.staleness; ++age) {
    snapshot.older.push_back(copy(memory.values(age)));
  }
  for (const OptimizerState& optimizer : current_optimizers(memory)) {
    auto& saved = snapshot.optimizers.emplace_back();
    saved.steps = optimizer.steps->load();
    for (const auto block : optimizer.blocks) saved.blocks.push_back(copy(block));
  }
  return snapshot;
}

void restore_snapshot(const Snapshot& snapshot, const TrainingMemory& memory) {
  if (memory.commits) memory.commits->start_at(snapshot.ticket);
  if (memory.arrivals) memory.arrivals->start_at(snapshot.version);
  memory.counters->version.store(snapshot.version);
  memory.blocks->write(snapshot.parameters, memory.values());
  for (std::size_t i = 0; i < snapshot.older.size(); ++i) {
    memory.blocks->write(snapshot.older[i], memory.values(static_cast<std::int64_t>(i) + 1));
  }
  if (memory.states) restore_states(snapshot.states, snapshot.states_ticket, *memory.states);
  const auto optimizers = current_optimizers(memory);
  for (std::size_t i = 0; i < std::min(snapshot.optimizers.size(), optimizers.size()); ++i) {
    optimizers[i].steps->store(snapshot.optimizers[i].steps);
    for (std::size_t s = 0; s < snapshot.optimizers[i].blocks.size(); ++s) {
      memory.blocks->write(snapshot.optimizers[i].blocks[s], optimizers[i].blocks[s]);
    }
  }
}

std::vector<TensorView> checkpoint_tensors(const Snapshot& snapshot, const Config& config) {
  std::vector<TensorView> tensors;
  for (const auto& span : snapshot.spans) {
    tensors.push_back(view_of(span.name, span, snapshot.parameters));
  }
  for (std::size_t i = 0; i < snapshot.older.size(); ++i) {
    for (const auto& span : snapshot.spans) {
      tensors.push_back(view_of(version_tensor(i + 1, span.name), span, snapshot.older[i]));
    }
  }
  const auto states = kernels::state_names(update_options(config));
  for (std::size_t owner = 0; owner < snapshot.optimizers.size(); ++owner) {
    const StateNames name(config, owner);
    for (std::size_t s = 0; s < states.size(); ++s) {
      for (const auto& span : snapshot.spans) {
        tensors.push_back(
            view_of(name(states[s], span.name), span, snapshot.optimizers[owner].blocks[s]));
      }
    }
  }
  if (config.stateful) {
    const auto span = states_span(config);
    tensors.push_back(view_of(span.name, span, snapshot.states));
  }
  return tensors;
}

Metadata checkpoint_metadata(const Snapshot& snapshot, const Config& config,
                             const SampleShape& shape, const std::string& data) {
  const nlohmann::json sample = {
      {"steps", shape.steps}, {"features", shape.features}, {"classes", shape.classes}};
  nlohmann::json steps = nlohmann::json::array();
  for (const OptimizerSnapshot& optimizer : snapshot.optimizers) steps.push_back(optimizer.steps);
  Metadata metadata = {{"config", to_json(config).dump()},
                       {"optimizer_steps", steps.dump()},
                       {"canary", canary_hash()},
                       {"sample_shape", sample.dump()},
                       {"version", std::to_string(snapshot.version)},
                       {"param_hash", param_hash(snapshot)}};
  if (!data.empty()) metadata["data"] = data;
  return metadata;
}

CheckpointHeader read_header(const SafetensorsFile& file) {
  const CheckpointInfo info = checkpoint_info(file);
  CheckpointHeader header{.ticket = info.ticket, .epoch = info.epoch};
  // Those that were written by other programs have none.
  const auto optional = [&](const char* key) {
    const auto found = file.metadata().find(key);
    return found == file.metadata().end() ? std::string() : found->second;
  };
  header.canary = optional("canary");
  header.data = optional("data");
  try {
    header.config = config_from_json(nlohmann::json::parse(field(file, "config")));
    const auto sample = nlohmann::json::parse(field(file, "sample_shape"));
    header.shape = {.steps = count_of(sample.at("steps"), "steps", 1),
                    .features = count_of(sample.at("features"), "features", 1),
                    .classes = count_of(sample.at("classes"), "classes", 0)};
    header.version = count_of(nlohmann::json::parse(field(file, "version")), "version", 0);
    header.optimizer_steps =
        step_counts(nlohmann::json::parse(field(file, "optimizer_steps")), header.config);
  } catch (const DataError&) {
    throw;
  } catch (const std::exception& error) {
    throw DataError(
        fmt::format("{}: its metadata cannot be read: {}", file.path().string(), error.what()));
  }
  return header;
}

Snapshot read_snapshot(const SafetensorsFile& file, const CheckpointHeader& header,
                       const Model& model, bool with_training_state) {
  Snapshot snapshot{.ticket = header.ticket,
                    .epoch = header.epoch,
                    .version = header.version,
                    .spans = shm::flat_layout(model.parameters()),
                    .parameters = {},
                    .older = {},
                    .optimizers = {},
                    .states = {},
                    .states_ticket = header.ticket};
  snapshot.parameters.resize(shm::flat_size(snapshot.spans));
  for (const auto& span : snapshot.spans) copy_tensor(file, span.name, span, snapshot.parameters);
  if (!with_training_state) return snapshot;
  for (std::int64_t age = 1; age <= Schedule::of(header.config).staleness; ++age) {
    auto& block = snapshot.older.emplace_back(snapshot.parameters.size());
    for (const auto& span : snapshot.spans) {
      copy_tensor(file, version_tensor(snapshot.older.size(), span.name), span, block);
    }
  }
  if (header.config.stateful) {
    const auto span = states_span(header.config);
    tensor_of(file, span.name, span);  // before memory is taken for it
    snapshot.states.resize(span.count);
    copy_tensor(file, span.name, span, snapshot.states);
  }
  for (std::size_t owner = 0; owner < header.optimizer_steps.size(); ++owner) {
    const StateNames name(header.config, owner);
    auto& optimizer = snapshot.optimizers.emplace_back();
    optimizer.steps = header.optimizer_steps[owner];
    for (const auto state : kernels::state_names(update_options(header.config))) {
      auto& block = optimizer.blocks.emplace_back(snapshot.parameters.size());
      for (const auto& span : snapshot.spans) {
        copy_tensor(file, name(state, span.name), span, block);
      }
    }
  }
  return snapshot;
}

std::string param_hash(const Snapshot& snapshot) {
  XXH3_state_t* state = XXH3_createState();
  XXH3_64bits_reset(state);
  for (const auto& span : snapshot.spans) {
    XXH3_64bits_update(state, snapshot.parameters.data() + span.begin, span.count * sizeof(float));
  }
  const auto hash = XXH3_64bits_digest(state);
  XXH3_freeState(state);
  return fmt::format("{:016x}", hash);
}

std::map<std::string, std::string> tensor_hashes(const Snapshot& snapshot) {
  std::map<std::string, std::string> hashes;
  for (const auto& span : snapshot.spans) {
    const auto hash =
        XXH3_64bits(snapshot.parameters.data() + span.begin, span.count * sizeof(float));
    hashes[span.name] = fmt::format("{:016x}", hash);
  }
  return hashes;
}

}  // namespace passel::train
