#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "passel/kernels/isa.h"

namespace passel::kernels::test {

/// Runs the body once with each instruction set that this machine has.
template <class F>
void with_each_target(F body) {
  const std::string before(isa());
  for (const std::string_view name : available_isas()) {
    SCOPED_TRACE(name);
    select_isa(name);
    ASSERT_EQ(isa(), name);
    body();
  }
  select_isa(before);
}

}  // namespace passel::kernels::test
