// Entry point of every test binary. Besides doctest's own options it knows:
//   --only-file=NAME.cpp  run the cases of one source file, and fail when that file holds none;
//   --needs-shared        skip (exit 77, with a message) where the folder of shared data is absent.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "tests/support/paths.h"

namespace {

// Counts the cases that a run executed, so that a filter which matches nothing cannot pass.
struct CaseCounter : doctest::IReporter {
  explicit CaseCounter(const doctest::ContextOptions&) {}
  static int& executed() {
    static int count = 0;
    return count;
  }
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats& stats) override {
    executed() = static_cast<int>(stats.numTestCasesPassingFilters);
  }
  void test_case_start(const doctest::TestCaseData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};

}  // namespace

namespace epsim::test {

std::filesystem::path data_dir() { return EPSIM_TEST_DATA; }
std::filesystem::path source_dir() { return EPSIM_SOURCE_DIR; }
std::filesystem::path shared_dir() {
  const char* named = std::getenv("EPSIM_SHARED");
  return named != nullptr ? std::filesystem::path(named) : std::filesystem::path(EPSIM_SHARED_DEFAULT);
}

}  // namespace epsim::test

DOCTEST_REGISTER_LISTENER("case-counter", 1, CaseCounter);

int main(int argc, char** argv) {
  constexpr const char* kOnlyFile = "--only-file=";
  doctest::Context context;
  std::vector<char*> passed;
  for (int i = 0; i < argc; ++i) {
    if (std::strncmp(argv[i], kOnlyFile, std::strlen(kOnlyFile)) == 0) {
      context.addFilter("source-file", (std::string("*/") + (argv[i] + std::strlen(kOnlyFile))).c_str());
    } else if (std::strcmp(argv[i], "--needs-shared") == 0) {
      if (!epsim::test::shared_available()) {
        std::cout << "skipped: needs the shared data folder (looked at " << epsim::test::shared_dir()
                  << "; set EPSIM_SHARED to point elsewhere)\n";
        return 77;
      }
    } else {
      passed.push_back(argv[i]);
    }
  }
  context.applyCommandLine(static_cast<int>(passed.size()), passed.data());
  const int result = context.run();
  if (!context.shouldExit() && CaseCounter::executed() == 0) {
    std::cerr << "no test case matched: nothing was tested\n";
    return 1;
  }
  return result;
}
