#include "passel/train/border_task.h"

#include <ATen/Parallel.h>

#include <chrono>

namespace passel::train {

BorderTask::BorderTask(const Dataset& dataset, const Config& config, CheckpointStore& store,
                       std::function<void()> on_finished)
    : dataset_(dataset), config_(config), store_(store), on_finished_(std::move(on_finished)) {}

BorderTask::~BorderTask() {
  hurry();
  if (thread_.joinable()) thread_.join();
}

bool BorderTask::ready() const {
  return busy() && result_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

void BorderTask::start(Snapshot snapshot, bool evaluate) {
  std::promise<BorderResult> promise;
  result_ = promise.get_future();
  thread_ = std::thread(
      [this, promise = std::move(promise), snapshot = std::move(snapshot), evaluate]() mutable {
        try {
          promise.set_value(run(snapshot, evaluate));
        } catch (...) {
          promise.set_exception(std::current_exception());
        }
        on_finished_();
      });
}

BorderResult BorderTask::take() {
  thread_.join();
  return result_.get();
}

BorderResult BorderTask::run(const Snapshot& snapshot, bool evaluate) {
  at::set_num_threads(1);
  BorderResult result{.ticket = snapshot.ticket,
                      .epoch = snapshot.epoch,
                      .version = snapshot.version,
                      .param_hash = param_hash(snapshot),
                      .tensor_hashes = tensor_hashes(snapshot)};
  if (evaluate) {
    result.score = train::evaluate(snapshot, dataset_, config_.hidden_size,
                                   [this] { return hurried_.load(); });
  }
  const auto begin = std::chrono::steady_clock::now();
  try {
    CheckpointInfo info{.ticket = snapshot.ticket, .epoch = snapshot.epoch};
    if (result.score) {
      info.score = result.score->value();
      info.higher_is_better = result.score->higher_is_better();
    }
    result.checkpoint = store_.save(info, checkpoint_tensors(snapshot, config_),
                                    checkpoint_metadata(snapshot, config_, dataset_.shape()));
    result.best = store_.best_ticket() == snapshot.ticket;
  } catch (const std::exception& error) {
    result.error = error.what();
  }
  result.save_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

}  // namespace passel::train
