#include "passel/shm/supervisor.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <deque>
#include <future>
#include <mutex>
#include <span>
#include <thread>

#include "file_descriptor.h"
#include "passel/shm/crash_record.h"
#include "passel/shm/error.h"
#include "passel/shm/fork_guard.h"
#include "passel/shm/process.h"
#include "passel/shm/start_thread.h"
#include "passel/shm/worker.h"

namespace passel::shm {
namespace {

// What epoll hands back: one of these, or slot and incarnation of a worker. The incarnation,
// because an event of a former process must not be taken for one of its successor.
constexpr std::uint64_t kCommands = ~0ULL;
constexpr std::uint64_t kSignals = kCommands - 1;

std::uint64_t worker_tag(std::uint32_t slot, std::uint32_t incarnation) {
  return std::uint64_t{slot} << 32 | incarnation;
}

sigset_t stop_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&set, number);
  return set;
}

FileDescriptor checked(int fd, const char* what) {
  if (fd < 0) throw Error(what, errno);
  return FileDescriptor(fd);
}

void send_signal(int pidfd, int signo) {
  ::syscall(SYS_pidfd_send_signal, pidfd, signo, nullptr, 0);
}

/// What a worker has started and not taken out of its process group ends with it. The worker is
/// dead but not yet reaped, so that its number is still its own.
void end_group(int pidfd, pid_t leader) {
  siginfo_t info{};
  const int rc = ::waitid(P_PIDFD, static_cast<id_t>(pidfd), &info, WEXITED | WNOHANG | WNOWAIT);
  if (rc == 0 && info.si_pid == leader) ::kill(-leader, SIGKILL);
}

/// Fills in how the process ended; false while it has not.
bool take_exit(int pidfd, int flags, WorkerExit& result) {
  siginfo_t info{};
  int rc = 0;
  do {
    rc = ::waitid(P_PIDFD, static_cast<id_t>(pidfd), &info, WEXITED | flags);
  } while (rc != 0 && errno == EINTR);
  if (rc != 0) {
    result.kind = WorkerExit::Kind::kExited;
    result.code = -1;
    result.text = "its exit status was lost: something else in this program waits for any child";
    return true;
  }
  if (info.si_pid == 0) return false;
  result.kind =
      info.si_code == CLD_EXITED ? WorkerExit::Kind::kExited : WorkerExit::Kind::kSignalled;
  result.code = info.si_status;
  return true;
}

}  // namespace

struct Supervisor::State {
  enum class Phase : std::uint8_t { kEmpty, kRunning, kExited };  ///< kExited: not yet polled
  struct Slot {
    Phase phase = Phase::kEmpty;
    std::uint32_t incarnation = 0;
    pid_t pid = 0;
    FileDescriptor pidfd;
  };
  /// The parts of an Error. The exception itself stays on its thread: its reference count is in
  /// the C++ runtime, where ThreadSanitizer cannot see that it orders anything.
  struct Failure {
    std::string operation;
    int code;
    std::string hint;
  };
  using Outcome = std::variant<std::uint32_t, Failure>;  ///< incarnation, or why there is none
  struct Command {
    std::uint32_t slot;
    SpawnOptions options;
    std::promise<Outcome> result;
  };

  State(Arena& shared, Options given);
  ~State();

  void watch(int fd, std::uint64_t tag) const;
  void wake_thread() const;
  void run();
  bool run_commands();
  std::uint32_t start(const Command& command);
  void read_signals();
  void reap(std::uint32_t slot, std::uint32_t incarnation);
  void publish(Event event);
  void end_all();

  Arena& arena;
  const Options options;
  const std::span<CrashRecord> records;
  const FileDescriptor epoll;
  const FileDescriptor bell;
  const FileDescriptor signals;
  std::atomic<std::size_t> pending{0};

  std::mutex mutex;  ///< private to this process; guards all below
  std::vector<Slot> slots;
  std::deque<Event> events;
  std::deque<Command> commands;
  bool stopping = false;

  std::thread thread;
};

