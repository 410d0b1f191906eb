#pragma once

#include <cstddef>

namespace bench {

/// Bytes a second that one thread reads from an array of so many bytes, again and again: the
/// bandwidth of the cache that it fits in, or of the memory.
double read_bandwidth(std::size_t bytes);

}  // namespace bench
