#include "passel/train/config.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "passel/train/config_fields.h"
#include "passel/train/errors.h"
#include "passel/train/wording.h"

namespace passel::train {

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
  if (config.dataset == "fashion-mnist" && config.data.empty()) {
    throw UsageError(
        "data: expected the folder of Fashion-MNIST, got nothing. "
        "Debian's package dataset-fashion-mnist puts it into /usr/share/datasets/fashion-mnist.");
  }
}

Config with_overrides(Config config, const Overrides& overrides) {
  if (overrides.data) config.data = *overrides.data;
  if (overrides.epochs) config.epochs = *overrides.epochs;
  if (overrides.max_tickets) config.max_tickets = *overrides.max_tickets;
  if (overrides.workers) config.workers = *overrides.workers;
  if (overrides.log_interval) config.log_interval = *overrides.log_interval;
  if (overrides.worker_timeout) config.worker_timeout = *overrides.worker_timeout;
  if (overrides.quiet) config.quiet = *overrides.quiet;
  validate(config);
  return config;
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
