// Every size that has an edge, against the oracle: results, guards, poison.
#include <sstream>

#include "lltm_case.h"

namespace passel::kernels::test {
namespace {

constexpr std::int64_t kSizes[] = {0, 1, 7, 8, 9, 15, 16, 17, 31, 33};

std::string text(const LltmShape& s) {
  std::ostringstream out;
  out << "T " << s.steps << " B " << s.batch << " I " << s.input << " S " << s.state;
  return out.str();
}

template <typename T>
void expect_like_reference(const LltmShape& shape, double tolerance, double weight_scale = 1) {
  SCOPED_TRACE(text(shape));
  LltmCase<T> fast(shape, 11, weight_scale);
  LltmCase<double> exact = fast.template as<double>();
  fast.run();
  exact.run_reference();
  const double rows = static_cast<double>(shape.steps * shape.batch);
  const double limit = tolerance * std::max(1.0, std::sqrt(rows / 100));
  const auto actual = fast.results();
  const auto expected = exact.results();
  for (std::size_t i = 0; i < actual.size(); ++i) {
    EXPECT_LE(relative_error(actual[i]->values(), expected[i]->values()), limit) << "array " << i;
    EXPECT_TRUE(actual[i]->guards_intact()) << "array " << i;
  }
  EXPECT_TRUE(fast.packed.guards_intact());
  EXPECT_TRUE(fast.workspace.guards_intact());
}

class LltmSizes : public testing::TestWithParam<std::int64_t> {
 protected:
  template <typename T>
  void sweep(double tolerance) {
    const std::int64_t state = GetParam();
    for (const std::int64_t batch : kSizes) {
      for (const std::int64_t input : {0, 1, 5}) {
        for (const std::int64_t steps : {0, 1, 2, 33}) {
          expect_like_reference<T>({steps, batch, input, state}, tolerance);
        }
      }
    }
  }
};

TEST_P(LltmSizes, FloatAgreesWithTheReference) {
  sweep<float>(1e-5);
}
TEST_P(LltmSizes, DoubleAgreesWithTheReference) {
  sweep<double>(1e-12);
}

INSTANTIATE_TEST_SUITE_P(State, LltmSizes, testing::ValuesIn(kSizes), [](const auto& info) {
  return std::string("S").append(std::to_string(info.param));
});

TEST(Lltm, AgreesWithTheReferenceWhenSumsRunOverSeveralChunks) {
  expect_like_reference<float>({.steps = 40, .batch = 17, .input = 50, .state = 49}, 1e-5);
  expect_like_reference<double>({.steps = 40, .batch = 17, .input = 50, .state = 49}, 1e-12);
}

TEST(Lltm, AgreesWithTheReferenceWhenGatesSaturate) {
  expect_like_reference<float>({.steps = 8, .batch = 5, .input = 20, .state = 40}, 1e-4, 10);
}

TEST(Lltm, AgreesWithTheReferenceAtAThousandUnits) {
  expect_like_reference<float>({.steps = 2, .batch = 3, .input = 16, .state = 1024}, 1e-5);
}

TEST(Lltm, WithoutStepsTheGradientsPassThrough) {
  LltmCase<float> c({.steps = 0, .batch = 3, .input = 2, .state = 5}, 1);
  c.run();
  EXPECT_TRUE(same_bits(c.grad_h0, c.grad_h_last));
  EXPECT_TRUE(same_bits(c.grad_c0, c.grad_c_last));
  for (const float g : c.grad_weight.values()) EXPECT_EQ(g, 0);
  for (const float g : c.grad_bias.values()) EXPECT_EQ(g, 0);
}

}  // namespace
}  // namespace passel::kernels::test
