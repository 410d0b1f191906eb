#pragma once

#include <array>
#include <cstdint>

namespace passel::shm {

using BuildId = std::array<std::uint8_t, 32>;

/// Tells builds of the running program apart: the linker's build id, or where it wrote none, the
/// identity of the executable file.
BuildId build_id();

}  // namespace passel::shm
