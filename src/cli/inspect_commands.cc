#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "passel/train/errors.h"
#include "passel/train/evaluator.h"
#include "passel/train/export_pt.h"
#include "passel/train/file_kind.h"
#include "passel/train/run_folder.h"
#include "saved_run.h"

namespace passel::train {
namespace {

std::vector<shm::NamedTensor> load_parameters(const SavedRun& saved, const Model& model) {
  const Snapshot snapshot = read_snapshot(saved.file, saved.header, model, false);
  for (std::size_t i = 0; i < snapshot.spans.size(); ++i) {
    const auto& span = snapshot.spans[i];
    std::copy_n(snapshot.parameters.data() + span.begin, span.count,
                model.parameters()[i].second.mutable_data_ptr<float>());
  }
  return model.parameters();
}

}  // namespace

int run_eval(const Command& command) {
  const SavedRun saved = open_saved(command.target);
  Config config = saved.header.config;
  if (command.data) config.data = *command.data;
  const auto dataset = open_dataset(dataset_options(config));
  check_same_model(saved, config, dataset->shape());
  dataset->load();
  const Model model(dataset->shape(), config.hidden_size, config.seed);
  const auto score = evaluate(read_snapshot(saved.file, saved.header, model, false), *dataset,
                              config, [] { return false; });
  if (score->test_accuracy) {
    fmt::print("test_accuracy {:.4f}\n", *score->test_accuracy);
  } else {
    fmt::print("test_loss {:.6f}\n", *score->test_loss);
  }
  return 0;
}

int run_inspect(const Command& command) {
  const SavedRun saved = open_saved(command.target);
  const CheckpointHeader& header = saved.header;
  fmt::print("checkpoint {}\nticket {}\nepoch {}\nupdates {}\n", saved.file.path().string(),
             header.ticket, header.epoch, header.version);
  fmt::print("samples [{} steps, {} features], {} classes\n", header.shape.steps,
             header.shape.features, header.shape.classes);
  for (const TensorView& tensor : saved.file.tensors()) {
    fmt::print("{:<40} {} [{}]\n", tensor.name, dtype_name(tensor.dtype),
               fmt::join(tensor.shape, ", "));
  }
  fmt::print("\n{}", to_toml(header.config));
  return 0;
}

int run_export(const Command& command) {
  const SavedRun saved = open_saved(command.target);
  const Model model(saved.header.shape, saved.header.config.hidden_size, saved.header.config.seed);
  auto output = command.output;
  if (output.empty()) output = std::filesystem::path(saved.file.path()).replace_extension(".pt");
  // A rename to its name would put a file in the place of a device.
  if (std::filesystem::exists(output) && !std::filesystem::is_regular_file(output)) {
    throw UsageError(fmt::format("--output: expected the name of a file, got {}, which is {}",
                                 output.string(), file_kind(output)));
  }
  export_pt(output, load_parameters(saved, model));
  fmt::print("{}\n", output.string());
  return 0;
}

}  // namespace passel::train
