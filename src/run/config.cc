#include "passel/train/config.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "passel/train/config_fields.h"
#include "passel/train/device_list.h"
#include "passel/train/errors.h"
#include "passel/train/wording.h"

namespace passel::train {
namespace {

constexpr std::int64_t kMostGpuWorkers = 255;

bool spans_epochs(const Config& config) {
  return config.lr_schedule == "linear" || config.lr_schedule == "cosine";
}

void check_learning_rate(const Config& config) {
  if (config.lr_min != 0 && !spans_epochs(config)) {
    throw UsageError(
        fmt::format("lr_min: expected 0 with the lr_schedule {}, got {}. Only linear and cosine "
                    "end at a rate of their own.",
                    config.lr_schedule, config.lr_min));
  }
  if (config.lr_min > config.lr) {
    throw UsageError(
        fmt::format("lr_min: expected at most lr ({}), got {}.", config.lr, config.lr_min));
  }
}

void check_staleness_options(const Config& config) {
  const auto refuse = [&](const char* name, const char* off, const std::string& got,
                          const char* why) {
    throw UsageError(fmt::format("{}: expected {} with the mode {}, got {}. {}", name, off,
                                 config.mode, got, why));
  };
  if (config.staleness_lr != 0 && config.mode == "sync") {
    refuse("staleness_lr", "0", fmt::format("{}", config.staleness_lr),
           "Its gradients are never stale.");
  }
  if (config.delay_compensation != 0 && config.mode != "ordered") {
    refuse("delay_compensation", "0", fmt::format("{}", config.delay_compensation),
           "Only ordered keeps the parameters that a stale gradient was computed from.");
  }
  if (!config.momentum_correction) return;
  if (config.mode == "sync") {
    refuse("momentum_correction", "false", "true", "It adds no momentum of its own.");
  }
  if (config.mode == "recorded") {
    refuse("momentum_correction", "false", "true",
           "A replay has other workers, on whose number the correction depends.");
  }
  if (config.momentum == 0) {
    throw UsageError(
        "momentum_correction: expected a momentum to lower, got 0. Set the optimizer to sgd and "
        "momentum to the one that is wanted in all.");
  }
}

void check_stateful(const Config& config) {
  if (config.stateful && config.dataset != "adding-stream") {
    throw UsageError(
        fmt::format("stateful: expected false with the dataset {}, got true. Its samples do not "
                    "follow on each other; those of adding-stream do.",
                    config.dataset));
  }
  if (!config.stateful && config.lanes != Config{}.lanes) {
    throw UsageError(
        fmt::format("lanes: expected {} where the run is not stateful, got {}. Only a stateful run "
                    "has lanes: add --stateful, or leave it out.",
                    Config{}.lanes, config.lanes));
  }
}

void check_atomic_adds(const Config& config, std::int64_t devices) {
  if (!config.atomic_adds) return;
  const auto refuse = [](const std::string& with, const char* why) {
    throw UsageError(fmt::format("atomic_adds: expected false with {}, got true. {}", with, why));
  };
  if (devices == 0) {
    refuse("the device cpu",
           "A CPU needs a compare-and-swap an element for it, about twenty times an update's time; "
           "it is for a GPU.");
  }
  if (config.mode != "hogwild") {
    refuse("the mode " + config.mode, "It makes one update at a time, so none is lost.");
  }
  if (devices > 1 || config.no_cuda_ipc) {
    refuse(config.no_cuda_ipc ? "no_cuda_ipc" : "the device " + config.device,
           "The parameters are in the memory of the host then, where the CPU updates them.");
  }
}

void check_devices(const Config& config) {
  const auto devices = static_cast<std::int64_t>(device_list(config.device).value().size());
  if (devices == 0 && config.workers_per_device != 0) {
    throw UsageError(
        fmt::format("workers_per_device: expected 0 with the device cpu, got {}. Set workers, or "
                    "choose the device cuda.",
                    config.workers_per_device));
  }
  if (devices == 0 && config.no_cuda_ipc) {
    throw UsageError(
        "no_cuda_ipc: expected false with the device cpu, got true. It says how processes share "
        "the memory of a GPU.");
  }
  if (devices == 0 && config.empty_cache) {
    throw UsageError(
        "empty_cache: expected false with the device cpu, got true. It empties the cache of "
        "torch's "
        "allocator of GPU memory.");
  }
  check_atomic_adds(config, devices);
  const std::int64_t together = config.workers_per_device * devices;
  if (together != 0 && together != config.workers) {
    throw UsageError(
        fmt::format("workers: expected {}, {} on each device of {}, got {}. Leave out one of "
                    "workers and workers_per_device.",
                    together, config.workers_per_device, config.device, config.workers));
  }
  if (devices != 0 && config.workers > kMostGpuWorkers) {
    throw UsageError(fmt::format("workers: expected at most {} with the device {}, got {}.",
                                 kMostGpuWorkers, config.device, config.workers));
  }
}

// linear and cosine span the epochs: with others even the tickets already trained would have had
// other rates.
void check_epochs(const Config& config, std::int64_t epochs) {
  if (epochs == config.epochs || !spans_epochs(config)) return;
  throw UsageError(fmt::format(
      "epochs: expected {} as before, over which the lr_schedule {} goes, got {}. Stop before with "
      "max_tickets, or start a new run from the checkpoint: passel train --resume FILE.",
      config.epochs, config.lr_schedule, epochs));
}

}  // namespace

void validate(const Config& config) {
  for (const Field& field : config_fields()) check_field(config, field, std::string(field.name));
  if (config.momentum != 0 && config.optimizer != "sgd") {
    throw UsageError(
        fmt::format("momentum: expected 0 with the optimizer {}, got {}. Only sgd has a momentum.",
                    config.optimizer, config.momentum));
  }
  if (config.optimizer_state == "private" && config.mode != "hogwild") {
    throw UsageError(
        fmt::format("optimizer_state: expected shared with the mode {}, got private. Only hogwild "
                    "can keep an optimizer for each worker.",
                    config.mode));
  }
  check_learning_rate(config);
  check_staleness_options(config);
  check_stateful(config);
  check_devices(config);
  if (config.dataset == "fashion-mnist" && config.data.empty()) {
    throw UsageError(
        "data: expected the folder of Fashion-MNIST, got nothing. "
        "Debian's package dataset-fashion-mnist puts it into /usr/share/datasets/fashion-mnist.");
  }
}

Config with_overrides(Config config, const Overrides& overrides) {
  if (overrides.data) config.data = *overrides.data;
  if (overrides.epochs) {
    check_epochs(config, *overrides.epochs);
    config.epochs = *overrides.epochs;
  }
  if (overrides.max_tickets) config.max_tickets = *overrides.max_tickets;
  if (overrides.workers) {
    config.workers = *overrides.workers;
    config.workers_per_device = 0;
  }
  if (overrides.device) {
    config.device = *overrides.device;
    config.workers_per_device = 0;
    if (config.device == "cpu") {
      config.no_cuda_ipc = config.atomic_adds = config.empty_cache = false;
    }
  }
  if (overrides.log_interval) config.log_interval = *overrides.log_interval;
  if (overrides.worker_timeout) config.worker_timeout = *overrides.worker_timeout;
  if (overrides.quiet) config.quiet = *overrides.quiet;
  validate(config);
  check_lanes(config);
  return config;
}

// A ticket waits for the one `lanes` before it. In the ordered modes that is no wait if it is
// committed anyway when the ticket begins; in the others if more lanes than workers' tickets exist.
void check_lanes(const Config& config) {
  if (!config.stateful) return;
  const auto [least, because] =
      config.mode == "ordered" ? std::pair(config.staleness + 1, "one more than --staleness")
      : config.mode == "sync"  ? std::pair(config.shards, "as many as --shards")
                               : std::pair(2 * config.workers, "two a worker");
  if (config.lanes >= least) return;
  throw UsageError(fmt::format(
      "lanes: expected at least {} ({}) with the mode {}, got {}. With fewer lanes workers would "
      "wait for each other's states.",
      least, because, config.mode, config.lanes));
}

nlohmann::json to_json(const Config& config) {
  nlohmann::json json = nlohmann::json::object();
  for (const Field& field : config_fields()) json[field.name] = value_of(config, field);
  return json;
}

Config config_from_json(const nlohmann::json& json) {
  if (!json.is_object()) {
    throw UsageError(
        fmt::format("configuration: expected a JSON object, got {}.", json.type_name()));
  }
  Config config;
  for (const auto& [key, value] : json.items()) {
    const Field* const field = find_field(key);
    if (field == nullptr) {
      throw UsageError(fmt::format("configuration: expected known keys only, got {}.{}",
                                   in_quotes(key), did_you_mean(key, field_names())));
    }
    set_from_json(config, *field, value, key);
  }
  validate(config);
  return config;
}

}  // namespace passel::train
