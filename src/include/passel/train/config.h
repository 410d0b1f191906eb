#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace passel::train {

/// Everything that determines a training run. Names are those of the options
/// (`--hidden-size`) and of the keys in config.toml and JSON (`hidden_size`);
/// ranges, units and help texts are in config_fields.h.
struct Config {
  // data
  std::string dataset = "fashion-mnist";
  std::filesystem::path data = "/usr/share/datasets/fashion-mnist";
  std::int64_t adding_steps = 50;
  std::int64_t document_windows = 8;  ///< data set adding-stream: in the mean

  // model
  std::int64_t hidden_size = 128;
  double dropout = 0;
  bool stateful = false;
  std::int64_t lanes = 8;  ///< stateful

  // optimisation
  std::int64_t epochs = 8;
  std::int64_t batch_size = 64;
  std::int64_t max_tickets = 0;  ///< 0: all tickets of all epochs
  std::string optimizer = "adam";
  double lr = 0.002;
  std::string lr_schedule = "constant";
  std::int64_t lr_warmup = 0;  ///< tickets
  std::int64_t lr_step = 1;    ///< schedule step: epochs
  double lr_gamma = 0.7;       ///< schedule step
  double lr_min = 0;           ///< schedules linear and cosine
  std::string optimizer_state = "shared";
  double momentum = 0;
  double weight_decay = 0;
  double clip_norm = 1;  ///< 0: no clipping
  std::uint64_t seed = 1;

  // processes
  std::string mode = "hogwild";
  std::int64_t staleness = 1;           ///< mode ordered
  std::int64_t shards = 2;              ///< mode sync: tickets a step
  double staleness_lr = 0;              ///< modes hogwild and ordered; 0: off
  double delay_compensation = 0;        ///< mode ordered; 0: off
  bool momentum_correction = false;     ///< modes hogwild and ordered
  std::string device = "cpu";           ///< see device_list()
  std::int64_t workers_per_device = 0;  ///< 0: workers go round the devices
  bool no_cuda_ipc = false;
  bool atomic_adds = false;  ///< mode hogwild on one GPU
  bool empty_cache = false;  ///< on GPUs
  std::int64_t workers = 2;
  double worker_timeout = 60;  ///< seconds
  std::int64_t max_respawns = 100;

  // output
  std::filesystem::path out;     ///< empty: runs/<time>-<dataset>-<mode>
  std::filesystem::path resume;  ///< empty: start from fresh parameters
  std::int64_t log_interval = 50;
  std::int64_t keep_checkpoints = 3;
  std::int64_t checkpoint_interval = 0;  ///< tickets; 0: at the ends of epochs
  bool dry_run = false;
  bool quiet = false;

  bool operator==(const Config&) const = default;
};

/// What may change when a run is resumed; an empty member keeps the old value.
struct Overrides {
  std::optional<std::filesystem::path> data;
  std::optional<std::string> device;
  std::optional<std::int64_t> epochs, max_tickets, workers, log_interval;
  std::optional<double> worker_timeout;
  std::optional<bool> quiet;
};

/// The configuration with the overrides in place; throws as validate() does.
Config with_overrides(Config config, const Overrides& overrides);

/// Throws UsageError for the first member that is out of range, not finite or
/// at odds with another one: "KEY: expected ..., got .... HINT".
void validate(const Config& config);

/// Throws UsageError where a stateful run has fewer lanes than it could compute tickets at once.
/// For a run that begins or goes on, as one that is repeated may have other workers.
void check_lanes(const Config& config);

/// All members, one key each, so that config_from_json() gives the same Config.
nlohmann::json to_json(const Config& config);

/// Keys that are absent keep their defaults. Throws UsageError naming the key
/// for an unknown key, a wrong type or a value that validate() refuses.
Config config_from_json(const nlohmann::json& json);

/// The last line of to_toml(), a comment: where a run's file lacks it, it was cut.
inline constexpr std::string_view kTomlEnd = "# End of the configuration";

/// The configuration as TOML that config_from_toml() reads back unchanged.
std::string to_toml(const Config& config);

/// Reads the subset of TOML that to_toml() writes: `key = value` lines with
/// strings, numbers and booleans, and comments. `source` is named in errors.
/// Throws UsageError as config_from_json() does, with the line's number.
Config config_from_toml(std::string_view text, const std::string& source);

/// The same from a file; throws UsageError if it cannot be read.
Config load_config(const std::filesystem::path& file);

}  // namespace passel::train