Supervisor::State::State(Arena& shared, Options given)
    : arena(shared),
      options(std::move(given)),
      records(shared.construct_array<CrashRecord>(kCrashRecords, options.slots)),
      epoll(checked(::epoll_create1(EPOLL_CLOEXEC), "create the supervisor's epoll")),
      bell(checked(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "create the supervisor's eventfd")),
      signals([] {
        const sigset_t set = stop_signals();
        return checked(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK),
                       "create the supervisor's signalfd");
      }()),
      slots(options.slots) {
  watch(bell.get(), kCommands);
  watch(signals.get(), kSignals);
  thread = start_thread("start the supervisor's thread", [this] { run(); });
}

Supervisor::State::~State() {
  {
    const std::lock_guard lock(mutex);
    stopping = true;
  }
  wake_thread();
  thread.join();
}

void Supervisor::State::watch(int fd, std::uint64_t tag) const {
  epoll_event event{.events = EPOLLIN, .data = {.u64 = tag}};
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    throw Error("watch a descriptor in the supervisor", errno);
  }
}

void Supervisor::State::wake_thread() const {
  ::eventfd_write(bell.get(), 1);
}

void Supervisor::State::run() {
  std::array<epoll_event, 16> ready;
  for (;;) {
    const int count = ::epoll_wait(epoll.get(), ready.data(), ready.size(), -1);
    for (int i = 0; i < count; ++i) {
      const std::uint64_t tag = ready[i].data.u64;
      if (tag == kCommands) {
        if (!run_commands()) return end_all();
      } else if (tag == kSignals) {
        read_signals();
      } else {
        reap(static_cast<std::uint32_t>(tag >> 32), static_cast<std::uint32_t>(tag));
      }
    }
  }
}

/// False when it is time to end.
bool Supervisor::State::run_commands() {
  eventfd_t count = 0;
  ::eventfd_read(bell.get(), &count);
  for (;;) {
    std::unique_lock lock(mutex);
    if (stopping) return false;
    if (commands.empty()) return true;
    Command command = std::move(commands.front());
    commands.pop_front();
    lock.unlock();
    try {
      command.result.set_value(start(command));
    } catch (const Error& error) {
      command.result.set_value(Failure{error.operation(), error.code(), error.hint()});
    } catch (...) {
      command.result.set_exception(std::current_exception());
    }
  }
}

std::uint32_t Supervisor::State::start(const Command& command) {
  SpawnRequest request{.entry = options.entry,
                       .slot = command.slot,
                       .incarnation = 0,
                       .arena_fd = arena.fd(),
                       .output = command.options.output,
                       .environment = options.environment};
  request.environment.insert(request.environment.end(), command.options.environment.begin(),
                             command.options.environment.end());
  {
    const std::lock_guard lock(mutex);
    const Slot& slot = slots[command.slot];
    if (slot.phase != Phase::kEmpty) {
      throw Error("spawn worker " + std::to_string(command.slot), 0,
                  slot.phase == Phase::kRunning
                      ? "The slot is in use: wait for its WorkerExit first"
                      : "The last worker of the slot is dead, but its WorkerExit was not polled");
    }
    request.incarnation = slot.incarnation + 1;
  }
  clear(records[command.slot]);
  const Process process = spawn_process(request);
  FileDescriptor pidfd(process.pidfd);
  try {
    watch(pidfd.get(), worker_tag(command.slot, request.incarnation));
  } catch (...) {
    WorkerExit ignored{};
    send_signal(pidfd.get(), SIGKILL);
    take_exit(pidfd.get(), 0, ignored);
    throw;
  }
  const std::lock_guard lock(mutex);
  slots[command.slot] = {Phase::kRunning, request.incarnation, process.pid, std::move(pidfd)};
  return request.incarnation;
}

void Supervisor::State::read_signals() {
  signalfd_siginfo info;
  while (::read(signals.get(), &info, sizeof(info)) == sizeof(info)) {
    publish(Signal{static_cast<int>(info.ssi_signo)});
  }
}

