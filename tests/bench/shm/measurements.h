#pragma once

#include <chrono>
#include <cstdint>

namespace bench {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Each measures for about `seconds` in processes that it spawns, and returns the figure in the
/// unit of its name.

/// Plain records of `bytes` (64 or 128) through a SimpleQueue from so many processes to this one.
double messages_per_second(std::uint32_t bytes, std::uint32_t producers, double seconds);
/// Records of 64 bytes through boost::interprocess::message_queue, one process to this one.
double boost_messages_per_second(double seconds);

/// Tensors float[100] through a TensorQueue to a worker, which rebuilds and drops them.
/// @param lent in the region, whose chunks are counted; otherwise from Shared::share()
double tensor_handles_per_second(bool lent, double seconds);

/// A record of 64 bytes to a worker and back.
/// @param spins looks before a wait sleeps
double round_trip_microseconds(int spins, double seconds);

/// float[bytes / 4] batches: a worker fills buffers of its region, this process sums them.
double handover_gigabytes_per_second(std::int64_t bytes, double seconds);
/// The same filling and summing in this process alone, with one buffer.
double local_gigabytes_per_second(std::int64_t bytes, double seconds);

/// From the call of spawn() to the arrival of what the worker's first tensor operation made.
/// @param gigabytes of touched anonymous memory that this process has meanwhile
double spawn_seconds(std::size_t gigabytes);
/// From the SIGKILL of a worker to the arrival of the same from its successor.
double respawn_seconds();

}  // namespace bench
