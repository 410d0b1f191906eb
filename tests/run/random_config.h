#pragma once

#include <algorithm>
#include <cmath>
#include <random>

#include "passel/train/config_fields.h"

namespace passel::train::test {

/// A valid configuration with every member drawn from its range.
inline Config random_config(std::mt19937_64& random) {
  const auto text = [&] {
    static const std::string kPieces[] = {"a",   "/",  " ", "\"", "\\", "'", "#", "=",
                                          "[x]", "\n", "ü", "日", "\t", "%", ".", "\x01"};
    std::string result = "p";
    for (auto left = random() % 12; left > 0; --left) result += kPieces[random() % 16];
    return result;
  };
  Config config;
  for (const Field& field : config_fields()) {
    std::visit(
        [&](auto member) {
          auto& value = config.*member;
          using Value = std::remove_reference_t<decltype(value)>;
          const double low = field.range.low;
          const double high = field.range.high;
          if constexpr (std::is_same_v<Value, std::string>) {
            value = field.choices[random() % field.choices.size()];
          } else if constexpr (std::is_same_v<Value, std::filesystem::path>) {
            value = text();
          } else if constexpr (std::is_same_v<Value, std::int64_t>) {
            value = std::uniform_int_distribution<std::int64_t>(
                static_cast<std::int64_t>(low), static_cast<std::int64_t>(high))(random);
          } else if constexpr (std::is_same_v<Value, double>) {
            // From the open interval, over all magnitudes.
            const double unit = (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53;
            value = low + (high - low) * unit * std::pow(10.0, -static_cast<double>(random() % 9));
          } else if constexpr (std::is_same_v<Value, bool>) {
            value = random() % 2 == 0;
          } else {
            value = random();
          }
        },
        field.member);
  }
  if (config.device == "cuda") {
    config.workers = std::min<std::int64_t>(config.workers, 255);
    if (config.workers_per_device > 0) config.workers = config.workers_per_device;
  } else {
    config.workers_per_device = 0;
    config.no_cuda_ipc = config.empty_cache = false;
  }
  if (config.device == "cpu" || config.mode != "hogwild" || config.no_cuda_ipc) {
    config.atomic_adds = false;
  }
  if (config.optimizer != "sgd") config.momentum = 0;
  if (config.mode != "hogwild") config.optimizer_state = "shared";
  const bool has_end = config.lr_schedule == "linear" || config.lr_schedule == "cosine";
  config.lr_min = has_end ? std::min(config.lr_min, config.lr) : 0;
  if (config.mode == "sync") config.staleness_lr = 0;
  if (config.mode != "ordered") config.delay_compensation = 0;
  if (config.mode == "sync" || config.momentum == 0) config.momentum_correction = false;
  if (config.mode == "recorded") config.momentum_correction = false;
  if (config.dataset != "adding-stream") config.stateful = false;
  if (!config.stateful) config.lanes = Config{}.lanes;
  return config;
}

}  // namespace passel::train::test
