#include "passel/train/evaluator.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <numeric>

#include "passel/kernels/update.h"
#include "passel/train/batch_loader.h"

namespace passel::train {
namespace {

constexpr std::int64_t kBatch = 250;

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
                              std::int64_t hidden_size, const std::function<bool()>& cancelled) {
  const at::NoGradGuard no_grad;
  const SampleShape shape = dataset.shape();
  Model model = model_of(snapshot, shape, hidden_size);
  const std::int64_t total = dataset.test_size();
  std::vector<std::byte> memory(
      static_cast<std::size_t>(kBatch * (shape.steps * shape.features * 4 + 8) + 64));
  std::vector<std::int64_t> indices;
  double sum = 0;  // correct answers, or squared errors
  for (std::int64_t begin = 0; begin < total; begin += kBatch) {
    if (cancelled()) return std::nullopt;
    indices.resize(static_cast<std::size_t>(std::min(kBatch, total - begin)));
    std::iota(indices.begin(), indices.end(), begin);
    const Batch batch = fill_batch(dataset, Split::kTest, indices, memory);
    const at::Tensor prediction = model.predict(batch.x);
    sum += shape.classes > 0 ? prediction.argmax(1).eq(batch.target).sum().item<double>()
                             : squared_error(prediction.squeeze(1), batch.target);
  }
  const double mean = sum / static_cast<double>(total);
  if (shape.classes > 0) return Score{.test_accuracy = mean, .test_loss = {}};
  return Score{.test_accuracy = {}, .test_loss = mean};
}

}  // namespace passel::train
