#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "passel/train/config.h"
#include "passel/train/errors.h"
#include "random_config.h"
#include "temp_dir.h"

namespace passel::train {
namespace {

using test::error_of;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

std::string refusal(std::string_view text) {
  return error_of<UsageError>([&] { config_from_toml(text, "my.toml"); });
}

TEST(ConfigToml, ComesBackUnchanged) {
  constexpr std::uint64_t kSeed = 4711;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < 500; ++i) {
    const Config config = test::random_config(random);
    EXPECT_EQ(config_from_toml(to_toml(config), "echo"), config) << to_toml(config);
  }
}

TEST(ConfigToml, EmptyTextGivesTheDefaults) {
  EXPECT_EQ(config_from_toml("", "x"), Config{});
}

TEST(ConfigToml, TakesCommentsBlanksAndBothKindsOfStrings) {
  const Config config = config_from_toml(
      "# a comment\r\n\r\n  lr = 1e-3 # another\n\tout='a\\#b' # literal\n"
      "data = \"c#\\\"d\"  # escaped\nquiet=true",
      "x");
  EXPECT_EQ(config.lr, 0.001);
  EXPECT_EQ(config.out, "a\\#b");
  EXPECT_EQ(config.data, "c#\"d");
  EXPECT_TRUE(config.quiet);
}

TEST(ConfigToml, NamesFileLineAndKey) {
  EXPECT_THAT(
      refusal("\nlr = 0.1\nbatch_size = -3\n"),
      StartsWith("my.toml:3: batch_size: expected a whole number from 1 to 1048576, got -3"));
}

TEST(ConfigToml, RefusesWhatIsNoValue) {
  EXPECT_THAT(refusal("optimizer = adam"),
              AllOf(StartsWith("my.toml:1: optimizer: expected one of"), HasSubstr("got \"adam\""),
                    HasSubstr("double quotes")));
  for (const char* text : {"lr =", "lr = nan", "lr = inf", "lr = \"0.1", "lr = 0.1 0.2", "lr = [1]",
                           "lr = {}", "lr = '1", "lr = \"1\"", "lr = null", "lr = 1e999"}) {
    EXPECT_THAT(refusal(text), StartsWith("my.toml:1: lr: expected a number greater than 0"));
  }
}

TEST(ConfigToml, RefusesWhatIsNoLine) {
  EXPECT_THAT(refusal("[data]\n"), HasSubstr("Sections are not used"));
  EXPECT_THAT(refusal("lr 0.1"), HasSubstr("expected a line 'key = value', got \"lr 0.1\""));
  EXPECT_THAT(refusal("= 3"), HasSubstr("expected a known key, got \"\""));
}

TEST(ConfigToml, RefusesUnknownAndRepeatedKeys) {
  EXPECT_THAT(refusal("hiden_size = 3"), HasSubstr("Did you mean hidden_size?"));
  EXPECT_THAT(refusal("lr = 0.1\nlr = 0.2"),
              HasSubstr("my.toml:2: expected each key once, got lr"));
}

// Damaged text gives a Config or an error that names the file, nothing else.
TEST(ConfigToml, SurvivesDamage) {
  constexpr std::uint64_t kSeed = 99;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937_64 random(kSeed);
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string text = to_toml(Config{});
    for (auto edits = 1 + random() % 3; edits > 0; --edits) {
      const auto at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, random() % 20);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 20));
      }
    }
    try {
      config_from_toml(text, "my.toml");
    } catch (const UsageError& error) {
      ++refused;
      EXPECT_LT(std::string(error.what()).size(), 400u) << error.what();
    }
  }
  EXPECT_GT(refused, 100);
}

TEST(ConfigToml, LoadsAFile) {
  const test::TempDir dir;
  Config config;
  config.seed = 77;
  test::write_file(dir.path() / "c.toml", to_toml(config));
  EXPECT_EQ(load_config(dir.path() / "c.toml"), config);
}

// Any of these would be waited for, or read without an end.
TEST(ConfigToml, RefusesWhatIsNoRegularFileAndSaysWhatItIs) {
  const test::TempDir dir;
  const auto load = [&](const std::filesystem::path& file) {
    return error_of<UsageError>([&] { load_config(file); });
  };
  const std::string fifo = dir.path() / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_THAT(load(fifo), AllOf(HasSubstr(fifo), HasSubstr("got a pipe or FIFO")));
  EXPECT_THAT(load("/dev/zero"), HasSubstr("got a character device"));

  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  const std::string socket = dir.path() / "socket";
  socket.copy(address.sun_path, sizeof address.sun_path - 1);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_THAT(load(socket), HasSubstr("got a socket"));
  ::close(fd);
}

TEST(ConfigToml, SkipsAByteOrderMark) {
  const Config config = config_from_toml("\xEF\xBB\xBFworkers = 3\n", "my.toml");
  EXPECT_EQ(config.workers, 3);
  EXPECT_EQ(config_from_toml("\xEF\xBB\xBF", "my.toml"), Config{});
}

TEST(ConfigToml, RefusesAByteOrderMarkInTheMiddle) {
  EXPECT_THAT(refusal("lr = 0.1\n\xEF\xBB\xBFworkers = 3\n"), HasSubstr("my.toml:2"));
}

TEST(ConfigToml, NamesAFileThatCannotBeRead) {
  const test::TempDir dir;
  const auto load = [&](const std::filesystem::path& file) {
    return error_of<UsageError>([&] { load_config(file); });
  };
  EXPECT_THAT(load(dir.path() / "none.toml"),
              AllOf(HasSubstr("none.toml"), HasSubstr("No such file or directory")));
  EXPECT_THAT(load(dir.path()), HasSubstr("expected a regular file, got a folder"));
  test::write_file(dir.path() / "big.toml", std::string((1 << 20) + 1, '#'));
  EXPECT_THAT(load(dir.path() / "big.toml"), HasSubstr("more than a MiB"));
}

}  // namespace
}  // namespace passel::train
