#include <fcntl.h>
#include <fmt/format.h>
#include <torch/headeronly/version.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <sstream>
#include <stdexcept>
#include <system_error>

#include "commands.h"
#include "complain.h"
#include "options.h"
#include "passel/kernels/isa.h"
#include "passel/shm/error.h"
#include "passel/shm/worker.h"
#include "passel/train/atomic_file.h"
#include "passel/train/coordinator.h"
#include "passel/train/errors.h"
#include "passel/train/torch_error.h"
#include "passel/train/worker.h"

namespace passel::train {
namespace {

enum ExitCode : int { kDone = 0, kFailed = 1, kUsage = 2, kData = 3 };

// shm::init() blocks them for the supervisor, which reads them during a run. Where there is none,
// they end the program at once.
void let_stop_signals_through() {
  sigset_t stops;
  sigemptyset(&stops);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&stops, number);
  pthread_sigmask(SIG_UNBLOCK, &stops, nullptr);
}

void check_instruction_set() {
  try {
    kernels::isa();
  } catch (const std::invalid_argument& error) {
    throw UsageError(error.what());
  }
}

int dispatch(const Command& command, const std::vector<std::string>& argv) {
  using Kind = Command::Kind;
  const bool trains = command.kind == Kind::kTrain || command.kind == Kind::kResume ||
                      command.kind == Kind::kVerify || command.kind == Kind::kReplay;
  if (!trains) {
    let_stop_signals_through();
  }
  switch (command.kind) {
    case Command::Kind::kTrain:
      return run_train(command, argv);
    case Command::Kind::kResume:
      return run_resume(command, argv);
    case Command::Kind::kVerify:
      return run_verify(command, argv);
    case Command::Kind::kReplay:
      return run_replay(command, argv);
    case Command::Kind::kEval:
      return run_eval(command);
    case Command::Kind::kInspect:
      return run_inspect(command);
    case Command::Kind::kExport:
      return run_export(command);
  }
  return kUsage;
}

int fail(int code, std::string_view what) {
  complain(what);
  return code;
}

// Started without stdin, stdout or stderr, the first files that are opened would
// take their numbers, and get what is meant for a person.
void open_standard_files() {
  int fd = 0;
  do {
    fd = open("/dev/null", O_RDWR);
  } while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd >= 0) close(fd);
}

// Nobody reads what is said about a pipe whose reader has gone on purpose (| head).
int fail_to_answer(int error_number) {
  if (error_number == EPIPE) return kFailed;
  return fail(kFailed, fmt::format("expected to write the answer to stdout, got: {}. Make room "
                                   "there, or send it elsewhere",
                                   std::strerror(error_number)));
}

// stdout is buffered: that an answer did not get out may show only here.
int flush_stdout(int code) {
  if (std::fflush(stdout) == 0 || code != kDone) return code;
  return fail_to_answer(errno);
}

int run(int argc, char** argv) {
  try {
    std::ostringstream answer;
    const auto parsed = parse(argc, argv, TORCH_VERSION, answer);
    if (const int* code = std::get_if<int>(&parsed)) {
      fmt::print("{}", answer.str());
      return *code;
    }
    check_instruction_set();
    return dispatch(std::get<Command>(parsed), {argv, argv + argc});
  } catch (const UsageError& error) {
    return fail(kUsage, error.what());
  } catch (const DataError& error) {
    return fail(kData, error.what());
  } catch (const Interrupted& interrupted) {
    return fail(128 + interrupted.signal, "stopped at once, without saving");
  } catch (const std::bad_alloc&) {
    return fail(kFailed, "out of memory. Lower --batch-size or --hidden-size");
  } catch (const c10::Error& error) {
    return fail(kFailed, what_torch_says(error));
  } catch (const std::system_error& error) {
    if (std::ferror(stdout) != 0) return fail_to_answer(error.code().value());
    return fail(kFailed, error.what());
  } catch (const std::exception& error) {
    return fail(kFailed, error.what());
  }
}

}  // namespace

}  // namespace passel::train

int main(int argc, char** argv) {
  passel::train::open_standard_files();
  // A closed pipe on stdout must not end a run.
  std::signal(SIGPIPE, SIG_IGN);
  // A file-size limit must be an error of the write that hits it, like a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  passel::shm::register_entry(passel::train::kWorkerEntry, passel::train::run_worker);
  passel::shm::init(argc, argv);
  return passel::train::flush_stdout(passel::train::run(argc, argv));
}
