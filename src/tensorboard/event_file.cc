#include "passel/tensorboard/event_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <climits>
#include <cstring>
#include <exception>
#include <string_view>
#include <system_error>
#include <utility>

#include "event.pb.h"
#include "passel/tensorboard/tf_record.h"

namespace passel::tensorboard {
namespace {

constexpr std::string_view kPrefix = "events.out.tfevents.";
constexpr std::int64_t kLastSecond = 9'999'999'999;  // the last one of ten digits

double unix_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

// TensorBoard reads the files of a folder in the order of their names and never
// goes back to one it has left. So a new file takes a later second than all that
// are there, even if it was made within the same one or the clock was set back.
std::string next_name(const std::filesystem::path& folder) {
  auto second = static_cast<std::int64_t>(unix_time());
  int before = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    ++before;
    std::int64_t taken = 0;
    std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), taken);
    if (taken < kLastSecond) second = std::max(second, taken + 1);
  }
  return std::string(kPrefix) + std::to_string(second) + "." + host_name() + "." +
         std::to_string(getpid()) + "." + std::to_string(before);
}

}  // namespace

EventFile::EventFile(const std::filesystem::path& folder, std::optional<std::int64_t> resumed_at)
    : path_(folder / next_name(folder)),
      fd_(open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666)) {
  if (fd_ < 0) {
    throw std::system_error(errno, std::generic_category(),
                            path_.string() + ": expected a file that can be made");
  }
  write(0, [](wire::Event& event) { event.set_file_version("brain.Event:2"); });
  if (resumed_at) {
    write(*resumed_at + 1, [](wire::Event& event) {
      event.mutable_session_log()->set_status(wire::SessionLog::START);
    });
  }
}

EventFile::~EventFile() {
  close(fd_);
}

void EventFile::scalars(std::int64_t step, std::initializer_list<Scalar> points) noexcept {
  write(step, [&](wire::Event& event) {
    for (const Scalar& point : points) {
      auto& value = *event.mutable_summary()->add_value();
      value.set_tag(point.tag);
      value.set_simple_value(static_cast<float>(point.value));
    }
  });
}

template <typename Fill>
void EventFile::write(std::int64_t step, Fill fill) noexcept {
  try {
    wire::Event event;
    event.set_wall_time(unix_time());
    event.set_step(step);
    fill(event);
    append(tf_record(event.SerializeAsString()));
  } catch (const std::exception& failure) {
    fail(failure.what());
  }
}

void EventFile::append(const std::string& record) {
  ssize_t written = 0;
  do {
    written = ::write(fd_, record.data(), record.size());
  } while (written < 0 && errno == EINTR);
  if (written == static_cast<ssize_t>(record.size())) {
    size_ += written;
    return;
  }
  fail(written < 0 ? std::strerror(errno) : "no space for a whole record");
  // TensorBoard stops at a torn record for good, so it must go.
  if (written > 0 && ::ftruncate(fd_, size_) != 0) size_ += written;
}

void EventFile::fail(const char* reason) {
  if (failed_) return;
  failed_ = true;
  error_ = path_.string() + ": points were lost: " + reason +
           ". Training goes on; later points may be lost too.";
}

std::optional<std::string> EventFile::take_error() {
  return std::exchange(error_, std::nullopt);
}

}  // namespace passel::tensorboard
