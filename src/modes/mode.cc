#include "passel/train/mode.h"

#include "passel/train/hogwild.h"
#include "passel/train/ordered.h"
#include "passel/train/recorded.h"

namespace passel::train {

Schedule Schedule::of(const Config& config) {
  if (config.mode == "ordered") {
    return {
        .group = 1, .staleness = config.staleness, .reads_base = config.delay_compensation != 0};
  }
  if (config.mode == "sync") return {.group = config.shards};
  return {};
}

std::unique_ptr<Mode> make_mode(const Config& config, const TrainingMemory& memory,
                                Parameters parameters, std::uint32_t slot) {
  if (memory.arrivals) {
    return std::make_unique<RecordedMode>(config, memory, std::move(parameters), slot);
  }
  if (memory.commits) {
    return std::make_unique<OrderedMode>(config, memory, std::move(parameters), slot);
  }
  return std::make_unique<HogwildMode>(config, memory, std::move(parameters), slot);
}

}  // namespace passel::train
