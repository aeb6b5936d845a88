// The error that a call ends with, for tests that look at its place and its words.
#pragma once

#include <doctest/doctest.h>

#include <initializer_list>
#include <optional>
#include <string>

namespace epsim::test {

// The Error that `call` throws; fails the test when it throws none. Another exception passes through and fails it too.
template <class Error, class Call>
Error error_of(Call call) {
  std::optional<Error> caught;
  try {
    call();
  } catch (const Error& error) {
    caught = error;
  }
  REQUIRE_MESSAGE(caught.has_value(), "nothing was thrown");
  return *caught;
}

// All of `parts` are in `text`.
inline void check_contains(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts) {
    CHECK_MESSAGE(text.find(part) != std::string::npos, "\"", text, "\" does not say \"", std::string(part), "\"");
  }
}

}  // namespace epsim::test
