#include "options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>

#include "passel/train/config_fields.h"
#include "passel/train/device_list.h"
#include "passel/train/errors.h"
#include "passel/train/manifest.h"
#include "passel/train/wording.h"

namespace passel::train {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  passel train --workers 4 --epochs 8 --out runs/first\n"
    "      trains on Fashion-MNIST with four worker processes; `passel resume runs/first`\n"
    "      continues it after a stop.\n"
    "  passel train --dataset adding --optimizer rmsprop --lr 0.001 --print-config > adding.toml\n"
    "  passel train --config adding.toml --seed 2\n"
    "      keeps a configuration and trains with it; options win over the file.\n"
    "\n"
    "Exit codes: 0 done, 1 training failed, 2 wrong use, 3 data or checkpoint unreadable,\n"
    "129, 130 and 143 stopped by SIGHUP, SIGINT and SIGTERM after saving.";

constexpr std::string_view kRunOrCheckpoint = "RUN|CHECKPOINT";

constexpr std::array<std::string_view, 8> kResumable = {"data",         "epochs",  "max_tickets",
                                                        "device",       "workers", "worker_timeout",
                                                        "log_interval", "quiet"};

constexpr const char* kSimulation = "--simulate-workers";

/// Values as they stand on the command line, by the field's name. CLI11 splits
/// the line and writes the help text; values are read by set_from_text(), so
/// that files and options share one set of rules and sentences.
using Texts = std::map<const Field*, std::string>;

std::string option_names(const Field& field) {
  return field.name == "workers" ? "--num-processes,--workers" : option_name(field);
}

std::string help_text(const Field& field) {
  std::string text(field.help);
  if (!field.choices.empty()) text += fmt::format(": {}", fmt::join(field.choices, ", "));
  return text;
}

CLI::Option* add_field(CLI::App& app, const Field& field, Texts& texts) {
  std::string& text = texts[&field];
  if (std::holds_alternative<bool Config::*>(field.member)) {
    return app.add_flag(option_names(field), text, help_text(field))
        ->group(std::string(field.group));
  }
  return app.add_option(option_names(field), text, help_text(field))
      ->group(std::string(field.group))
      ->type_name(std::string(field.value))
      ->take_last();
}

std::string default_text(const Field& field) {
  if (const auto* number = std::get_if<double Config::*>(&field.member)) {
    return fmt::format("{}", Config{}.*(*number));
  }
  const nlohmann::json value = value_of(Config{}, field);
  return value.is_string() ? value.get<std::string>() : value.dump();
}

/// Sets what was given on the command line.
void apply(Config& config, const CLI::App& app, const Texts& texts) {
  for (const auto& [field, text] : texts) {
    if (app.count(option_name(*field)) > 0)
      set_from_text(config, *field, text, option_name(*field));
  }
}

struct Line {
  CLI::App app{"Trains libtorch models with many processes over one shared memory.", "passel"};
  CLI::App *train, *eval, *resume, *verify, *replay, *inspect, *exporter;
  Texts train_texts, resume_texts, verify_texts, replay_texts;
  std::string config_file, target, data, output, simulated_workers;
  bool print_config = false;
  bool chaos = false;

  explicit Line(const std::string& version) {
    app.get_formatter()->column_width(36);
    app.set_help_flag("-h,--help", "Show this text");
    app.set_version_flag("--version", version, "Show the versions of passel and libtorch");
    app.footer(kExamples);
    app.require_subcommand(0, 1);
    app.allow_extras();
    add_train();
    eval =
        add_command("eval", "Evaluate a run's newest checkpoint, or the given one, on the test set",
                    kRunOrCheckpoint, "passel eval runs/first");
    eval->add_option("--data", data, "Folder of the data set's files, if it has moved")
        ->type_name("DIR")
        ->take_last();
    resume = add_command("resume", "Continue a stopped run from its newest checkpoint", "RUN",
                         "passel resume runs/first --workers 8");
    for (const std::string_view name : kResumable)
      add_field(*resume, *find_field(name), resume_texts);
    add_simulation(*resume);
    verify = add_repetition("verify",
                            "Repeat a run of mode ordered, sync or recorded with other workers, "
                            "and compare the parameters at every checkpoint bit by bit",
                            "passel verify runs/first --workers 4 --chaos", verify_texts);
    replay = add_repetition("replay",
                            "Repeat a run of mode recorded update by update, with any number of "
                            "workers, and say at which update it differs, if it does",
                            "passel replay runs/first --workers 1", replay_texts);
    inspect = add_command("inspect", "Show what a run or a checkpoint holds", kRunOrCheckpoint,
                          "passel inspect runs/first/checkpoints/best.safetensors");
    exporter = add_command("export", "Write the parameters for Python's torch.load",
                           kRunOrCheckpoint, "passel export runs/first -o model.pt");
    exporter->add_option("-o,--output", output, "File to write; unset: beside the checkpoint")
        ->type_name("FILE.pt")
        ->take_last();
  }

