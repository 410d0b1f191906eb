#pragma once

#include <cstdint>
#include <filesystem>

namespace passel::shm {

/// How many bytes this process can still take before the machine or its memory cgroup (version 2
/// or 1, every level up to the root) runs out: the smallest of MemAvailable and limit - usage,
/// where page cache that the kernel can drop does not count as used. Beyond it the kernel kills
/// processes instead of failing a call, so this is asked first.
/// @param proc, cgroup where these file systems are mounted
[[nodiscard]] std::uint64_t available_memory(
    const std::filesystem::path& proc = "/proc",
    const std::filesystem::path& cgroup = "/sys/fs/cgroup");

}  // namespace passel::shm
