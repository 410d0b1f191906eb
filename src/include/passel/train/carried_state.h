#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "passel/shm/lane_states.h"
#include "passel/train/model.h"

namespace passel::train {

/// Floats of the state of a batch: h, then c, each [layers, B, S].
std::size_t state_floats(const Model& model, std::int64_t batch);

/// Makes the state zero in the rows of the batch that begin without a past, [B].
void begin_anew(Model::State& state, std::span<const bool> rows);

/// What a stateful run carries from the window of one ticket to that of the next in its lane
/// (truncated back-propagation through time: no gradient goes back beyond the window). For one
/// thread.
///
/// Write a ticket's state before its gradient is handed in or reported, and read it when that has
/// been seen: then it is whole, and the same whoever computed it.
class CarriedState {
 public:
  CarriedState(const shm::LaneStates& lanes, const Model& model, std::int64_t batch)
      : lanes_(lanes), model_(model), batch_(batch) {}

  /// What the ticket begins with, in tensors of its own: the state that ticket - lanes left, and
  /// zeros in the rows that are `fresh`, [B] of bool.
  /// Throws std::logic_error where a row has a past and its state is not there.
  Model::State read(std::int64_t ticket, const at::Tensor& fresh) const;

  /// Leaves what the ticket ended with; nullptr: zeros, for one that is rejected.
  void write(std::int64_t ticket, const Model::State* state) const noexcept;

 private:
  shm::LaneStates lanes_;
  const Model& model_;
  std::int64_t batch_;
};

}  // namespace passel::train
