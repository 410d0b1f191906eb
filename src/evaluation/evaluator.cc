#include "passel/train/evaluator.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "passel/kernels/update.h"
#include "passel/train/batch_loader.h"
#include "passel/train/carried_state.h"
#include "test_batches.h"

namespace passel::train {
namespace {

// The snapshot's parameters in a model of this thread's own.
Model model_of(const Snapshot& snapshot, const SampleShape& shape, std::int64_t hidden_size) {
  Model model(shape, hidden_size, 0);
  for (std::size_t i = 0; i < snapshot.spans.size(); ++i) {
    const auto& span = snapshot.spans[i];
    std::copy_n(snapshot.parameters.data() + span.begin, span.count,
                model.parameters()[i].second.mutable_data_ptr<float>());
  }
  return model;
}

// Summed in an order that depends on the size alone.
double squared_error(const at::Tensor& prediction, const at::Tensor& target) {
  const at::Tensor difference = prediction.sub(target).contiguous();
  return kernels::squared_norm(difference.const_data_ptr<float>(),
                               static_cast<std::size_t>(difference.numel()));
}

}  // namespace

std::optional<Score> evaluate(const Snapshot& snapshot, const Dataset& dataset,
                              const Config& config, const std::function<bool()>& cancelled) {
  const at::NoGradGuard no_grad;
  const SampleShape shape = dataset.shape();
  Model model = model_of(snapshot, shape, config.hidden_size);
  TestBatches batches(dataset, config);
  std::vector<std::byte> memory(
      static_cast<std::size_t>(batches.rows() * (shape.steps * shape.features * 4 + 8) + 64));
  std::vector<std::int64_t> indices;
  Model::State state = model.initial_state(batches.rows());
  double sum = 0;  // correct answers, or squared errors
  for (std::int64_t k = 0; k < batches.count(); ++k) {
    if (cancelled()) return std::nullopt;
    batches.indices(k, indices);
    const Batch batch = fill_batch(dataset, Split::kTest, indices, memory);
    if (config.stateful) begin_anew(state, batches.fresh(k));
    const at::Tensor prediction = model.predict(batch.x, config.stateful ? &state : nullptr);
    sum += shape.classes > 0 ? prediction.argmax(1).eq(batch.target).sum().item<double>()
                             : squared_error(prediction.squeeze(1), batch.target);
  }
  const double mean = sum / static_cast<double>(batches.samples());
  if (shape.classes > 0) return Score{.test_accuracy = mean, .test_loss = {}};
  return Score{.test_accuracy = {}, .test_loss = mean};
}

}  // namespace passel::train
