#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <exception>
#include <string>
#include <vector>

namespace passel::testing {

/// Expects that `action` throws an Error whose text holds all of `words`.
template <typename Error, typename Action>
void expect_error(Action&& action, const std::vector<std::string>& words) {
  try {
    action();
  } catch (const Error& error) {
    for (const std::string& word : words) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr(word));
    }
    return;
  } catch (const std::exception& error) {
    ADD_FAILURE() << "an exception of another type came: " << error.what();
    return;
  }
  ADD_FAILURE() << "no exception came";
}

}  // namespace passel::testing
