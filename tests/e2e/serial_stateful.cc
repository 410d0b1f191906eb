#include "serial_stateful.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <vector>

#include "passel/kernels/update.h"
#include "passel/train/adding_stream.h"
#include "passel/train/model.h"
#include "passel/train/snapshot.h"

namespace passel::testing {
namespace {

using train::Model;
using train::Split;
using Values = std::vector<std::vector<float>>;  // one a parameter

class Loop {
 public:
  explicit Loop(const train::Config& config)
      : config_(config),
        data_(config.seed, config.adding_steps, config.document_windows, 20000, 2000),
        model_(data_.shape(), config.hidden_size, config.seed),
        length_(20000 / (config.lanes * config.batch_size)) {
    auto& first = versions_.emplace_back();
    for (const auto& [name, parameter] : model_.parameters()) {
      const auto* values = parameter.const_data_ptr<float>();
      first.emplace_back(values, values + parameter.numel());
    }
    for (int i = 0; i < 2; ++i) {
      for (const auto& values : first) moments_[i].emplace_back(values.size());
    }
    states_.assign(static_cast<std::size_t>(config.lanes), model_.initial_state(config.batch_size));
    for (std::int64_t s = 0; s < config.lanes * config.batch_size; ++s) {
      starts_.push_back(start_of(Split::kTrain, s, length_));
    }
  }

  SerialResult run(std::int64_t tickets) {
    const bool sync = config_.mode == "sync";
    const std::int64_t group = sync ? config_.shards : 1;
    const std::int64_t staleness = sync ? 0 : config_.staleness;
    for (std::int64_t step = 0; step < tickets / group; ++step) {
      bind(versions_[static_cast<std::size_t>(std::max<std::int64_t>(0, step - staleness))]);
      Values sum = gradient(step * group);
      for (std::int64_t t = step * group + 1; t < (step + 1) * group; ++t) add(sum, gradient(t));
      if (sync) {
        for (auto& values : sum) {
          for (float& value : values) value *= 1.0F / static_cast<float>(group);
        }
      }
      update(sum, step + 1);
    }
    return {hash(), test_loss()};
  }

 private:
  // The first document after the cut of stream s; the cut, if there is none before the next.
  std::int64_t start_of(Split split, std::int64_t s, std::int64_t length) const {
    for (std::int64_t window = s * length; window < (s + 1) * length; ++window) {
      if (data_.begins_document(split, window)) return window;
    }
    return s * length;
  }

  void bind(const Values& version) {
    for (std::size_t i = 0; i < version.size(); ++i) {
      std::ranges::copy(version[i], model_.parameters()[i].second.mutable_data_ptr<float>());
    }
  }

  Values gradient(std::int64_t ticket) {
    const std::int64_t epoch_ticket = ticket % (length_ * config_.lanes);
    const std::int64_t lane = epoch_ticket % config_.lanes, window = epoch_ticket / config_.lanes;
    Model::State& state = states_[static_cast<std::size_t>(lane)];
    std::vector<std::int64_t> indices;
    for (std::int64_t row = 0; row < config_.batch_size; ++row) {
      const auto stream = static_cast<std::size_t>(lane * config_.batch_size + row);
      indices.push_back((starts_[stream] + window) % 20000);
      if (window > 0 && !data_.begins_document(Split::kTrain, indices.back())) continue;
      state.h.select(1, row).zero_();
      state.c.select(1, row).zero_();
    }
    const at::Tensor x = at::empty({config_.adding_steps, config_.batch_size, 2});
    const at::Tensor y = at::empty({config_.batch_size});
    data_.fill(Split::kTrain, indices, x.mutable_data_ptr<float>(),
               {.values = y.mutable_data_ptr<float>()});
    model_.loss(x, y, {}, &state).backward();
    Values result;
    for (const auto& [name, parameter] : model_.parameters()) {
      const at::Tensor values = parameter.grad().contiguous();
      result.emplace_back(values.const_data_ptr<float>(),
                          values.const_data_ptr<float>() + values.numel());
      parameter.mutable_grad().reset();
    }
    return result;
  }

  static void add(Values& sum, const Values& more) {
    for (std::size_t i = 0; i < sum.size(); ++i) {
      for (std::size_t j = 0; j < sum[i].size(); ++j) sum[i][j] += more[i][j];
    }
  }

  void update(const Values& gradient, std::int64_t count) {
    double square = 0;
    for (const auto& g : gradient) square += kernels::squared_norm(g.data(), g.size());
    const bool adam = config_.optimizer == "adam";
    kernels::UpdateOptions options{};
    options.rule = adam ? kernels::UpdateRule::kAdam : kernels::UpdateRule::kSgd;
    options.momentum = config_.momentum;
    Values& next = versions_.emplace_back(versions_.back());
    for (std::size_t i = 0; i < next.size(); ++i) {
      const std::vector<float*> all = {moments_[0][i].data(), moments_[1][i].data()};
      const std::size_t used = adam ? 2 : config_.momentum == 0 ? 0 : 1;
      kernels::apply_update(options,
                            {.lr = config_.lr,
                             .step = count,
                             .grad_scale = kernels::clip_scale(square, config_.clip_norm)},
                            next[i].data(), gradient[i].data(), {all.data(), used}, next[i].size());
    }
  }

  // One stream after the other, window by window.
  double test_loss() {
    const c10::NoGradGuard no_grad;
    bind(versions_.back());
    const std::int64_t rows = std::min<std::int64_t>(250, config_.batch_size);
    const std::int64_t length = 2000 / rows;
    const at::Tensor x = at::empty({config_.adding_steps, 1, 2}), y = at::empty({1});
    double sum = 0;
    for (std::int64_t s = 0; s < rows; ++s) {
      const std::int64_t start = start_of(Split::kTest, s, length);
      Model::State state = model_.initial_state(1);
      for (std::int64_t i = 0; i < length; ++i) {
        const std::int64_t window = (start + i) % 2000;
        if (data_.begins_document(Split::kTest, window)) state = model_.initial_state(1);
        const std::array<std::int64_t, 1> index = {window};
        data_.fill(Split::kTest, index, x.mutable_data_ptr<float>(),
                   {.values = y.mutable_data_ptr<float>()});
        const double error = model_.predict(x, &state).item<double>() - y.item<double>();
        sum += error * error;
      }
    }
    return sum / static_cast<double>(rows * length);
  }

  std::string hash() {
    train::Snapshot snapshot{.spans = shm::flat_layout(model_.parameters())};
    snapshot.parameters.resize(shm::flat_size(snapshot.spans));
    for (std::size_t i = 0; i < snapshot.spans.size(); ++i) {
      std::ranges::copy(
          versions_.back()[i],
          snapshot.parameters.begin() + static_cast<std::ptrdiff_t>(snapshot.spans[i].begin));
    }
    return train::param_hash(snapshot);
  }

  train::Config config_;
  train::AddingStream data_;
  Model model_;
  std::int64_t length_;  // windows of a stream
  std::vector<Values> versions_;
  Values moments_[2];
  std::vector<Model::State> states_;  // [lanes]
  std::vector<std::int64_t> starts_;  // [lanes * rows]
};

}  // namespace

SerialResult serial_stateful(const train::Config& config, std::int64_t tickets) {
  return Loop(config).run(tickets);
}

}  // namespace passel::testing
