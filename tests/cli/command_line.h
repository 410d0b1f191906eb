#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "options.h"
#include "passel/train/errors.h"

namespace passel::train::test {

using Words = std::vector<std::string>;

inline std::variant<Command, int> parse_words(const Words& words, std::ostream& out) {
  std::vector<const char*> argv = {"passel"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  return parse(static_cast<int>(argv.size()), argv.data(), "2.11.0", out);
}

/// The command; an exit code instead is an error of the test.
inline Command command_of(const Words& words) {
  std::ostringstream out;
  return std::get<Command>(parse_words(words, out));
}

/// The text of a command line that is answered at once with exit code 0.
inline std::string answer_to(const Words& words) {
  std::ostringstream out;
  if (std::get<int>(parse_words(words, out)) != 0) throw std::logic_error("expected exit code 0");
  return out.str();
}

/// What is said about a wrong command line.
inline std::string refusal_of(const Words& words) {
  std::ostringstream out;
  try {
    parse_words(words, out);
  } catch (const UsageError& error) {
    return error.what();
  }
  throw std::logic_error("expected an error, got none");
}

}  // namespace passel::train::test