 private:
  void add_train() {
    train = app.add_subcommand("train", "Train a model");
    train->allow_extras();
    train->footer(kExamples);
    train->add_option("--config", config_file, "TOML file with values for the options below")
        ->type_name("FILE")
        ->take_last();
    train->add_flag("--print-config", print_config, "Print the configuration as TOML and stop");
    for (const Field& field : config_fields()) {
      CLI::Option* const option = add_field(*train, field, train_texts);
      if (option->get_items_expected_max() > 0) option->default_str(default_text(field));
    }
    add_simulation(*train);
  }

  void add_simulation(CLI::App& command) {
    command
        .add_option(kSimulation, simulated_workers,
                    "Compute the run of N workers in this process alone, with the same bits; modes "
                    "ordered and sync")
        ->group("processes")
        ->type_name("N")
        ->take_last();
  }

  CLI::App* add_repetition(const char* name, const char* help, const char* example, Texts& texts) {
    CLI::App* const command = add_command(name, help, "RUN", example);
    for (const std::string_view field : {"data", "workers"}) {
      add_field(*command, *find_field(field), texts);
    }
    add_simulation(*command);
    command->add_flag("--chaos", chaos, "Kill and stop workers at random meanwhile");
    return command;
  }

  CLI::App* add_command(const char* name, const char* help, std::string_view target_name,
                        const char* example) {
    CLI::App* const command = app.add_subcommand(name, help);
    command->allow_extras();
    command->footer(fmt::format("Example:\n  {}", example));
    command
        ->add_option(
            "target", target,
            target_name == kRunOrCheckpoint ? "Run folder or checkpoint file" : "Run folder")
        ->type_name(std::string(target_name));
    return command;
  }
};

std::vector<std::string> option_list(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back(name);
  }
  return names;
}

std::vector<std::string> command_list(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
  return names;
}

[[noreturn]] void refuse_extra(const CLI::App& app, const std::string& word) {
  if (!word.starts_with('-')) {
    throw UsageError(
        fmt::format("{}: expected options, got the word {}.", app.get_name(), in_quotes(word)));
  }
  const std::string option = word.substr(0, word.find('='));
  const std::string name = option.substr(std::min(option.find_first_not_of('-'), option.size()));
  const std::string nearest = nearest_name(name, option_list(app));
  throw UsageError(
      fmt::format("{0}: expected a known option, got {1}.{2} "
                  "`passel {0} --help` shows all.",
                  app.get_name(), in_quotes(option),
                  nearest.empty() ? "" : " Did you mean --" + nearest + "?"));
}

// What CLI11 could not place, without the mark before words that start with '-'.
std::vector<std::string> unplaced(const CLI::App& app) {
  std::vector<std::string> words = app.remaining();
  std::erase(words, "--");
  return words;
}

const CLI::App& chosen_command(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  if (!chosen.empty()) {
    const auto extra = unplaced(*chosen.front());
    if (!extra.empty()) refuse_extra(*chosen.front(), extra.front());
    if (unplaced(app).empty()) return *chosen.front();
  }
  const auto words = unplaced(app);
  const std::string got = words.empty() ? "nothing" : in_quotes(words.front());
  const auto commands = command_list(app);
  throw UsageError(fmt::format(
      "expected a command ({}), got {}.{} "
      "`passel --help` explains them.",
      fmt::join(commands, ", "), got, words.empty() ? "" : did_you_mean(words.front(), commands)));
}

/// Throws where a value was asked for that the mode has no use for.
void check_mode_has(const CLI::App& train, const Config& config, const char* name,
                    std::string_view mode) {
  const Field& field = *find_field(name);
  const bool asked =
      train.count(option_name(field)) > 0 || value_of(config, field) != value_of(Config{}, field);
  if (!asked || config.mode == mode) return;
  throw UsageError(
      fmt::format("{0}: expected it with --mode {1} only, got --mode {2}. Leave out "
                  "{0}, or choose --mode {1}.",
                  option_name(field), mode, config.mode));
}

