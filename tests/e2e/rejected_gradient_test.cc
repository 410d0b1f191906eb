#include "small_run.h"

namespace passel::testing {
namespace {

class RejectedGradients : public SmallRun {
 protected:
  /// A learning rate with which the gradient overflows before the loss does. One
  /// worker, so that it happens at the same ticket every time.
  std::vector<std::string> diverging(const std::string& tickets) const {
    return {"train", "--dataset",     "adding", "--adding-steps", "200", "--hidden-size",
            "8",     "--lr",          "100",    "--optimizer",    "sgd", "--clip-norm",
            "0",     "--max-tickets", tickets,  "--workers",      "1",   "--out",
            run()};
  }
};

TEST_F(RejectedGradients, AreCountedAndChangeNoParameter) {
  const Finished finished = run_passel(diverging("30"));
  ASSERT_EQ(finished.code, 0) << finished.text;
  EXPECT_NE(finished.text.find("not finite"), std::string::npos) << finished.text;
  const auto last = summary();
  EXPECT_GT(last.at("rejected"), 0);
  EXPECT_LT(last.at("rejected"), 30);
  EXPECT_TRUE(last.at("test_loss").is_number()) << "the parameters are finite";
}

TEST_F(RejectedGradients, EndTheRunWhenNoOtherKindComesAnyMore) {
  const Finished finished = run_passel(diverging("1000"));
  EXPECT_EQ(finished.code, 1);
  EXPECT_NE(finished.text.find("in a row"), std::string::npos) << finished.text;
  EXPECT_NE(finished.text.find("--lr"), std::string::npos) << finished.text;
}

}  // namespace
}  // namespace passel::testing
