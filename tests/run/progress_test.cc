#include "passel/train/progress.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>
#include <thread>
#include <vector>

#include "temp_dir.h"

namespace passel::train {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const ProgressState kState = {.ticket = 1234,
                              .total = 5000,
                              .epoch = 3,
                              .loss = 0.42134,
                              .samples_per_second = 23456,
                              .lr = 0.002,
                              .workers_alive = 2,
                              .staleness_mean = 1.04,
                              .elapsed = 12.4,
                              .remaining = 3725};
constexpr const char* kLine =
    " 24%  ticket 1234/5000  epoch 3  loss 0.4213  23.5k samples/s  lr 0.002  2 workers  "
    "staleness 1.0  0:12<1:02:05";

/// Shows what a Progress writes into a file.
class ProgressTest : public testing::Test {
 protected:
  ProgressTest() { ::unsetenv("NO_COLOR"); }
  ~ProgressTest() override { ::close(fd_); }

  std::string text() const { return test::read_file(dir_.path() / "out"); }

  test::TempDir dir_;
  int fd_ = ::open((dir_.path() / "out").c_str(), O_RDWR | O_CREAT | O_APPEND, 0600);
};

TEST_F(ProgressTest, WritesPlainLinesWhenNotATerminal) {
  Progress sut(fd_, false, false);
  sut.update(kState);
  sut.note("worker 1 was killed by SIGKILL");
  sut.warn("careful");
  EXPECT_EQ(text(), std::string(kLine) + "\nworker 1 was killed by SIGKILL\ncareful\n");
}

TEST_F(ProgressTest, LeavesOutControlCharactersOfTexts) {
  Progress sut(fd_, false, false);
  sut.note("a\x1b[31m\rb\tc\nd\x7f");
  EXPECT_EQ(text(), "a [31m b c\nd \n");
}

TEST_F(ProgressTest, ShowsWhatIsUnknown) {
  Progress sut(fd_, false, false);
  sut.update({.ticket = 7, .total = 0, .loss = std::nan(""), .workers_alive = 1, .remaining = -1});
  EXPECT_THAT(text(), AllOf(StartsWith("ticket 7  epoch 0  loss nan"), HasSubstr("1 worker "),
                            EndsWith("0:00<?\n")));
  sut.update({.elapsed = INFINITY, .remaining = std::nan("")});
  EXPECT_THAT(text(), EndsWith("?<?\n"));
}

TEST_F(ProgressTest, DrawsOverOneLineOfATerminal) {
  ::setenv("NO_COLOR", "1", 1);
  Progress sut(fd_, true, false);
  sut.update(kState);
  const std::string cut = std::string(kLine).substr(0, 79);  // a file has no width: 80
  EXPECT_EQ(text(), "\r" + cut + "\x1b[K");
}

TEST_F(ProgressTest, PutsNotesAboveTheStatusLine) {
  ::setenv("NO_COLOR", "1", 1);
  Progress sut(fd_, true, false);
  sut.update(kState);
  const std::string line = text();
  sut.note("hello");
  EXPECT_EQ(text(), line + "\r\x1b[Khello\n" + line);
}

TEST_F(ProgressTest, TakesTheStatusLineAwayAtTheEnd) {
  { Progress(fd_, true, false).update(kState); }
  EXPECT_THAT(text(), EndsWith("\r\x1b[K"));
}

TEST_F(ProgressTest, ColoursOnlyTerminalsWithoutNoColor) {
  Progress(fd_, true, false).warn("careful");
  EXPECT_EQ(text(), "\x1b[33mcareful\x1b[0m\n");
  Progress(fd_, true, false).update(kState);
  EXPECT_THAT(text(), HasSubstr("\r\x1b[1m 24%\x1b[0m  ticket"));
}

TEST_F(ProgressTest, NoColorMeansNoColour) {
  ::setenv("NO_COLOR", "1", 1);
  Progress sut(fd_, true, false);
  sut.warn("careful");
  sut.update(kState);
  EXPECT_THAT(text(), AllOf(StartsWith("careful\n"),
                            Not(HasSubstr("m"
                                          "\x1b")),
                            Not(HasSubstr("\x1b[1m"))));
}

TEST_F(ProgressTest, QuietShowsWarningsAlone) {
  Progress sut(fd_, false, true);
  sut.update(kState);
  sut.note("note");
  sut.summary({});
  sut.warn("careful");
  EXPECT_EQ(text(), "careful\n");
}

TEST_F(ProgressTest, SummaryNamesResultSpeedStalenessDeathsAndCheckpoint) {
  SummaryRecord record{.tickets = 1000,
                       .samples = 64000,
                       .seconds = 61.2,
                       .samples_per_second = 1045.7,
                       .test_accuracy = 0.87654,
                       .test_loss = {},
                       .param_hash = "0123456789abcdef",
                       .mode = "hogwild",
                       .workers = 2,
                       .respawns = 1,
                       .redone = 2,
                       .staleness = {},
                       .checkpoint = "runs/a/c"};
  record.staleness.add(1);
  record.staleness.add(2);
  Progress sut(fd_, false, false);
  sut.summary(record);
  EXPECT_EQ(text(),
            "1000 tickets, 64000 samples in 1:01, hogwild, 2 workers\n"
            "  accuracy      87.65 %\n"
            "  speed         1.0k samples/s\n"
            "  staleness     mean 1.50, max 2\n"
            "  deaths        1 respawn, 2 tickets redone\n"
            "  parameters    0123456789abcdef\n"
            "  checkpoint    runs/a/c\n");
}

TEST_F(ProgressTest, SummaryOfARegressionShowsTheLoss) {
  Progress(fd_, false, false).summary({.test_loss = 0.0123456});
  EXPECT_THAT(text(), AllOf(HasSubstr("test loss     0.012346"), Not(HasSubstr("accuracy"))));
}

TEST_F(ProgressTest, SummaryReplacesTheStatusLine) {
  {
    Progress sut(fd_, true, false);
    sut.update(kState);
    sut.summary({});
  }
  EXPECT_THAT(text(), AllOf(HasSubstr("\r\x1b[K0 tickets"), EndsWith("redone\n")));
}

TEST_F(ProgressTest, IgnoresAStreamThatIsClosed) {
  const int closed = ::dup(fd_);
  ::close(closed);
  Progress sut(closed, false, false);
  sut.update(kState);
  sut.note("x");
  EXPECT_EQ(text(), "");
}

std::string read_exactly(int fd, std::size_t bytes) {
  std::string text(bytes, '\0');
  std::size_t got = 0;
  while (got < bytes) {
    const ssize_t part = ::read(fd, text.data() + got, bytes - got);
    if (part <= 0) break;
    got += static_cast<std::size_t>(part);
  }
  return text.substr(0, got);
}

TEST(ProgressOnATerminal, KeepsWithinItsWidth) {
  ::setenv("NO_COLOR", "1", 1);
  for (const unsigned short columns : {1, 20, 200}) {
    const int screen = ::posix_openpt(O_RDWR | O_NOCTTY);
    if (screen < 0) GTEST_SKIP() << "no pseudo terminals here";
    ASSERT_EQ(::grantpt(screen), 0);
    ASSERT_EQ(::unlockpt(screen), 0);
    const int terminal = ::open(::ptsname(screen), O_RDWR | O_NOCTTY);
    ASSERT_GE(terminal, 0);
    const winsize size = {.ws_row = 10, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    ASSERT_EQ(::ioctl(terminal, TIOCSWINSZ, &size), 0);
    Progress sut(terminal, ::isatty(terminal) == 1, false);
    sut.update(kState);
    std::string expected = "\r";
    expected += std::string_view(kLine).substr(0, columns - 1u);
    expected += "\x1b[K";
    EXPECT_EQ(read_exactly(screen, expected.size()), expected);
    ::close(terminal);
    ::close(screen);
  }
}

// A warning is never drawn into the status line, nor the line over a warning.
TEST_F(ProgressTest, KeepsLinesWholeWhenManyThreadsWrite) {
  Progress sut(fd_, true, false);
  sut.update(kState);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 3000; ++k) {
        sut.update(kState);
        sut.note("warning");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::string written = text();
  const std::string whole = "\r\x1b[Kwarning\n\r";
  int found = 0;
  for (auto at = written.find("warning"); at != std::string::npos;
       at = written.find("warning", at + 1)) {
    ++found;
    ASSERT_EQ(written.substr(at - 4, whole.size()), whole);
  }
  EXPECT_EQ(found, 4 * 3000);
}

}  // namespace
}  // namespace passel::train
