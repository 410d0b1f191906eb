#include "passel/train/config_fields.h"

#include <algorithm>

#include "passel/train/adding_problem.h"

namespace passel::train {
namespace {

constexpr double kMany = 1e12;  // more tickets than any run finishes

std::vector<Field> make_fields() {
  using C = Config;
  return {
      {.name = "dataset",
       .group = "data",
       .value = "NAME",
       .help = "What to train on",
       .member = &C::dataset,
       .choices = {"fashion-mnist", "adding"}},
      {.name = "data",
       .group = "data",
       .value = "DIR",
       .help = "Folder of the data set's files",
       .member = &C::data},
      {.name = "adding_steps",
       .group = "data",
       .value = "N",
       .help = "Length of a sequence of the adding problem, in steps",
       .member = &C::adding_steps,
       .range = {AddingProblem::kMinSteps, AddingProblem::kMaxSteps}},

      {.name = "hidden_size",
       .group = "model",
       .value = "N",
       .help = "Units of the LLTM cell",
       .member = &C::hidden_size,
       .range = {1, 65536}},

      {.name = "epochs",
       .group = "optimisation",
       .value = "N",
       .help = "Passes over the training data",
       .member = &C::epochs,
       .range = {1, 1e6}},
      {.name = "batch_size",
       .group = "optimisation",
       .value = "N",
       .help = "Samples a ticket",
       .member = &C::batch_size,
       .range = {1, 1 << 20}},
      {.name = "max_tickets",
       .group = "optimisation",
       .value = "N",
       .help = "Stop after this many tickets (batches); 0: all",
       .member = &C::max_tickets,
       .range = {0, kMany}},
      {.name = "optimizer",
       .group = "optimisation",
       .value = "NAME",
       .help = "Update rule",
       .member = &C::optimizer,
       .choices = {"sgd", "rmsprop", "adagrad", "adam", "adamw"}},
      {.name = "optimizer_state",
       .group = "optimisation",
       .value = "NAME",
       .help = "Whether workers share the moments and the step count of the optimizer",
       .member = &C::optimizer_state,
       .choices = {"shared", "private"}},
      {.name = "lr",
       .group = "optimisation",
       .value = "RATE",
       .help = "Learning rate",
       .member = &C::lr,
       .range = {0, 1000, true},
       .hint = "Usual are 0.0001 to 0.1."},
      {.name = "momentum",
       .group = "optimisation",
       .value = "X",
       .help = "Momentum of sgd",
       .member = &C::momentum,
       .range = {0, 1, false, true},
       .hint = "Usual is 0.9."},
      {.name = "weight_decay",
       .group = "optimisation",
       .value = "X",
       .help = "Decay of the parameters",
       .member = &C::weight_decay,
       .range = {0, 1000},
       .hint = "Usual are 0 to 0.1."},
      {.name = "clip_norm",
       .group = "optimisation",
       .value = "X",
       .help = "Largest norm of a gradient; 0: no limit",
       .member = &C::clip_norm,
       .range = {0, 1e6}},
      {.name = "seed",
       .group = "optimisation",
       .value = "N",
       .help = "Seed of parameters and batches",
       .member = &C::seed},

      {.name = "mode",
       .group = "processes",
       .value = "NAME",
       .help = "How updates reach the shared parameters",
       .member = &C::mode,
       .choices = {"hogwild", "ordered", "sync"}},
      {.name = "staleness",
       .group = "processes",
       .value = "N",
       .help = "Mode ordered: a gradient is computed from the parameters N updates before its own",
       .member = &C::staleness,
       .range = {0, 255},
       .hint = "Usual is one less than the workers."},
      {.name = "shards",
       .group = "processes",
       .value = "N",
       .help = "Mode sync: tickets whose mean gradient is one update",
       .member = &C::shards,
       .range = {1, 256},
       .hint = "Usual is one a worker."},
      {.name = "device",
       .group = "processes",
       .value = "NAME",
       .help = "Where workers compute",
       .member = &C::device,
       .choices = {"cpu"}},
      {.name = "workers",
       .group = "processes",
       .value = "N",
       .help = "Worker processes",
       .member = &C::workers,
       .range = {1, 1024},
       .hint = "Usual is one a core."},
      {.name = "worker_timeout",
       .group = "processes",
       .value = "SECONDS",
       .help = "A worker silent for longer, in seconds, is killed and replaced",
       .member = &C::worker_timeout,
       .range = {0.1, 86400},
       .hint = "It is in seconds."},
      {.name = "max_respawns",
       .group = "processes",
       .value = "N",
       .help = "Replacements of dead workers before the run fails",
       .member = &C::max_respawns,
       .range = {0, 1e6}},

      {.name = "out",
       .group = "output",
       .value = "DIR",
       .help = "Run folder, new or empty; unset: runs/TIME-DATASET-MODE",
       .member = &C::out},
      {.name = "resume",
       .group = "output",
       .value = "FILE",
       .help = "Checkpoint to start from in a new run folder",
       .member = &C::resume},
      {.name = "log_interval",
       .group = "output",
       .value = "N",
       .help = "Tickets from one line of progress to the next",
       .member = &C::log_interval,
       .range = {1, kMany}},
      {.name = "keep_checkpoints",
       .group = "output",
       .value = "N",
       .help = "Checkpoints kept beside the best one",
       .member = &C::keep_checkpoints,
       .range = {1, 1e6}},
      {.name = "checkpoint_interval",
       .group = "output",
       .value = "N",
       .help = "Tickets from one checkpoint to the next; 0: at the ends of epochs",
       .member = &C::checkpoint_interval,
       .range = {0, kMany}},
      {.name = "dry_run",
       .group = "output",
       .value = "BOOL",
       .help = "Train one ticket per worker, evaluate, save and stop",
       .member = &C::dry_run},
      {.name = "quiet",
       .group = "output",
       .value = "BOOL",
       .help = "Show warnings and errors only",
       .member = &C::quiet},
  };
}

}  // namespace

std::span<const Field> config_fields() {
  static const std::vector<Field> fields = make_fields();
  return fields;
}

const Field* find_field(std::string_view name) {
  const auto fields = config_fields();
  const auto found = std::ranges::find(fields, name, &Field::name);
  return found == fields.end() ? nullptr : &*found;
}

std::vector<std::string> field_names() {
  std::vector<std::string> names;
  for (const Field& field : config_fields()) names.emplace_back(field.name);
  return names;
}

std::string option_name(const Field& field) {
  std::string name = "--" + std::string(field.name);
  std::ranges::replace(name, '_', '-');
  return name;
}

}  // namespace passel::train
