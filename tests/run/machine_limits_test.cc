#include "passel/train/machine_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include "passel/train/errors.h"
#include "resource_limit.h"
#include "temp_dir.h"

namespace passel::train {
namespace {

using test::error_of;
using test::ResourceLimit;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Crowding, IsWarnedOfAboveTwoWorkersACpu) {
  EXPECT_THAT(crowding(1, 1), IsEmpty());
  EXPECT_THAT(crowding(4, 2), IsEmpty());
  EXPECT_THAT(crowding(5, 2), AllOf(HasSubstr("5 workers on 2 CPUs"), HasSubstr("goes on")));
  EXPECT_THAT(crowding(3, 1), HasSubstr("3 workers on 1 CPU:"));
}

TEST(Crowding, IsNotGuessedWhereTheCpusAreUnknown) {
  EXPECT_THAT(crowding(1024, 0), IsEmpty());
}

TEST(CoresAllowed, AreThoseOfTheAffinityAndNotOfTheMachine) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(cores_allowed(), CPU_COUNT(&before));
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(::sched_getcpu(), &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(cores_allowed(), 1);
  ASSERT_EQ(::sched_setaffinity(0, sizeof before, &before), 0);
}

TEST(OpenFiles, OfFewWorkersFitWhereThoseOfManyDoNot) {
  const ResourceLimit limit(RLIMIT_NOFILE, 64);
  EXPECT_NO_THROW(check_open_files(2));
  EXPECT_THAT(error_of<UsageError>([] { check_open_files(64); }),
              AllOf(HasSubstr("for 64 workers"), HasSubstr("got 64"), HasSubstr("ulimit -n")));
}

// What the sentence asks for is what it takes, and not one less.
TEST(OpenFiles, AreEnoughWithTheLimitThatWasAskedFor) {
  std::string text;
  {
    const ResourceLimit limit(RLIMIT_NOFILE, 64);
    text = error_of<UsageError>([] { check_open_files(200); });
  }
  const std::string mark = "ulimit -n ";
  const rlim_t wanted = std::stoul(text.substr(text.find(mark) + mark.size()));
  {
    const ResourceLimit limit(RLIMIT_NOFILE, wanted - 1);
    EXPECT_THROW(check_open_files(200), UsageError);
  }
  const ResourceLimit limit(RLIMIT_NOFILE, wanted);
  EXPECT_NO_THROW(check_open_files(200));
}

}  // namespace
}  // namespace passel::train
