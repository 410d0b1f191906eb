#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace passel::train {

/// The GPUs that --device names, by their numbers among CUDA_VISIBLE_DEVICES: none for "cpu", the
/// first for "cuda", those listed for "cuda:0" or "cuda:0,2". Empty for any other text, and where
/// one is named twice.
std::optional<std::vector<int>> device_list(std::string_view device);

}  // namespace passel::train
