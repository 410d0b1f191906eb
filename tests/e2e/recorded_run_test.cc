// Mode recorded: asynchronous in the order of arrival, and yet repeated bit by bit.
#include <signal.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <utility>

#include "passel/train/update_log.h"
#include "small_run.h"
#include "support/stress.h"

namespace passel::testing {
namespace {

class RecordedRun : public SmallRun {
 protected:
  std::vector<std::string> recorded(std::vector<std::string> more) const {
    more.insert(more.end(), {"--mode", "recorded", "--workers", "3"});
    return more;
  }

  void expect_replayed(const std::vector<std::string>& options = {}) const {
    for (const char* workers : {"1", "2"}) {
      std::vector<std::string> arguments = {"replay", run(), "--workers", workers};
      arguments.insert(arguments.end(), options.begin(), options.end());
      const Finished finished = run_passel(arguments);
      EXPECT_EQ(finished.code, 0) << finished.text;
      EXPECT_NE(finished.text.find("bit-identical"), std::string::npos) << finished.text;
    }
  }

  std::filesystem::path log() const { return run() / "updates.log"; }

  /// Changes one update in the record.
  template <class Change>
  void falsify(std::size_t index, Change&& change) const {
    std::fstream file(log(), std::ios::binary | std::ios::in | std::ios::out);
    const auto at = static_cast<std::streamoff>(16 * (index + 1));
    train::UpdateRecord record{};
    file.seekg(at).read(reinterpret_cast<char*>(&record), sizeof(record));
    change(record);
    file.seekp(at).write(reinterpret_cast<const char*>(&record), sizeof(record));
  }
};

TEST_F(RecordedRun, IsRepeatedBitByBitWithAnyNumberOfWorkers) {
  const Finished finished = run_passel(train(recorded({"--epochs", "20"})));
  ASSERT_EQ(finished.code, 0) << finished.text;
  EXPECT_EQ(summary().at("tickets"), 200);
  EXPECT_EQ(std::filesystem::file_size(log()), 16U * 201U) << "16 bytes an update";
  expect_replayed();
  expect_replayed({"--chaos"});
}

TEST_F(RecordedRun, WhoseWorkersWereKilledIsRepeatedAndHasEachTicketOnce) {
  const int wanted_kills = stress_size(4, 60);
  const std::int64_t tickets = 400 * wanted_kills;
  PasselProgram program(
      long_train(recorded({"--max-tickets", std::to_string(tickets), "--max-respawns", "100000"})),
      text_file());
  for (int kills = 0; kills < wanted_kills; ++kills) {
    ASSERT_TRUE(trained(20 + 80 * kills)) << program.text();
    const auto workers = program.workers();
    if (!workers.empty()) kill(workers[static_cast<std::size_t>(kills) % workers.size()], SIGKILL);
  }
  const Finished finished = program.wait(std::chrono::seconds(stress_size(100, 600)));
  ASSERT_EQ(finished.code, 0) << finished.text;
  EXPECT_GE(summary().at("respawns"), 1);
  auto records = train::read_updates(log());
  std::ranges::sort(records, {}, &train::UpdateRecord::ticket);
  ASSERT_EQ(std::ssize(records), tickets);
  for (std::int64_t t = 0; t < tickets; ++t) {
    ASSERT_EQ(records[static_cast<std::size_t>(t)].ticket, t);
  }
  expect_replayed();
}

TEST_F(RecordedRun, ThatWasStoppedAndResumedIsRepeatedAsAWhole) {
  PasselProgram program(long_train(recorded({"--max-tickets", "1200"})), text_file());
  ASSERT_TRUE(trained(50)) << program.text();
  program.signal(SIGTERM);
  ASSERT_EQ(program.wait().code, 143);
  const Finished resumed = run_passel({"resume", run(), "--workers", "2"});
  ASSERT_EQ(resumed.code, 0) << resumed.text;
  EXPECT_EQ(train::read_updates(log()).size(), 1200U);
  expect_replayed();
}

TEST_F(RecordedRun, WithAGapInItsRecordIsWarnedOfWhenItIsResumed) {
  const auto options = recorded({"--epochs", "9", "--max-tickets", "30"});
  ASSERT_EQ(run_passel(train(options)).code, 0);
  const Finished whole = run_passel({"resume", run(), "--max-tickets", "40"});
  ASSERT_EQ(whole.code, 0) << whole.text;
  EXPECT_EQ(whole.text.find("some are missing"), std::string::npos) << whole.text;
  std::filesystem::resize_file(log(), std::filesystem::file_size(log()) - 5 * 16);
  const Finished cut = run_passel({"resume", run(), "--max-tickets", "50"});
  EXPECT_EQ(cut.code, 0) << cut.text;
  EXPECT_NE(cut.text.find("some are missing"), std::string::npos) << cut.text;
}

TEST_F(RecordedRun, WhoseParentWasKilledIsResumedAndRepeated) {
  {
    PasselProgram program(long_train(recorded({"--checkpoint-interval", "20"})), text_file());
    ASSERT_TRUE(trained(70)) << program.text();
    program.signal(SIGKILL);
    program.wait();
  }
  const auto saved = events(run(), "checkpoint").back().at("ticket").get<std::int64_t>();
  const Finished resumed =
      run_passel({"resume", run(), "--max-tickets", std::to_string(saved + 100)});
  ASSERT_EQ(resumed.code, 0) << resumed.text;
  expect_replayed();
}

TEST_F(RecordedRun, SaysAtWhichUpdateItsRepetitionDiffers) {
  ASSERT_EQ(run_passel(train(recorded({"--epochs", "5"}))).code, 0);
  falsify(17, [](train::UpdateRecord& record) { record.loss += 0.5F; });
  const Finished finished = run_passel({"replay", run()});
  EXPECT_EQ(finished.code, 1);
  EXPECT_NE(finished.text.find("NOT the same bits. update "), std::string::npos) << finished.text;
}

TEST_F(RecordedRun, FromADamagedRecordIsRefused) {
  ASSERT_EQ(run_passel(train(recorded({"--epochs", "2"}))).code, 0);
  std::uint32_t version = 0;
  falsify(3, [&](train::UpdateRecord& record) { version = std::exchange(record.version, 999); });
  Finished finished = run_passel({"replay", run()});
  EXPECT_EQ(finished.code, 3);
  EXPECT_NE(finished.text.find("updates.log: expected update"), std::string::npos) << finished.text;
  falsify(3, [&](train::UpdateRecord& record) { record.version = version; });
  falsify(7, [](train::UpdateRecord& record) { record.ticket = 4'000'000'000; });
  finished = run_passel({"replay", run()});
  EXPECT_EQ(finished.code, 3);
  EXPECT_NE(finished.text.find("updates.log: expected tickets below 20, got 4000000000"),
            std::string::npos)
      << finished.text;
  std::filesystem::resize_file(log(), 7);
  finished = run_passel({"replay", run()});
  EXPECT_EQ(finished.code, 3) << finished.text;
  std::filesystem::remove(log());
  EXPECT_EQ(run_passel({"replay", run()}).code, 3);
}

TEST_F(RecordedRun, WithAnUpdateStalerThanAnyCanBeIsRefused) {
  ASSERT_EQ(run_passel(train(recorded({"--epochs", "30"}))).code, 0);
  falsify(290, [](train::UpdateRecord& record) { record.base = 0; });
  const Finished finished = run_passel({"replay", run()});
  EXPECT_EQ(finished.code, 3) << finished.text;
  EXPECT_NE(finished.text.find("or a later one, got 0"), std::string::npos) << finished.text;
}

TEST_F(RecordedRun, WhoseRecordLacksItsBeginOrItsEndIsRefused) {
  ASSERT_EQ(run_passel(train(recorded({"--epochs", "2"}))).code, 0);
  const auto cut = [&](std::int64_t from, std::int64_t to) {
    std::ifstream in(log(), std::ios::binary);
    std::string text(std::istreambuf_iterator<char>(in), {});
    text.erase(static_cast<std::size_t>(16 * (from + 1)),
               static_cast<std::size_t>(16 * (to - from)));
    std::ofstream(log(), std::ios::binary) << text;
  };
  cut(19, 20);  // the last one that arrived; it may not be the last version
  Finished finished = run_passel({"replay", run()});
  EXPECT_EQ(finished.code, 3) << finished.text;
  ASSERT_EQ(run_passel({"resume", run(), "--epochs", "4"}).code, 0);
  finished = run_passel({"replay", run()});
  EXPECT_EQ(finished.code, 3) << finished.text;
  std::filesystem::remove(log());
  ASSERT_EQ(run_passel({"resume", run(), "--epochs", "6"}).code, 0);
  finished = run_passel({"replay", run()});
  EXPECT_EQ(finished.code, 3);
  EXPECT_NE(finished.text.find("where the run began"), std::string::npos) << finished.text;
}

TEST_F(RecordedRun, IsWhatReplayWantsAndNothingElse) {
  ASSERT_EQ(run_passel(train({"--epochs", "1"})).code, 0);
  const Finished finished = run_passel({"replay", run()});
  EXPECT_EQ(finished.code, 2);
  EXPECT_NE(finished.text.find("--mode recorded"), std::string::npos) << finished.text;
}

TEST_F(RecordedRun, OfOneWorkerIsThePlainLoop) {
  ASSERT_EQ(run_passel(train({"--epochs", "10", "--workers", "1"}, "plain")).code, 0);
  const std::vector<std::string> one = {"--epochs", "10", "--mode", "recorded", "--workers", "1"};
  ASSERT_EQ(run_passel(train(one)).code, 0);
  EXPECT_EQ(summary().at("param_hash"), summary("plain").at("param_hash"));
}

}  // namespace
}  // namespace passel::testing
