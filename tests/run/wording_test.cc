#include "passel/train/wording.h"

#include <gtest/gtest.h>

namespace passel::train {
namespace {

const std::vector<std::string> kNames = {"lr", "batch_size", "hidden_size", "workers"};

TEST(Wording, FindsTheNameThatWasMeant) {
  EXPECT_EQ(nearest_name("batchsize", kNames), "batch_size");
  EXPECT_EQ(nearest_name("worker", kNames), "workers");
  EXPECT_EQ(nearest_name("hiden_sice", kNames), "hidden_size");
}

TEST(Wording, SuggestsNothingForAFarWord) {
  EXPECT_EQ(nearest_name("zebra", kNames), "");
  EXPECT_EQ(nearest_name("", kNames), "");
  EXPECT_EQ(nearest_name("xy", kNames), "");
  EXPECT_EQ(nearest_name("z", {"lr"}), "");
  EXPECT_EQ(nearest_name(std::string(1'000'000, 'a'), kNames), "");
  EXPECT_EQ(nearest_name("lr", {}), "");
}

TEST(Wording, QuotesEscapeAndCut) {
  EXPECT_EQ(in_quotes("a\nb\x1b"), R"("a\nb\u001b")");
  EXPECT_EQ(in_quotes(std::string(100, 'x')), '"' + std::string(48, 'x') + "\"...");
  EXPECT_EQ(in_quotes(std::string("\xff")), "\"\\ufffd\"");
}

TEST(Counted, HasOneOfAThingWithoutAnS) {
  EXPECT_EQ(counted(0, "worker"), "0 workers");
  EXPECT_EQ(counted(1, "worker"), "1 worker");
  EXPECT_EQ(counted(2, "worker"), "2 workers");
}

}  // namespace
}  // namespace passel::train
