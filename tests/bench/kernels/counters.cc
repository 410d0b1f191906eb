#include "counters.h"

#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace bench {
namespace {

int open_counter(std::uint64_t what, int leader) {
  perf_event_attr attributes{};
  attributes.size = sizeof(attributes);
  attributes.type = PERF_TYPE_HARDWARE;
  attributes.config = what;
  attributes.exclude_kernel = 1;
  attributes.exclude_hv = 1;
  attributes.read_format = PERF_FORMAT_GROUP;
  constexpr int kThisThread = 0, kAnyCpu = -1;
  return static_cast<int>(syscall(SYS_perf_event_open, &attributes, kThisThread, kAnyCpu, leader,
                                  PERF_FLAG_FD_CLOEXEC));
}

}  // namespace

Counters::Counters() {
  cycles_ = open_counter(PERF_COUNT_HW_CPU_CYCLES, -1);
  if (cycles_ >= 0) instructions_ = open_counter(PERF_COUNT_HW_INSTRUCTIONS, cycles_);
  if (cycles_ < 0 || instructions_ < 0) {
    missing_ = "perf_event_open: " + std::generic_category().message(errno);
  }
}

Counters::~Counters() {
  if (instructions_ >= 0) close(instructions_);
  if (cycles_ >= 0) close(cycles_);
}

std::optional<Counters::Values> Counters::read() const {
  if (!missing_.empty()) return std::nullopt;
  struct {
    std::uint64_t count;
    Values values;
  } group{};
  if (::read(cycles_, &group, sizeof(group)) != sizeof(group)) return std::nullopt;
  return group.values;
}

}  // namespace bench
