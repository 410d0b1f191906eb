#include "saved_run.h"

#include <fmt/format.h>

#include "complain.h"
#include "passel/train/checkpoint_store.h"
#include "passel/train/errors.h"
#include "passel/train/run_folder.h"

namespace passel::train {

DatasetOptions dataset_options(const Config& config) {
  return {.name = config.dataset,
          .directory = config.data,
          .seed = config.seed,
          .adding_steps = config.adding_steps,
          .document_windows = config.document_windows};
}

SavedRun open_saved(const std::filesystem::path& target) {
  std::filesystem::path path = target;
  if (!std::filesystem::is_regular_file(target)) {
    const RunFolder folder = RunFolder::open(target);
    const CheckpointStore store(folder.checkpoints(), 1, complain);
    const auto latest = store.latest();
    if (!latest) {
      throw DataError(fmt::format("{}: expected a checkpoint in this run, and there is none yet",
                                  folder.checkpoints().string()));
    }
    path = latest->path;
  }
  SafetensorsFile file = open_checkpoint(path);
  CheckpointHeader header = read_header(file);
  return {std::move(file), std::move(header)};
}

void check_same_model(const SavedRun& saved, const Config& config, const SampleShape& shape) {
  const SampleShape& theirs = saved.header.shape;
  const bool same = theirs.features == shape.features && theirs.classes == shape.classes &&
                    saved.header.config.hidden_size == config.hidden_size;
  if (same) return;
  throw DataError(fmt::format(
      "{}: expected a model of {} features, {} hidden units and {} classes, got one of {}, {} and "
      "{}. Use the options and the data it was trained with",
      saved.file.path().string(), shape.features, config.hidden_size, shape.classes,
      theirs.features, saved.header.config.hidden_size, theirs.classes));
}

std::int64_t resume_ticket(const SavedRun& saved, const Config& config, const BatchPlan& plan) {
  const Config& theirs = saved.header.config;
  if (theirs.seed != config.seed || theirs.batch_size != config.batch_size) {
    throw UsageError(fmt::format(
        "expected --seed {} and --batch-size {} as in {}, got {} and {}: its tickets are other "
        "batches",
        theirs.seed, theirs.batch_size, saved.file.path().string(), config.seed,
        config.batch_size));
  }
  if (theirs.dataset != config.dataset || theirs.adding_steps != config.adding_steps) {
    throw UsageError(fmt::format(
        "expected --dataset {} --adding-steps {} as in {}, got {} and {}: its tickets are other "
        "batches",
        theirs.dataset, theirs.adding_steps, saved.file.path().string(), config.dataset,
        config.adding_steps));
  }
  const auto streams = [](const Config& c) {
    std::string text = fmt::format("--document-windows {}", c.document_windows);
    if (c.stateful) text += fmt::format(" --stateful --lanes {}", c.lanes);
    return text;
  };
  if (streams(theirs) != streams(config)) {
    throw UsageError(fmt::format("expected {} as in {}, got {}: its tickets are other batches",
                                 streams(theirs), saved.file.path().string(), streams(config)));
  }
  if (saved.header.ticket > plan.tickets()) {
    throw UsageError(fmt::format("expected --epochs to cover ticket {} of {}, got only {} tickets",
                                 saved.header.ticket, saved.file.path().string(), plan.tickets()));
  }
  return saved.header.ticket;
}

}  // namespace passel::train
