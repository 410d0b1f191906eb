#pragma once

#include <cstdint>
#include <vector>

#include "passel/shm/lane_states.h"
#include "passel/shm_torch/shared_parameters.h"
#include "passel/train/config.h"

namespace passel::train {

/// The states of a stateful run as one tensor of a checkpoint, "streams/state":
/// [lanes, 2 (h, c), layers, B, S], what the newest ticket of each lane left.
shm::ParameterSpan states_span(const Config& config);

/// At a ticket border. Lanes that had no ticket yet have zeros, which nobody reads.
std::vector<float> copy_states(const shm::LaneStates& states);

/// The converse: the state of lane l is that of its last ticket before `ticket`.
void restore_states(const std::vector<float>& copies, std::int64_t ticket,
                    const shm::LaneStates& states);

}  // namespace passel::train
