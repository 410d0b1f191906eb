#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace passel::shm {

/// Last words of a worker: 4 KiB of the arena per slot, written by that worker alone and read by
/// the parent after its death. Value-initialised = nothing was said.
struct CrashRecord {
  std::atomic<std::uint32_t> valid;    ///< stored last
  std::atomic<std::uint32_t> claimed;  ///< the first thread to crash writes, the others do not
  std::uint32_t length;
  std::uint32_t reserved;
  std::array<char, 4080> text;
};
static_assert(sizeof(CrashRecord) == 4096);

/// Forgets what was said. The parent calls it before a spawn.
void clear(CrashRecord& record) noexcept;

/// Keeps the first message and cuts it to what fits. Async-signal-safe.
void write_exception(CrashRecord& record, std::string_view text) noexcept;

/// The message, or an empty string. Whatever a worker scribbled, the result is at most 4 KiB.
[[nodiscard]] std::string read(const CrashRecord& record);

/// From now on std::terminate (an exception that left a thread, with its what()) and SIGSEGV,
/// SIGBUS, SIGFPE, SIGILL and SIGABRT leave a message in `record`; the process then dies as it
/// would have without, so that the parent sees the true signal. The calling thread gets a signal
/// stack of its own, so that its stack overflow is reported too; other threads handle on theirs.
/// Once per process.
void install_crash_handlers(CrashRecord* record);

}  // namespace passel::shm
