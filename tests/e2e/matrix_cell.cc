#include "matrix_cell.h"

#include <signal.h>

#include <atomic>
#include <functional>
#include <random>
#include <thread>

#include "data/temporary_folder.h"
#include "passel_program.h"

namespace passel::testing {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kKillPause{200};
// From one kill to the next: else a single worker, which takes longer than the pause to start,
// would never get anywhere.
constexpr std::int64_t kTicketsBetweenKills = 80;
constexpr std::int64_t kTicketsBeforeKills = 20;
constexpr std::chrono::seconds kStopTime{1};
constexpr std::chrono::seconds kLimit{300};

std::int64_t done_tickets(const std::filesystem::path& run) {
  std::int64_t done = 0;
  for (const auto& event : events(run, "train")) {
    done = std::max(done, event.at("ticket").get<std::int64_t>());
  }
  return done;
}

// Sends signals to the workers of a program for as long as it lives.
class Disturber {
 public:
  /// @param begin tickets that were done before the program
  Disturber(const PasselProgram& program, std::filesystem::path run, Disturbance kind,
            std::uint64_t seed, std::int64_t begin, std::int64_t tickets)
      : program_(program), run_(std::move(run)), random_(seed) {
    if (kind == Disturbance::kKills) thread_ = std::thread([this, begin] { kill_often(begin); });
    if (kind != Disturbance::kStop) return;
    const std::int64_t latest = std::max<std::int64_t>(1, (tickets - begin) / 4);
    const std::int64_t when =
        begin + std::uniform_int_distribution<std::int64_t>(1, latest)(random_);
    thread_ = std::thread([this, when] { stop_once(when); });
  }

  /// How many workers were reached so far.
  int reached() const { return reached_; }
  ~Disturber() {
    over_ = true;
    if (thread_.joinable()) thread_.join();
  }
  Disturber(const Disturber&) = delete;
  Disturber& operator=(const Disturber&) = delete;

 private:
  // False: the program has ended.
  bool wait_until(Clock::time_point time, std::int64_t ticket) const {
    eventually([&] { return over_ || (Clock::now() >= time && done_tickets(run_) >= ticket); },
               kLimit);
    return !over_;
  }

  pid_t signal_any(int signo) {
    const auto workers = program_.workers();
    if (workers.empty()) return 0;
    const pid_t pid = workers[random_() % workers.size()];
    if (kill(pid, signo) != 0) return 0;
    ++reached_;
    return pid;
  }

  void kill_often(std::int64_t begin) {
    auto time = Clock::now();
    std::int64_t next = begin + kTicketsBeforeKills;
    while (wait_until(time, next)) {
      next = done_tickets(run_) + kTicketsBetweenKills;
      signal_any(SIGKILL);
      time = Clock::now() + kKillPause;
    }
  }

  void stop_once(std::int64_t ticket) {
    if (!wait_until(Clock::now(), ticket)) return;
    const pid_t pid = signal_any(SIGSTOP);
    if (pid == 0) return;
    eventually([&] { return over_.load(); }, kStopTime);
    kill(pid, SIGCONT);
  }

  const PasselProgram& program_;
  std::filesystem::path run_;
  std::mt19937_64 random_;
  std::atomic<bool> over_ = false;
  std::atomic<int> reached_ = 0;
  std::thread thread_;
};

class CellRun {
 public:
  CellRun(const Job& job, const Cell& cell)
      : job_(job), cell_(cell), random_(job.seed ^ std::hash<std::string>()(cell.name())) {}

  Trial run() {
    std::vector<std::string> train = job_.train;
    for (const auto& word : {std::string("--out"), run_.string(), std::string("--workers"),
                             std::to_string(cell_.workers)}) {
      train.push_back(word);
    }
    // A stop that came when all was done would be none.
    const std::int64_t last = job_.tickets * 2 / 3;
    const std::int64_t stop =
        cell_.resumed ? std::uniform_int_distribution<std::int64_t>(1, last)(random_) : 0;
    const bool disturb_second = cell_.resumed && cell_.disturbance == Disturbance::kStop &&
                                std::bernoulli_distribution()(random_);
    if (!part(train, stop, !disturb_second)) return std::move(trial_);
    if (!cell_.resumed) return conclude();
    const int others = cell_.workers % 4 + 1;
    const bool again = cell_.disturbance == Disturbance::kKills || disturb_second;
    if (!part({"resume", run_.string(), "--workers", std::to_string(others)}, 0, again)) {
      return std::move(trial_);
    }
    return conclude();
  }

 private:
  // stop: ticket at which it gets SIGTERM; 0: none. False: it failed.
  bool part(const std::vector<std::string>& arguments, std::int64_t stop, bool disturb) {
    trial_.story += "  passel";
    for (const std::string& word : arguments) trial_.story += " " + word;
    trial_.story += "\n";
    const std::int64_t begin = done_tickets(run_);
    PasselProgram program(arguments, folder_ / "text");
    const Disturbance kind = disturb ? cell_.disturbance : Disturbance::kNone;
    const Disturber disturber(program, run_, kind, random_(), begin, job_.tickets);
    if (stop > 0) {
      // Where a worker is to stand still, the signal may well come meanwhile, but not before.
      eventually(
          [&] {
            return done_tickets(run_) >= stop &&
                   (kind != Disturbance::kStop || disturber.reached() > 0);
          },
          kLimit);
      program.signal(SIGTERM);
    }
    const Finished finished = program.wait(kLimit);
    trial_.disturbed += disturber.reached();
    if (stop > 0) {
      trial_.story += "  SIGTERM from ticket " + std::to_string(stop) + " on; it stopped at " +
                      std::to_string(done_tickets(run_)) + "\n";
    }
    const int expected = stop > 0 ? 128 + SIGTERM : 0;
    if (finished.code == expected) return true;
    trial_.story += "  exit code " + std::to_string(finished.code) + " instead of " +
                    std::to_string(expected) + ". It said:\n" + finished.text;
    return false;
  }

  Trial conclude() {
    const auto summaries = events(run_, "summary");
    if (summaries.empty() || summaries.back().at("tickets") != job_.tickets) {
      trial_.story += "  no summary of all its tickets\n";
    } else {
      trial_.hash = summaries.back().at("param_hash");
    }
    return std::move(trial_);
  }

  const Job& job_;
  const Cell& cell_;
  std::mt19937_64 random_;
  TemporaryFolder folder_;
  std::filesystem::path run_ = folder_ / "run";
  Trial trial_;
};

}  // namespace

std::string Cell::name() const {
  const char* const disturbed = disturbance == Disturbance::kNone    ? "undisturbed"
                                : disturbance == Disturbance::kKills ? "killed"
                                                                     : "stopped";
  return std::to_string(workers) + "-workers-" + (loaded ? "loaded-" : "idle-") + disturbed +
         (resumed ? "-resumed-" : "-straight-") + std::to_string(repeat);
}

std::vector<Cell> all_cells(int repeats) {
  std::vector<Cell> cells;
  for (const int workers : {1, 2, 3, 4}) {
    for (const bool loaded : {false, true}) {
      for (const auto disturbance : {Disturbance::kNone, Disturbance::kKills, Disturbance::kStop}) {
        for (const bool resumed : {false, true}) {
          for (int repeat = 0; repeat < repeats; ++repeat) {
            cells.push_back({workers, repeat, loaded, disturbance, resumed});
          }
        }
      }
    }
  }
  return cells;
}

Trial run_cell(const Job& job, const Cell& cell) {
  return CellRun(job, cell).run();
}

}  // namespace passel::testing