void Supervisor::State::reap(std::uint32_t index, std::uint32_t incarnation) {
  {
    const std::lock_guard lock(mutex);
    Slot& slot = slots[index];
    if (slot.phase != Phase::kRunning || slot.incarnation != incarnation) return;
    WorkerExit exit{.slot = index,
                    .incarnation = incarnation,
                    .pid = slot.pid,
                    .kind = WorkerExit::Kind::kExited,
                    .code = 0,
                    .text = {}};
    end_group(slot.pidfd.get(), slot.pid);
    if (!take_exit(slot.pidfd.get(), WNOHANG, exit)) return;
    if (exit.text.empty()) exit.text = read(records[index]);
    // Before the close: a child that is just being spawned may still hold a copy of the pidfd,
    // and then the close alone does not end the watch.
    ::epoll_ctl(epoll.get(), EPOLL_CTL_DEL, slot.pidfd.get(), nullptr);
    slot.pidfd.reset();
    slot.pid = 0;
    slot.phase = Phase::kExited;
    events.emplace_back(std::move(exit));
    pending.fetch_add(1);
  }
  if (options.on_event) options.on_event();
}

void Supervisor::State::publish(Event event) {
  {
    const std::lock_guard lock(mutex);
    events.push_back(std::move(event));
    pending.fetch_add(1);
  }
  if (options.on_event) options.on_event();
}

void Supervisor::State::end_all() {
  const std::lock_guard lock(mutex);
  for (const Slot& slot : slots) {
    if (slot.phase == Phase::kRunning) ::kill(-slot.pid, SIGKILL);
  }
  for (Slot& slot : slots) {
    WorkerExit ignored{};
    if (slot.phase == Phase::kRunning) take_exit(slot.pidfd.get(), 0, ignored);
    slot.phase = Phase::kEmpty;
  }
}

Supervisor::Supervisor(Arena& arena, Options options)
    : state_(std::make_unique<State>(arena, std::move(options))) {}

Supervisor::~Supervisor() {
  if (!forked()) return;
  // Its thread and its workers are those of another process.
  [[maybe_unused]] static State* left_alone = nullptr;
  left_alone = state_.release();
}

std::uint32_t Supervisor::spawn(std::uint32_t slot, const SpawnOptions& options) {
  throw_if_forked();
  if (!initialised()) {
    throw Error("spawn worker " + std::to_string(slot), 0,
                "Call passel::init(argc, argv) first in main: a worker is this program again, and "
                "would spawn again");
  }
  if (slot >= slots()) {
    throw Error("spawn worker " + std::to_string(slot), 0,
                "The supervisor has " + std::to_string(slots()) + " slots, counted from 0");
  }
  state_->arena.freeze();
  std::future<State::Outcome> result;
  {
    const std::lock_guard lock(state_->mutex);
    State::Command command{slot, options, {}};
    result = command.result.get_future();
    state_->commands.push_back(std::move(command));
  }
  state_->wake_thread();
  const State::Outcome outcome = result.get();
  if (const auto* failure = std::get_if<State::Failure>(&outcome)) {
    throw Error(failure->operation, failure->code, failure->hint);
  }
  return std::get<std::uint32_t>(outcome);
}

bool Supervisor::kill(std::uint32_t slot, int signo) {
  throw_if_forked();
  const std::lock_guard lock(state_->mutex);
  if (slot >= slots() || state_->slots[slot].phase != State::Phase::kRunning) return false;
  send_signal(state_->slots[slot].pidfd.get(), signo);
  return true;
}

std::optional<Event> Supervisor::poll() {
  throw_if_forked();
  const std::lock_guard lock(state_->mutex);
  if (state_->events.empty()) return std::nullopt;
  Event event = std::move(state_->events.front());
  state_->events.pop_front();
  state_->pending.fetch_sub(1);
  if (const auto* exit = std::get_if<WorkerExit>(&event)) {
    state_->slots[exit->slot].phase = State::Phase::kEmpty;
  }
  return event;
}

bool Supervisor::pending() const noexcept {
  return state_->pending.load() != 0;
}

bool Supervisor::alive(std::uint32_t slot) const {
  return pid(slot) != 0;
}

pid_t Supervisor::pid(std::uint32_t slot) const {
  throw_if_forked();
  const std::lock_guard lock(state_->mutex);
  return slot < slots() ? state_->slots[slot].pid : 0;
}

std::uint32_t Supervisor::slots() const noexcept {
  return state_->options.slots;
}

}  // namespace passel::shm
