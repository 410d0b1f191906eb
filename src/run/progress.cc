#include "passel/train/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <utility>

namespace passel::train {
namespace {

constexpr double kLongestTime = 1e9;

constexpr std::size_t kUsualWidth = 80;

constexpr std::string_view kClearLine = "\r\x1b[K";
constexpr std::string_view kBold = "\x1b[1m";
constexpr std::string_view kYellow = "\x1b[33m";
constexpr std::string_view kPlain = "\x1b[0m";

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

std::size_t terminal_width(int fd) {
  winsize size{};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsualWidth;
}

bool wants_colour() {
  const char* const value = std::getenv("NO_COLOR");
  return value == nullptr || *value == '\0';
}

// Texts of workers may hold anything; only line breaks are kept.
std::string printable(std::string_view text) {
  std::string clean(text);
  std::ranges::replace_if(
      clean, [](unsigned char c) { return (c < 0x20 && c != '\n') || c == 0x7f; }, ' ');
  return clean;
}

std::string duration(double seconds) {
  if (!(seconds >= 0 && seconds < kLongestTime)) return "?";
  const auto whole = static_cast<std::int64_t>(std::lround(seconds));
  const auto hours = whole / 3600;
  const auto minutes = whole / 60 % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60)
                   : fmt::format("{}:{:02}", minutes, whole % 60);
}

std::string rate(double samples_per_second) {
  if (samples_per_second >= 1e6) return fmt::format("{:.2f}M", samples_per_second / 1e6);
  if (samples_per_second >= 1e3) return fmt::format("{:.1f}k", samples_per_second / 1e3);
  return fmt::format("{:.0f}", samples_per_second);
}

std::string counted(std::int64_t number, std::string_view thing) {
  return fmt::format("{} {}{}", number, thing, number == 1 ? "" : "s");
}

std::string status_line(const ProgressState& state) {
  std::string text;
  if (state.total > 0) {
    text = fmt::format("{:3}%  ticket {}/{}", state.ticket * 100 / state.total, state.ticket,
                       state.total);
  } else {
    text = fmt::format("ticket {}", state.ticket);
  }
  return text + fmt::format(
                    "  epoch {}  loss {:.4f}  {} samples/s  lr {:g}  {}  staleness {:.1f}  "
                    "{}<{}",
                    state.epoch, state.loss, rate(state.samples_per_second), state.lr,
                    counted(state.workers_alive, "worker"), state.staleness_mean,
                    duration(state.elapsed), duration(state.remaining));
}

std::string summary_text(const SummaryRecord& record) {
  std::string text = fmt::format("{}, {} in {}, {}, {}\n", counted(record.tickets, "ticket"),
                                 counted(record.samples, "sample"), duration(record.seconds),
                                 record.mode, counted(record.workers, "worker"));
  const auto row = [&](std::string_view name, const std::string& value) {
    text += fmt::format("  {:<14}{}\n", name, value);
  };
  if (record.test_accuracy) row("accuracy", fmt::format("{:.2f} %", *record.test_accuracy * 100));
  if (record.test_loss) row("test loss", fmt::format("{:.5g}", *record.test_loss));
  row("speed", rate(record.samples_per_second) + " samples/s");
  row("staleness",
      fmt::format("mean {:.2f}, max {}", record.staleness.mean(), record.staleness.max()));
  row("deaths", fmt::format("{}, {} redone", counted(record.respawns, "respawn"),
                            counted(record.redone, "ticket")));
  if (record.rejected > 0) row("rejected", counted(record.rejected, "gradient"));
  if (!record.param_hash.empty()) row("parameters", record.param_hash);
  if (!record.checkpoint.empty()) row("checkpoint", record.checkpoint.string());
  return text;
}

}  // namespace

Progress::Progress(int fd, bool tty, bool quiet)
    : fd_(fd), tty_(tty), colour_(tty && wants_colour()), quiet_(quiet) {}

Progress::~Progress() {
  if (!line_.empty()) write_all(fd_, kClearLine);
}

void Progress::update(const ProgressState& state) {
  if (quiet_) return;
  const std::lock_guard lock(mutex_);
  line_ = status_line(state);
  if (tty_) {
    draw();
  } else {
    write_all(fd_, std::exchange(line_, {}) + "\n");
  }
}

void Progress::note(std::string_view text) {
  if (!quiet_) print(printable(text));
}

void Progress::warn(std::string_view text) {
  const std::string clean = printable(text);
  print(colour_ ? fmt::format("{}{}{}", kYellow, clean, kPlain) : clean);
}

void Progress::summary(const SummaryRecord& record) {
  if (quiet_) return;
  const std::lock_guard lock(mutex_);
  if (!line_.empty()) write_all(fd_, kClearLine);
  line_.clear();
  write_all(fd_, printable(summary_text(record)));
}

void Progress::print(std::string_view text) {
  const std::lock_guard lock(mutex_);
  if (!line_.empty()) write_all(fd_, kClearLine);
  write_all(fd_, fmt::format("{}\n", text));
  if (!line_.empty()) draw();
}

// One column stays free: in the last one some terminals break the line.
void Progress::draw() {
  const std::string shown = line_.substr(0, terminal_width(fd_) - 1);
  const auto percent = colour_ ? std::min(shown.find('%') + 1, shown.size()) : 0;
  write_all(fd_, percent == 0 ? fmt::format("\r{}\x1b[K", shown)
                              : fmt::format("\r{}{}{}{}\x1b[K", kBold, shown.substr(0, percent),
                                            kPlain, shown.substr(percent)));
}

}  // namespace passel::train
