// Which instruction set the kernels use, and who may say so.
#include "passel/kernels/isa.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "passel/kernels/update.h"

namespace passel::kernels {
namespace {

std::string error_of(const std::string& name) {
  try {
    select_isa(name);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return {};
}

// The variable is read once in a process. A death test runs in a fork, and those
// of a suite with this name come before all others, so nothing has read it yet.
[[noreturn]] void exit_with_isa(const char* variable) {
  ::setenv("PASSEL_ISA", variable, 1);
  try {
    std::fputs(std::string(isa()).c_str(), stderr);
    std::exit(0);
  } catch (const std::invalid_argument& error) {
    std::fputs(error.what(), stderr);
    std::exit(1);
  }
}

TEST(Isa, IsOneOfThoseAvailable) {
  const auto available = available_isas();
  ASSERT_FALSE(available.empty());
  EXPECT_NE(std::ranges::find(available, isa()), available.end());
}

TEST(Isa, FromAnotherMachineIsRefusedWithThoseOfThisOne) {
  const std::string before(isa());
  const std::string error = error_of("altivec");
  EXPECT_NE(error.find("got 'altivec'"), std::string::npos) << error;
  for (const auto name : available_isas()) {
    EXPECT_NE(error.find(name), std::string::npos) << error << " without " << name;
  }
  EXPECT_EQ(isa(), before);
}

TEST(IsaDeathTest, IsThatOfTheEnvironmentVariable) {
  for (const auto name : available_isas()) {
    EXPECT_EXIT(exit_with_isa(std::string(name).c_str()), testing::ExitedWithCode(0),
                std::string(name));
  }
}

TEST(IsaDeathTest, IsTheFastestWhenTheVariableIsEmpty) {
  EXPECT_EXIT(exit_with_isa(""), testing::ExitedWithCode(0), std::string(available_isas()[0]));
}

TEST(IsaDeathTest, ThatIsUnknownIsAnErrorAtSetUp) {
  EXPECT_EXIT(exit_with_isa("avx1024"), testing::ExitedWithCode(1),
              "PASSEL_ISA expected .*got 'avx1024'");
}

TEST(IsaDeathTest, ThatIsUnknownEndsAProgramThatDidNotAskBefore) {
  EXPECT_DEATH(
      {
        ::setenv("PASSEL_ISA", "avx1024", 1);
        const float value = 1;
        squared_norm(&value, 1);
      },
      "got 'avx1024'");
}

}  // namespace
}  // namespace passel::kernels
