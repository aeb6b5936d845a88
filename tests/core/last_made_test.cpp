#include "sim/core/last_made.h"

#include <doctest/doctest.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using epsim::LastMade;

TEST_CASE("a value is made once while it is among the last") {
  LastMade<std::string, std::size_t> lengths(2);
  int made = 0;
  const auto length = [&](const std::string& of) {
    return *lengths.get(of, [&](const std::string& key) {
      ++made;
      return key.size();
    });
  };
  CHECK(length("a") == 1);
  CHECK(length("bc") == 2);
  CHECK(length("a") == 1);
  CHECK(made == 2);
  CHECK(length("def") == 3);  // "a" goes: it came first
  CHECK(length("bc") == 2);
  CHECK(made == 3);
  CHECK(length("a") == 1);
  CHECK(made == 4);
}

TEST_CASE("of those that ask at once one makes the value, and a failure is not kept") {
  LastMade<int, int> squares(1);
  std::atomic<int> made = 0;
  std::atomic<int> right = 0;
  std::vector<std::thread> threads(8);
  for (std::thread& thread : threads) {
    thread = std::thread([&] {
      right += *squares.get(7, [&](int key) {
        ++made;
        return key * key;
      }) == 49;
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(made == 1);
  CHECK(right == 8);
  const auto fails = [](int) -> int { throw std::runtime_error("no"); };
  CHECK_THROWS_AS(squares.get(8, fails), std::runtime_error);
  CHECK(*squares.get(8, [](int key) { return key + 1; }) == 9);
}
