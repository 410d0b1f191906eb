#include "passel/shm/crash_record.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>

namespace passel::shm {
namespace {

/// Handlers take no argument, so the record of the process is global.
CrashRecord* g_record = nullptr;

struct Fatal {
  int number;
  std::string_view name;
  bool has_address;
};
constexpr std::array<Fatal, 5> kFatal{{{SIGSEGV, "SIGSEGV", true},
                                       {SIGBUS, "SIGBUS", true},
                                       {SIGFPE, "SIGFPE", true},
                                       {SIGILL, "SIGILL", true},
                                       {SIGABRT, "SIGABRT", false}}};

/// Text in a fixed array, with nothing that is not async-signal-safe.
class SafeText {
 public:
  SafeText& add(std::string_view part) noexcept {
    const std::size_t n = std::min(part.size(), text_.size() - length_);
    std::memcpy(text_.data() + length_, part.data(), n);
    length_ += n;
    return *this;
  }
  SafeText& add_hex(std::uintptr_t value) noexcept {
    add("0x");
    for (int shift = 60; shift >= 0; shift -= 4) {
      const std::size_t digit = (value >> shift) & 15;
      if (digit != 0 || shift == 0 || started_)
        add(std::string_view("0123456789abcdef").substr(digit, 1));
      started_ = started_ || digit != 0;
    }
    return *this;
  }
  [[nodiscard]] std::string_view view() const noexcept { return {text_.data(), length_}; }

 private:
  std::array<char, 128> text_;
  std::size_t length_ = 0;
  bool started_ = false;
};

void handle_fatal(int number, siginfo_t* info, void*) {
  SafeText text;
  for (const Fatal& fatal : kFatal) {
    if (fatal.number != number) continue;
    text.add(fatal.name);
    // A signal that was sent (si_code <= 0) has a sender and no address.
    if (fatal.has_address && info->si_code > 0) {
      text.add(" at address ").add_hex(reinterpret_cast<std::uintptr_t>(info->si_addr));
    }
  }
  write_exception(*g_record, text.view());
  // SA_RESETHAND has restored the default action; it strikes when this handler returns.
  ::raise(number);
}

[[noreturn]] void handle_terminate() {
  if (const std::exception_ptr current = std::current_exception()) {
    try {
      std::rethrow_exception(current);
    } catch (const std::exception& error) {
      write_exception(*g_record, std::string("std::terminate after an exception: ") + error.what());
    } catch (...) {
      write_exception(*g_record, "std::terminate after an exception of unknown type");
    }
  }
  write_exception(*g_record, "std::terminate without an exception");
  std::abort();
}

void use_signal_stack() {
  // A stack overflow leaves no room for a handler on the stack that overflowed.
  static std::array<std::byte, 65536> memory;
  const stack_t stack{.ss_sp = memory.data(), .ss_flags = 0, .ss_size = memory.size()};
  ::sigaltstack(&stack, nullptr);
}

}  // namespace

void clear(CrashRecord& record) noexcept {
  record.valid.store(0);
  record.length = 0;
  record.claimed.store(0);
}

void write_exception(CrashRecord& record, std::string_view text) noexcept {
  if (record.claimed.exchange(1) != 0) return;
  const std::size_t length = std::min(text.size(), record.text.size());
  std::memcpy(record.text.data(), text.data(), length);
  record.length = static_cast<std::uint32_t>(length);
  record.valid.store(1);
}

std::string read(const CrashRecord& record) {
  if (record.valid.load() == 0) return {};
  return {record.text.data(), std::min<std::size_t>(record.length, record.text.size())};
}

void install_crash_handlers(CrashRecord* record) {
  g_record = record;
  use_signal_stack();
  for (const Fatal& fatal : kFatal) {
    struct sigaction action {};
    action.sa_sigaction = handle_fatal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESETHAND;
    ::sigemptyset(&action.sa_mask);
    ::sigaction(fatal.number, &action, nullptr);
  }
  std::set_terminate(handle_terminate);
}

}  // namespace passel::shm
