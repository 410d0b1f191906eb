#include "passel/train/border_task.h"

#include <ATen/Parallel.h>

#include <chrono>
#include <memory>

#include "passel/shm/start_thread.h"

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
  const auto task = std::make_shared<std::packaged_task<BorderResult()>>(
      [this, snapshot = std::move(snapshot), evaluate] { return run(snapshot, evaluate); });
  result_ = task->get_future();
  const auto work = [this, task] {
    (*task)();
    on_finished_();
  };
  try {
    thread_ = shm::start_thread("start the thread that evaluates and saves", work);
  } catch (const shm::Error&) {
    work();  // training waits, which is better than to end it
  }
}

BorderResult BorderTask::take() {
  if (thread_.joinable()) thread_.join();
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
    result.score = train::evaluate(snapshot, dataset_, config_, [this] { return hurried_.load(); });
  }
  const auto begin = std::chrono::steady_clock::now();
  try {
    CheckpointInfo info{.ticket = snapshot.ticket, .epoch = snapshot.epoch};
    if (result.score) {
      info.score = result.score->value();
      info.higher_is_better = result.score->higher_is_better();
    }
    result.checkpoint = store_.save(
        info, checkpoint_tensors(snapshot, config_),
        checkpoint_metadata(snapshot, config_, dataset_.shape(), dataset_.fingerprint()));
    result.best = store_.best_ticket() == snapshot.ticket;
  } catch (const std::exception& error) {
    result.error = error.what();
  }
  result.save_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

}  // namespace passel::train
