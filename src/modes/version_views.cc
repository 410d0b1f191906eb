#include "passel/train/version_views.h"

#include <cstring>

namespace passel::train {

VersionViews::VersionViews(const TrainingMemory& memory, const Model& model) : model_(model) {
  for (const std::span<float> version : memory.versions) {
    auto& views = views_.emplace_back();
    for (std::size_t i = 0; i < memory.parameters.spans().size(); ++i) {
      views.push_back(memory.parameters.view(version, i));
    }
  }
}

void VersionViews::bind(std::int64_t version) const {
  const auto& views = views_[static_cast<std::size_t>(version) % views_.size()];
  for (std::size_t i = 0; i < views.size(); ++i) model_.parameters()[i].second.set_data(views[i]);
}

void write_gradients(std::span<const at::Tensor> gradients,
                     std::span<const shm::ParameterSpan> spans, std::span<float> block) noexcept {
  for (std::size_t i = 0; i < spans.size(); ++i) {
    std::memcpy(block.data() + spans[i].begin, gradients[i].const_data_ptr<float>(),
                spans[i].count * sizeof(float));
  }
}

}  // namespace passel::train
