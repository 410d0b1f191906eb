#include "passel/train/carried_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <stdexcept>

namespace passel::train {
namespace {

void zero_rows(at::Tensor& tensor, std::span<const bool> rows) {
  const std::int64_t width = tensor.size(2);
  auto* const values = tensor.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < tensor.size(0) * tensor.size(1); ++i) {
    if (rows[static_cast<std::size_t>(i % tensor.size(1))]) {
      std::fill_n(values + i * width, width, 0.0F);
    }
  }
}

}  // namespace

void begin_anew(Model::State& state, std::span<const bool> rows) {
  zero_rows(state.h, rows);
  zero_rows(state.c, rows);
}

std::size_t state_floats(const Model& model, std::int64_t batch) {
  return 2 * static_cast<std::size_t>(model.initial_state(batch).h.numel());
}

Model::State CarriedState::read(std::int64_t ticket, const at::Tensor& fresh) const {
  Model::State state = model_.initial_state(batch_);
  const std::span<const bool> rows(fresh.const_data_ptr<bool>(), fresh.numel());
  if (std::ranges::all_of(rows, std::identity())) return state;
  const std::span<const float> left = lanes_.find(ticket - lanes_.lanes());
  if (left.empty()) {
    throw std::logic_error(
        fmt::format("ticket {} was begun before the state of ticket {} was there", ticket,
                    ticket - lanes_.lanes()));
  }
  const auto half = static_cast<std::size_t>(state.h.numel());
  std::ranges::copy(left.first(half), state.h.mutable_data_ptr<float>());
  std::ranges::copy(left.last(half), state.c.mutable_data_ptr<float>());
  begin_anew(state, rows);
  return state;
}

void CarriedState::write(std::int64_t ticket, const Model::State* state) const noexcept {
  lanes_.leave(ticket, [&](std::span<float> place) {
    if (state == nullptr) {
      std::ranges::fill(place, 0.0F);
      return;
    }
    const std::size_t half = place.size() / 2;
    std::copy_n(state->h.const_data_ptr<float>(), half, place.begin());
    std::copy_n(state->c.const_data_ptr<float>(), half, place.begin() + half);
  });
}

}  // namespace passel::train
