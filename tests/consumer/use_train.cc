#include <passel/train/batch_plan.h>
#include <passel/train/dataset.h>

#include <cstdio>

// Draws a batch of generated data through the installed trainer library.
int main() {
  const auto dataset = passel::train::open_dataset({.name = "adding", .seed = 1});
  dataset->load();
  passel::train::BatchPlan plan(dataset->train_size(), 4, 1, 1);
  std::vector<std::int64_t> indices;
  plan.indices(0, indices);
  const auto shape = dataset->shape();
  std::vector<float> x(static_cast<std::size_t>(shape.steps * shape.features * 4)), target(4);
  dataset->fill(passel::train::Split::kTrain, indices, x.data(), {.values = target.data()});
  const bool right = indices.size() == 4 && target[0] > 0 && target[0] < 2;
  std::printf("%s\n", right ? "ok" : "wrong");
  return right ? 0 : 1;
}
