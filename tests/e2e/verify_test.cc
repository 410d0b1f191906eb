#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "small_run.h"

namespace passel::testing {
namespace {

class Verify : public SmallRun {
 protected:
  void make_run(const std::vector<std::string>& more = {}) {
    std::vector<std::string> options = {"--mode", "ordered", "--epochs", "6"};
    options.insert(options.end(), more.begin(), more.end());
    const Finished finished = run_passel(train(options));
    ASSERT_EQ(finished.code, 0) << finished.text;
  }

  /// A file that nobody writes to: a reader waits for ever.
  void replace_by_fifo(const std::string& name) const {
    std::filesystem::remove(run() / name);
    ASSERT_EQ(mkfifo((run() / name).c_str(), 0600), 0);
  }

  std::int64_t repetitions() const {
    return std::ranges::count_if(std::filesystem::directory_iterator(run()), [](const auto& entry) {
      return entry.path().filename().string().starts_with("verify-");
    });
  }

  /// Changes one character of a hash of the run's checkpoint at `ticket`.
  void falsify(std::int64_t ticket, const std::string& tensor) const {
    auto all = events(run());
    std::ofstream out(run() / "metrics.jsonl");
    for (auto& event : all) {
      if (event.at("event") == "checkpoint" && event.at("ticket") == ticket) {
        auto hash = event.at("tensors").at(tensor).get<std::string>();
        hash[0] = hash[0] == '0' ? '1' : '0';
        event["tensors"][tensor] = hash;
      }
      out << event.dump() << "\n";
    }
  }
};

TEST_F(Verify, SaysThatARunIsBitIdenticalAndLeavesNothing) {
  make_run();
  const Finished finished = run_passel({"verify", run()});
  EXPECT_EQ(finished.code, 0);
  EXPECT_NE(finished.text.find("bit-identical at 6 checkpoints up to ticket 60, with 3 workers"),
            std::string::npos)
      << finished.text;
  EXPECT_EQ(repetitions(), 0);
}

TEST_F(Verify, HoldsForASyncRunWhoseWorkersAreKilledMeanwhile) {
  make_run({"--mode", "sync", "--epochs", "200"});
  const Finished finished = run_passel({"verify", run(), "--chaos", "--workers", "3"});
  EXPECT_EQ(finished.code, 0) << finished.text;
  EXPECT_NE(finished.text.find("bit-identical"), std::string::npos) << finished.text;
}

TEST_F(Verify, HoldsForARunThatWasStoppedAtAnyTicket) {
  PasselProgram program(long_train({"--mode", "ordered"}), text_file());
  ASSERT_TRUE(trained(15)) << program.text();
  program.signal(SIGTERM);
  ASSERT_EQ(program.wait().code, 143);
  const Finished finished = run_passel({"verify", run()});
  EXPECT_EQ(finished.code, 0) << finished.text;
}

TEST_F(Verify, NamesTheFirstCheckpointAndTensorThatDiffer) {
  make_run();
  falsify(30, "lltm.bias");
  falsify(50, "head.weight");
  const Finished finished = run_passel({"verify", run()});
  EXPECT_EQ(finished.code, 1);
  EXPECT_NE(finished.text.find("ticket 30: lltm.bias is "), std::string::npos) << finished.text;
  EXPECT_EQ(repetitions(), 1) << "it is kept, to look into";
  EXPECT_EQ(run_passel({"verify", run()}).code, 1) << "also a second time";
}

TEST_F(Verify, RemovesNothingThatItHasNotMade) {
  make_run();
  std::filesystem::create_directory(run() / "verify");
  std::ofstream(run() / "verify" / "notes.txt") << "mine";
  EXPECT_EQ(run_passel({"verify", run()}).code, 0);
  EXPECT_TRUE(std::filesystem::exists(run() / "verify" / "notes.txt"));
}

TEST_F(Verify, HoldsForARunThatWasStoppedBeforeItsFirstTicket) {
  ASSERT_EQ(run_passel(train({"--mode", "ordered", "--epochs", "2"})).code, 0);
  // As such a run notes it.
  auto all = events(run());
  std::ofstream out(run() / "metrics.jsonl");
  auto begin = *std::ranges::find_if(all, [](const auto& e) { return e["event"] == "checkpoint"; });
  begin["ticket"] = 0;
  begin["version"] = 0;
  out << begin.dump() << "\n";
  for (const auto& event : all) out << event.dump() << "\n";
  out.close();
  const Finished finished = run_passel({"verify", run()});
  EXPECT_EQ(finished.code, 0) << finished.text;
}

TEST_F(Verify, TakesNoMoreWorkersThanThereAreTickets) {
  ASSERT_EQ(run_passel(train({"--mode", "ordered", "--workers", "3", "--max-tickets", "3"})).code,
            0);
  const Finished finished = run_passel({"verify", run()});
  EXPECT_EQ(finished.code, 0) << finished.text;
}

TEST_F(Verify, SaysThatTheConfigurationEndsBeforeTheCheckpoints) {
  make_run({"--max-tickets", "50"});
  std::stringstream text;
  text << std::ifstream(run() / "config.toml").rdbuf();
  std::string changed = text.str();
  changed.replace(changed.find("max_tickets = 50"), 16, "max_tickets = 20");
  std::ofstream(run() / "config.toml") << changed;
  const Finished finished = run_passel({"verify", run()});
  EXPECT_EQ(finished.code, 3);
  EXPECT_NE(finished.text.find("changed since"), std::string::npos) << finished.text;
}

TEST_F(Verify, NamesACheckpointOfAnotherRun) {
  make_run();
  ASSERT_EQ(run_passel(train({"--mode", "ordered", "--epochs", "6", "--seed", "2"}, "other")).code,
            0);
  const auto file = std::filesystem::path("checkpoints") / "checkpoint-000000050.safetensors";
  std::filesystem::copy_file(run("other") / file, run() / file,
                             std::filesystem::copy_options::overwrite_existing);
  const Finished finished = run_passel({"verify", run()});
  EXPECT_EQ(finished.code, 1) << finished.text;
  EXPECT_NE(finished.text.find("ticket 50: " + (run() / file).string()), std::string::npos)
      << finished.text;
}

TEST_F(Verify, NamesACheckpointUnderTheNameOfAnother) {
  make_run();
  const auto file = [&](const char* ticket) {
    return run() / "checkpoints" / (std::string("checkpoint-0000000") + ticket + ".safetensors");
  };
  std::filesystem::copy_file(file("40"), file("50"),
                             std::filesystem::copy_options::overwrite_existing);
  const Finished finished = run_passel({"verify", run()});
  EXPECT_EQ(finished.code, 1) << finished.text;
  EXPECT_NE(finished.text.find(file("50").string() + " holds the checkpoint of ticket 40"),
            std::string::npos)
      << finished.text;
}

TEST_F(Verify, LeavesADamagedCheckpointOutAndSaysSo) {
  make_run();
  const auto file = run() / "checkpoints" / "checkpoint-000000050.safetensors";
  std::filesystem::resize_file(file, 100);
  const Finished finished = run_passel({"verify", run()});
  EXPECT_EQ(finished.code, 0) << finished.text;
  EXPECT_NE(finished.text.find(file.string()), std::string::npos) << finished.text;
  EXPECT_NE(finished.text.find("bit-identical at 6 checkpoints"), std::string::npos);
}

TEST_F(Verify, SaysThatTheDataAreOthers) {
  make_run();
  ImageSet{.bright = 199}.write(data_.path());
  const Finished finished = run_passel({"verify", run()});
  EXPECT_EQ(finished.code, 1) << finished.text;
  EXPECT_NE(finished.text.find("The data in " + data_.path().string() + " are not those"),
            std::string::npos)
      << finished.text;
  const Finished resumed = run_passel({"resume", run(), "--epochs", "7"});
  EXPECT_EQ(resumed.code, 0) << resumed.text;
  EXPECT_NE(resumed.text.find("got others of the same form"), std::string::npos) << resumed.text;
  const Finished again = run_passel({"resume", run(), "--epochs", "8"});
  EXPECT_EQ(again.code, 0) << again.text;
  EXPECT_EQ(again.text.find("got others of the same form"), std::string::npos) << again.text;
}

TEST_F(Verify, DoesNotWaitForAFileThatIsAFifo) {
  make_run({"--mode", "recorded"});
  replace_by_fifo("updates.log");
  Finished finished = run_passel({"verify", run()});
  EXPECT_EQ(finished.code, 3) << finished.text;
  EXPECT_NE(finished.text.find("updates.log: expected a regular file, got a pipe or FIFO"),
            std::string::npos)
      << finished.text;
  replace_by_fifo("metrics.jsonl");
  finished = run_passel({"verify", run()});
  EXPECT_EQ(finished.code, 3) << finished.text;
  EXPECT_NE(finished.text.find("metrics.jsonl"), std::string::npos) << finished.text;
}

TEST_F(Verify, SaysWhyTheBitsDifferWithoutAManifestThatCanBeRead) {
  make_run();
  falsify(30, "lltm.bias");
  replace_by_fifo("manifest.json");
  EXPECT_EQ(run_passel({"verify", run()}).code, 1);
}

TEST_F(Verify, NamesTheMachineOfAnyPartOfTheRun) {
  make_run();
  falsify(30, "lltm.bias");
  const std::string manifest =
      R"({"canary": "1111111111111111", "previous": [{"canary": "2222222222222222"}, 3]})";
  std::ofstream(run() / "manifest.json") << manifest;
  const Finished finished = run_passel({"verify", run()});
  EXPECT_EQ(finished.code, 1);
  EXPECT_NE(finished.text.find("instead of 1111111111111111 and 2222222222222222"),
            std::string::npos)
      << finished.text;
}

TEST_F(Verify, WorksWhereTheFolderHasANameOfAnyBytes) {
  make_run();
  const std::filesystem::path moved = run("caf\xe9 \n");
  std::filesystem::rename(run(), moved);
  const Finished finished = run_passel({"verify", moved});
  EXPECT_EQ(finished.code, 0) << finished.text;
}

TEST_F(Verify, SweepsWhatAKilledOneLeft) {
  make_run({"--epochs", "2000", "--max-tickets", "4000", "--checkpoint-interval", "4000"});
  const auto unfinished = [&] {
    return std::ranges::count_if(std::filesystem::directory_iterator(run()), [](const auto& entry) {
      return entry.path().filename().string().starts_with(".verify-");
    });
  };
  {
    PasselProgram program({"verify", run()}, text_file());
    ASSERT_TRUE(eventually([&] { return unfinished() == 1; })) << program.text();
    program.signal(SIGKILL);
    program.wait();
  }
  EXPECT_EQ(unfinished(), 1);
  const Finished finished = run_passel({"verify", run()});
  EXPECT_EQ(finished.code, 0) << finished.text;
  EXPECT_EQ(unfinished(), 0);
}

TEST_F(Verify, RefusesWhatPromisesNoBits) {
  ASSERT_EQ(run_passel(train({"--epochs", "1"})).code, 0);
  const Finished finished = run_passel({"verify", run()});
  EXPECT_EQ(finished.code, 2);
  EXPECT_NE(finished.text.find("--mode ordered, sync or recorded"), std::string::npos)
      << finished.text;
}

TEST_F(Verify, RefusesARunWithoutCheckpoints) {
  make_run();
  std::ofstream(run() / "metrics.jsonl").close();
  const Finished finished = run_passel({"verify", run()});
  EXPECT_EQ(finished.code, 3);
  EXPECT_NE(finished.text.find("expected checkpoints"), std::string::npos) << finished.text;
}

}  // namespace
}  // namespace passel::testing
