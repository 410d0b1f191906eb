#include "passel/shm/worker.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>

#include "passel/shm/crash_record.h"
#include "passel/shm/error.h"
#include "passel/shm/supervisor.h"
#include "worker_arguments.h"

namespace passel::shm {
namespace {

constexpr const char* kMarker = "--passel-worker";
constexpr int kExitThrew = 70;     // EX_SOFTWARE
constexpr int kExitNotSetUp = 71;  // EX_OSERR

bool initialised_here = false;  // before any thread is started

struct Registration {
  Entry entry;
  const void* key;
};

std::map<std::string, Registration, std::less<>>& registry() {
  static std::map<std::string, Registration, std::less<>> entries;  // used before main
  return entries;
}

void die_with_parent(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // A parent that died before the line above sends no signal. Its pid, not 1: with a sub-reaper
  // orphans get another parent.
  if (::getppid() != parent) ::_exit(kExitNotSetUp);
}

/// Does not unwind further: the process ends here, with its last words on record and on stderr.
[[noreturn]] void fail(CrashRecord* record, const std::string& text, int status) {
  if (record != nullptr) write_exception(*record, text);
  std::fprintf(stderr, "worker failed: %s\n", text.c_str());
  std::fflush(nullptr);
  ::_exit(status);
}

/// Gives the context what a ProcessContext laid out, if the parent has one.
void find_run(WorkerContext& context) {
  if (!context.arena.contains(RunControl::kName)) return;
  context.control = context.arena.get<RunControl>(RunControl::kName);
  context.nprocs = context.control->nprocs;
  const auto results = context.arena.get_array<ResultRecord>(ResultRecord::kName);
  if (context.slot < results.size()) context.result = &results[context.slot];
}

void run_entry(const WorkerArguments& arguments, WorkerContext& context) {
  const auto found = registry().find(arguments.entry);
  if (found == registry().end()) {
    throw Error("start worker entry '" + arguments.entry + "'", 0,
                "No entry of this name is registered: use PASSEL_ENTRY at namespace scope");
  }
  try {
    found->second.entry(context);
  } catch (const Stopped&) {
    // An orderly end: the entry left a blocking call because the run is being stopped.
  }
}

[[noreturn]] void run_worker(const WorkerArguments& arguments) {
  die_with_parent(arguments.parent);
  const std::string title = arguments.entry.substr(0, 10) + "-" + std::to_string(arguments.slot);
  ::prctl(PR_SET_NAME, title.c_str());

  // Outside the block and never destroyed: the record of what went wrong lies in the arena, and
  // threads that the entry left running may still use it.
  std::optional<WorkerContext> context;
  CrashRecord* record = nullptr;
  try {
    context = WorkerContext{arguments.slot, arguments.incarnation, Arena::attach(kArenaFd)};
    find_run(*context);
    const auto records = context->arena.get_array<CrashRecord>(Supervisor::kCrashRecords);
    if (arguments.slot >= records.size()) {
      throw Error("start worker in slot " + std::to_string(arguments.slot), 0,
                  "The arena has " + std::to_string(records.size()) + " slots");
    }
    record = &records[arguments.slot];
    install_crash_handlers(record);
    run_entry(arguments, *context);
    std::exit(0);
  } catch (const std::exception& error) {
    fail(record, error.what(), record != nullptr ? kExitThrew : kExitNotSetUp);
  } catch (...) {
    fail(record, "an exception that is no std::exception", kExitThrew);
  }
}

void prepare_parent() {
  sigset_t stops;
  ::sigemptyset(&stops);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    // nohup starts us with SIGHUP ignored; blocked, it would be read all the same.
    struct sigaction inherited {};
    ::sigaction(number, nullptr, &inherited);
    if (number != SIGHUP || inherited.sa_handler != SIG_IGN) ::sigaddset(&stops, number);
  }
  ::pthread_sigmask(SIG_BLOCK, &stops, nullptr);

  struct sigaction child {};
  if (::sigaction(SIGCHLD, nullptr, &child) == 0 && child.sa_handler == SIG_IGN) {
    ::signal(SIGCHLD, SIG_DFL);
  }
}

}  // namespace

std::array<std::string, WorkerArguments::kCount> WorkerArguments::to_argv() const {
  return {"passel-worker",       kMarker, entry, std::to_string(slot), std::to_string(incarnation),
          std::to_string(parent)};
}

std::optional<WorkerArguments> WorkerArguments::from_argv(int argc, char** argv) {
  if (argc != kCount || std::string_view(argv[1]) != kMarker) return std::nullopt;
  const auto number = [](const char* text) { return std::strtoul(text, nullptr, 10); };
  return WorkerArguments{argv[2], static_cast<std::uint32_t>(number(argv[3])),
                         static_cast<std::uint32_t>(number(argv[4])),
                         static_cast<pid_t>(number(argv[5]))};
}

bool initialised() noexcept {
  return initialised_here;
}

void register_entry(std::string_view name, Entry entry, const void* key) {
  registry().insert_or_assign(std::string(name), Registration{std::move(entry), key});
}

std::string_view find_entry_name(const void* key) {
  for (const auto& [name, registration] : registry()) {
    if (key != nullptr && registration.key == key) return name;
  }
  return {};
}

std::vector<std::string> entry_names() {
  std::vector<std::string> names;
  for (const auto& [name, registration] : registry()) names.push_back(name);
  return names;
}

void init(int argc, char** argv) {
  initialised_here = true;
  if (const auto arguments = WorkerArguments::from_argv(argc, argv)) run_worker(*arguments);
  prepare_parent();
}

}  // namespace passel::shm