/// --workers-per-device stands for as many --workers.
void count_workers(const CLI::App& train, Config& config) {
  const auto devices = static_cast<std::int64_t>(device_list(config.device).value().size());
  if (train.count("--workers") > 0 || config.workers != Config{}.workers || devices == 0) return;
  if (config.workers_per_device > 0) config.workers = config.workers_per_device * devices;
}

/// Whether workers are simulated; sets their number.
bool read_simulation(const CLI::App& command, const Line& line, Config& config) {
  const CLI::Option* const option = command.get_option_no_throw(kSimulation);
  if (option == nullptr || option->count() == 0) return false;
  if (command.count("--workers") > 0) {
    throw UsageError(fmt::format(
        "{}: expected it without --workers, got both. Either there are workers, or they are "
        "simulated.",
        kSimulation));
  }
  if (line.chaos) {
    throw UsageError(fmt::format(
        "{}: expected it without --chaos, got both. Simulated workers cannot be killed.",
        kSimulation));
  }
  set_from_text(config, *find_field("workers"), line.simulated_workers, kSimulation);
  return true;
}

Overrides overrides_of(const CLI::App& command, const Texts& texts) {
  Config config;
  apply(config, command, texts);
  const auto given = [&](const char* name) {
    const CLI::Option* const option = command.get_option_no_throw(name);
    return option != nullptr && option->count() > 0;
  };
  Overrides overrides;
  if (given("--data")) overrides.data = config.data;
  if (given("--device")) overrides.device = config.device;
  if (given("--epochs")) overrides.epochs = config.epochs;
  if (given("--max-tickets")) overrides.max_tickets = config.max_tickets;
  if (given("--workers")) overrides.workers = config.workers;
  if (given("--worker-timeout")) overrides.worker_timeout = config.worker_timeout;
  if (given("--log-interval")) overrides.log_interval = config.log_interval;
  if (given("--quiet")) overrides.quiet = config.quiet;
  return overrides;
}

Command to_command(const Line& line, const CLI::App& chosen) {
  Command command;
  if (&chosen == line.train) {
    if (line.train->count("--config") > 0) {
      read_toml_into(command.config, read_config_text(line.config_file), line.config_file);
    }
    apply(command.config, *line.train, line.train_texts);
    count_workers(*line.train, command.config);
    command.simulate = read_simulation(chosen, line, command.config);
    validate(command.config);
    check_lanes(command.config);
    check_mode_has(*line.train, command.config, "staleness", "ordered");
    check_mode_has(*line.train, command.config, "shards", "sync");
    command.print_config = line.print_config;
    return command;
  }
  if (line.target.empty()) {
    throw UsageError(fmt::format(
        "{0}: expected {1}, got nothing. "
        "`passel {0} --help` shows how.",
        chosen.get_name(),
        &chosen == line.resume || &chosen == line.verify ? "a run folder"
                                                         : "a run folder or a checkpoint"));
  }
  command.target = line.target;
  command.output = line.output;
  command.kind = &chosen == line.eval      ? Command::Kind::kEval
                 : &chosen == line.resume  ? Command::Kind::kResume
                 : &chosen == line.verify  ? Command::Kind::kVerify
                 : &chosen == line.replay  ? Command::Kind::kReplay
                 : &chosen == line.inspect ? Command::Kind::kInspect
                                           : Command::Kind::kExport;
  if (line.eval->count("--data") > 0) command.data = line.data;
  if (&chosen == line.resume) command.overrides = overrides_of(*line.resume, line.resume_texts);
  if (&chosen == line.verify) command.overrides = overrides_of(*line.verify, line.verify_texts);
  if (&chosen == line.replay) command.overrides = overrides_of(*line.replay, line.replay_texts);
  command.chaos = line.chaos;
  Config simulated;
  command.simulate = read_simulation(chosen, line, simulated);
  if (command.simulate) command.overrides.workers = simulated.workers;
  return command;
}

}  // namespace

std::variant<Command, int> parse(int argc, const char* const* argv,
                                 const std::string& torch_version, std::ostream& out) {
  Line line(fmt::format("passel {}, libtorch {}", passel_version(), torch_version));
  try {
    line.app.parse(argc, argv);
  } catch (const CLI::Success& shown) {  // --help or --version
    return line.app.exit(shown, out, out);
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string text = error.what();
    throw UsageError(fmt::format("{}: expected a value, got nothing. `passel --help` explains it.",
                                 text.substr(0, text.find(':'))));
  } catch (const CLI::ParseError& error) {
    throw UsageError(fmt::format("{}. `passel --help` explains the options.", error.what()));
  }
  return to_command(line, chosen_command(line.app));
}

}  // namespace passel::train
