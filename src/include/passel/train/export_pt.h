#pragma once

#include <filesystem>
#include <vector>

#include "passel/shm_torch/shared_parameters.h"

namespace passel::train {

/// Writes the tensors as a plain dict {name: tensor} that Python reads with
/// torch.load(path, weights_only=True). Atomic: the file appears whole or not
/// at all. Throws FileError when it cannot be written.
void export_pt(const std::filesystem::path& path, const std::vector<shm::NamedTensor>& tensors);

}  // namespace passel::train
