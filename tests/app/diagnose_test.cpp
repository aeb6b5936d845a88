// `epsim diagnose` through the program itself.
#include <doctest/doctest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "tests/app/process.h"

using epsim::test::Outcome;
using epsim::test::run_epsim;
using epsim::test::slurp;
using epsim::test::source_dir;
using epsim::test::TempDir;

namespace {

// OLMoE's shape: 16 MoE layers of 64 experts, top-8. `tokens_of` gives an expert's count.
void write_counts(const std::filesystem::path& file, int steps, const std::function<int(int step, int expert)>& count) {
  nlohmann::json rows;
  for (int s = 0; s < steps; ++s) {
    nlohmann::json layers;
    for (int l = 0; l < 16; ++l) {
      nlohmann::json layer;
      for (int e = 0; e < 64; ++e) {
        layer.push_back(count(s, e));
      }
      layers.push_back(layer);
    }
    rows.push_back(layers);
  }
  std::ofstream(file) << nlohmann::json{{"logical_count", rows}};
}

// The first eight experts, which are two GPUs' of 16 in order, take 24 times what the others take: 8 x 24 of 248 shares,
// so 0.77 of a token's eight assignments each.
int skewed(int, int expert) { return expert < 8 ? 24'000 : 1000; }

std::string page_block() {
  const std::string page = slurp(source_dir() / "docs/diagnose.md");
  const std::size_t from = page.find("```text\n") + 8;
  return page.substr(from, page.find("```", from) - from);
}

std::string one_line(std::string text) {
  CHECK(std::count(text.begin(), text.end(), '\n') == 1);
  return text;
}

}  // namespace

TEST_CASE("the example of docs/diagnose.md says what the page shows, and the exit code says on") {
  const TempDir dir;
  std::filesystem::create_directory_symlink(source_dir() / "traces", dir / "traces");
  const Outcome done =
      run_epsim(dir, "diagnose traces/samples/deepseek-r1-like-plan.json traces/samples/deepseek-r1-like-run.json");
  CHECK(done.exit_code == 10);
  CHECK(done.out == page_block());
}

TEST_CASE("uniform loads give off") {
  const TempDir dir;
  write_counts(dir / "even.json", 2, [](int, int) { return 5000; });
  const Outcome done = run_epsim(dir, "diagnose even.json --json");
  CHECK(done.exit_code == 11);
  const auto told = nlohmann::json::parse(done.out);
  CHECK(told["answer"] == "OFF");
  CHECK(told["skew"]["imbalance_mean"] == doctest::Approx(1));
}

TEST_CASE("skew that stays gives on, and skew in a single window unsure") {
  const TempDir dir;
  write_counts(dir / "hot.json", 2, skewed);
  const Outcome on = run_epsim(dir, "diagnose hot.json --json");
  CHECK(on.exit_code == 10);
  const auto told = nlohmann::json::parse(on.out);
  // Two of 16 GPUs have 4 x 24 of 248 shares each: 16 x 96 / 248 times the mean. An expert has 64 x 24 / 248.
  CHECK(told["skew"]["imbalance_mean"] == doctest::Approx(16.0 * 96 / 248));
  CHECK(told["skew"]["hottest_expert_over_mean"] == doctest::Approx(64.0 * 24 / 248));
  CHECK(told["stability"]["kept_by_age"][1] == doctest::Approx(1));
  write_counts(dir / "once.json", 1, skewed);
  CHECK(run_epsim(dir, "diagnose once.json").exit_code == 12);
}

TEST_CASE("the first half of the steps is planned from, the second is scored") {
  const TempDir dir;
  write_counts(dir / "moves.json", 2, [](int step, int expert) { return (expert < 8) == (step == 0) ? 24'000 : 1000; });
  // In order, step 1 has 56 hot experts on 14 GPUs: 16 x 96 / (56 x 24 + 8) times the mean.
  const auto told = nlohmann::json::parse(run_epsim(dir, "diagnose moves.json --json").out);
  CHECK(told["skew"]["imbalance_mean"] == doctest::Approx(16.0 * 96 / (56 * 24 + 8)));
}

TEST_CASE("inputs that cannot be diagnosed are told in one line, with exit code 2") {
  const TempDir dir;
  write_counts(dir / "olmoe.json", 1, skewed);
  write_counts(dir / "impossible.json", 1, [](int, int expert) { return expert == 0 ? 64'000 : 1000; });
  std::ofstream(dir / "no.json") << "{\"logical_count\": [[1, 2, 3]]}";
  struct Case {
    const char *words, *says;
  };
  for (const Case& c : {Case{"", "name the recording"}, Case{"absent.json", "absent.json"},
                        Case{"no.json", "no built-in model has 1 MoE layers of 3 experts"},
                        Case{"olmoe.json --model qwen3-30b-a3b", "has 16 layers of 64 experts"},
                        Case{"impossible.json", "an expert takes at most 1"},
                        Case{"olmoe.json no.json", "no.json: this file has 1 layers of 3 experts"},
                        Case{"olmoe.json --worth 300", "worth"}, Case{"olmoe.json --node nowhere", "nowhere"}}) {
    CAPTURE(c.words);
    const Outcome done = run_epsim(dir, std::string("diagnose ") + c.words);
    CHECK(done.exit_code == 2);
    CHECK_MESSAGE(one_line(done.err).find(c.says) != std::string::npos, done.err);
  }
}
