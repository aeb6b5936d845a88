// The commands of the documentation, run as they stand there with fewer requests; and pages that are generated.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "sim/app/keys.h"
#include "tests/app/process.h"

using epsim::test::Outcome;
using epsim::test::run_epsim;
using epsim::test::slurp;
using epsim::test::source_dir;
using epsim::test::TempDir;

namespace {

// What stands in the page's blocks of shell commands (```sh).
std::string commands_of(const std::filesystem::path& page) {
  std::istringstream lines(slurp(page));
  std::string out;
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line == "```sh") {
      inside = true;
    } else if (line == "```") {
      inside = false;
    } else if (inside) {
      out += line + "\n";
    }
  }
  return out;
}

// `epsim` that serves few requests: recordings are cut, generated traces are short.
constexpr const char* kFewRequests = R"(#!/usr/bin/env bash
few=()
case "$1" in
  diagnose) few=(--seeds 2) ;;
  run | compare | sweep | goodput)
    few=(--set requests.count=12)
    [[ "$*" == *azure* ]] && few=(--set requests.slice_length=4s)
    [ "$1" = goodput ] && few=(--set requests.count=1500) ;;
esac
words=("$@")
for i in "${!words[@]}"; do  # a search runs for long: its options are tried on a small scenario
  [ "$1" = goodput ] && [[ ${words[i]} == *.yaml ]] && words[i]=small.yaml
done
code=0
")" EPSIM_BINARY R"(" "${words[@]}" "${few[@]}" || code=$?
[ "$1" = diagnose ] && case $code in 10 | 11 | 12) exit 0 ;; esac  # its answers
exit "$code"
)";

void run_page(const std::filesystem::path& page) {
  const TempDir dir;
  std::filesystem::create_directory_symlink(source_dir() / "experiments", dir / "experiments");
  std::filesystem::create_directory_symlink(source_dir() / "traces", dir / "traces");
  std::filesystem::copy_file(epsim::test::data_dir() / "small.yaml", dir / "small.yaml");
  std::filesystem::create_directory(dir / "bin");
  std::ofstream(dir / "bin/epsim") << kFewRequests;
  std::filesystem::permissions(dir / "bin/epsim", std::filesystem::perms::owner_all);
  std::ofstream(dir / "page.sh") << "set -euo pipefail\nexport PATH=\"$PWD/bin:$PATH\"\n" << commands_of(page);
  const std::string command = "cd '" + dir.path().string() + "' && bash -x page.sh >out.txt 2>err.txt </dev/null";
  const int status = std::system(command.c_str());
  const std::string errors = slurp(dir / "err.txt");
  CHECK_MESSAGE(status == 0, page.string(), ": ",
                errors.substr(errors.size() - std::min<std::size_t>(errors.size(), 2000)));
}

std::vector<std::filesystem::path> pages() {
  std::vector<std::filesystem::path> out{source_dir() / "README.md"};
  for (const auto& entry : std::filesystem::directory_iterator(source_dir() / "docs")) {
    if (entry.path().extension() == ".md") {
      out.push_back(entry.path());
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

TEST_CASE("every command of README.md and docs/ runs") {
  int with_commands = 0;
  for (const std::filesystem::path& page : pages()) {
    CAPTURE(page.string());
    if (!commands_of(page).empty()) {
      run_page(page);
      ++with_commands;
    }
  }
  CHECK(with_commands >= 9);
}

TEST_CASE("every scenario of the gallery runs") {
  const TempDir dir;
  int scenarios = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source_dir() / "experiments/gallery")) {
    if (entry.path().extension() != ".yaml") {
      continue;
    }
    const bool recorded = entry.path().stem() == "azure-trace";
    const Outcome done = run_epsim(dir, "run '" + entry.path().string() + "' -q --set " +
                                            (recorded ? "requests.slice_length=4s" : "requests.count=12"));
    CHECK_MESSAGE(done.exit_code == 0, entry.path().string(), ": ", done.err);
    ++scenarios;
  }
  CHECK(scenarios >= 6);
}

TEST_CASE("docs/keys.md is what the table of keys says") {
  CHECK_MESSAGE(slurp(source_dir() / "docs/keys.md") == epsim::app::keys_markdown(),
                "regenerate it: epsim list keys --markdown > docs/keys.md");
}

TEST_CASE("links between pages lead to files") {
  for (const std::filesystem::path& page : pages()) {
    const std::string text = slurp(page);
    for (std::size_t at = text.find("]("); at != std::string::npos; at = text.find("](", at + 1)) {
      std::string target = text.substr(at + 2, text.find(')', at) - at - 2);
      target = target.substr(0, target.find('#'));
      if (target.empty() || target.starts_with("http")) {
        continue;
      }
      CHECK_MESSAGE(std::filesystem::exists(page.parent_path() / target), page.string(), " links to ", target);
    }
  }
}
