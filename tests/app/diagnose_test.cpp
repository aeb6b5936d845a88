// `epsim diagnose` through the program itself.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>

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

// The first eight experts, which are two GPUs' of 16 in order, take 24 times what the others take: 8 x 24 of 248
// shares, so 0.77 of a token's eight assignments each. No step has the counts of another.
int skewed(int step, int expert) { return (expert < 8 ? 24'000 : 1000) * (step + 1); }

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

// A plan is made anew after so many steps of an instance, however many there are.
TEST_CASE("the share of time that planning anew takes does not hang on the number of instances") {
  const TempDir dir;
  write_counts(dir / "plan.json", 4, skewed);
  const auto share = [&](int instances) {
    const Outcome done =
        run_epsim(dir, fmt::format("diagnose plan.json --scenario {} --seeds 1 --json --set deployment.instances={}",
                                   epsim::test::small_scenario(), instances));
    return nlohmann::json::parse(done.out).at("cost").at("rebalance_copies").at("time_share").get<double>();
  };
  CHECK(share(4) == doctest::Approx(share(1)).epsilon(0.2));  // four instances fill less evenly
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
  CHECK(told["skew"]["hottest_expert_over_mean_worst"] == doctest::Approx(64.0 * 24 / 248));  // all layers alike
  CHECK(told["skew"]["hottest_expert_worst_layer"] == 0);
  CHECK(told["stability"]["kept_by_age"][1] == doctest::Approx(1).epsilon(0.02));
  write_counts(dir / "once.json", 1, skewed);
  write_counts(dir / "again.json", 4, [](int, int expert) { return skewed(0, expert); });
  CHECK(run_epsim(dir, "diagnose once.json").exit_code == 12);
  const Outcome again = run_epsim(dir, "diagnose again.json");  // says no more than once
  CHECK(again.exit_code == 12);
  CHECK(again.out.find("again.json, one window (3 that repeat earlier counts left out)") != std::string::npos);
}

TEST_CASE("noise of short windows is not taken for drift") {
  const TempDir dir;
  const auto diagnosed = [&](int tokens) {
    // Tokens choose eight of 64 experts, expert e by its weight 1 / (e % 9 + 1), the same in all eight windows.
    std::mt19937_64 random(11);
    std::array<std::array<int, 64>, 8> counts{};
    for (auto& window : counts) {
      for (int t = 0; t < tokens; ++t) {
        std::array<std::pair<double, std::size_t>, 64> keys;  // exponentials by weight: the eight first are the choice
        for (std::size_t e = 0; e < keys.size(); ++e) {
          const double uniform = (static_cast<double>(random() >> 11) + 1) * 0x1.0p-53;
          keys[e] = {-std::log(uniform) * static_cast<double>(e % 9 + 1), e};
        }
        std::nth_element(keys.begin(), keys.begin() + 8, keys.end());
        std::for_each(keys.begin(), keys.begin() + 8, [&](const auto& key) { ++window[key.second]; });
      }
    }
    write_counts(dir / fmt::format("{}.json", tokens), 8, [&](int step, int expert) {
      return counts[static_cast<std::size_t>(step)][static_cast<std::size_t>(expert)];
    });
    const Outcome done = run_epsim(dir, fmt::format("diagnose {}.json --json --seeds 1", tokens));
    return nlohmann::json::parse(done.out)["stability"];
  };
  const auto few = diagnosed(40), many = diagnosed(4000);
  CHECK(few["window_tokens"] == 40);
  CHECK(few["repeats_share"] < 0.5);
  CHECK(many["repeats_share"] > 0.5);
  for (const double kept : many["kept_by_age"]) {
    CHECK(kept == doctest::Approx(1).epsilon(0.05));
  }
}

TEST_CASE("what vLLM and TensorRT-LLM record is diagnosed like SGLang's counts") {
  // Three of four tokens choose experts 0 to 7, the fourth one of seven other sets of eight, the seven in turn of a window: of
  // 8 T assignments the first GPU of 16 has 4 x 3/4 T, six times the mean. No window has the counts of another.
  const int tokens = 4 * 7 * 40, layers = 16, top_k = 8;
  const auto chosen = [](int t, int k) { return t % 4 != 0 ? k : 8 + (t / 4 % 7 * (t / 140 + 1)) % 7 * 8 + k; };
  const TempDir dir;
  const auto append = [](std::string& out, std::int32_t value) {
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  // vLLM's routed experts as an array [token][layer][k].
  std::string header =
      fmt::format("{{'descr': '<i4', 'fortran_order': False, 'shape': ({}, {}, {}), }}", tokens, layers, top_k);
  header.append(117 - header.size(), ' ').push_back('\n');
  std::string array = std::string("\x93NUMPY\x01\0", 8) + static_cast<char>(header.size()) + '\0' + header;
  for (int t = 0; t < tokens; ++t) {
    for (int i = 0; i < layers * top_k; ++i) {
      append(array, chosen(t, i % top_k));
    }
  }
  std::ofstream(dir / "routed.npy", std::ios::binary) << array;
  // TensorRT-LLM's statistics: a tensor of counts for each iteration and layer.
  std::string counts;
  nlohmann::json tensors;
  for (int i = 0; i < 2 * layers; ++i) {
    std::vector<std::int32_t> of_expert(64, 0);
    for (int a = 0; a < tokens * top_k; ++a) {
      of_expert[static_cast<std::size_t>(chosen(a / top_k, a % top_k))] += 1 + i / layers;
    }
    tensors[fmt::format("{}_{}", i / layers, i % layers)] = {
        {"dtype", "I32"}, {"shape", {64}}, {"data_offsets", {counts.size(), counts.size() + 256}}};
    for (const std::int32_t count : of_expert) {
      append(counts, count);
    }
  }
  std::filesystem::create_directory(dir / "statistics");
  std::ofstream(dir / "statistics/meta_info.json") << R"({"num_experts": 64, "num_experts_per_token": 8})";
  const std::string names = tensors.dump();
  std::string size;
  append(size, static_cast<std::int32_t>(names.size()));
  append(size, 0);
  std::ofstream(dir / "statistics/rank0.safetensors", std::ios::binary) << size << names << counts;
  for (const char* words : {"diagnose routed.npy --model olmoe-1b-7b --json", "diagnose statistics --json"}) {
    CAPTURE(words);
    const Outcome done = run_epsim(dir, words);
    REQUIRE_MESSAGE(done.exit_code == 10, done.err);
    CHECK(nlohmann::json::parse(done.out)["skew"]["imbalance_mean"] == doctest::Approx(6));
  }
  // Ids do not say how many experts there are.
  CHECK(one_line(run_epsim(dir, "diagnose routed.npy").err).find("--model") != std::string::npos);
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
  write_counts(dir / "totals.json", 4, [](int step, int expert) { return skewed(step < 3 ? step : 5, expert); });
  std::ofstream(dir / "no.json") << "{\"logical_count\": [[1, 2, 3]]}";
  struct Case {
    const char *words, *says;
  };
  for (const Case& c : {Case{"", "name the recording"}, Case{"absent.json", "absent.json"},
                        Case{". olmoe.json", ".: this is a folder, not a file"},
                        Case{"no.json", "no built-in model has 1 MoE layer of 3 experts"},
                        Case{"olmoe.json --model qwen3-30b-a3b", "has 16 layers of 64 experts"},
                        Case{"impossible.json", "an expert takes at most 1"},
                        Case{"totals.json", "window 4 of 4 is the sum of all the others"},  // 1 + 2 + 3 = 6
                        Case{"olmoe.json no.json", "no.json: this file has 1 layer of 3 experts"},
                        Case{"olmoe.json olmoe.json", "olmoe.json: these are the counts of olmoe.json again"},
                        Case{"olmoe.json --nodes 0", "epsim: `nodes`: 0 nodes"},
                        Case{"olmoe.json --nodes 2000000000", "epsim: `cluster.nodes`"},
                        Case{"olmoe.json --worth 300", "worth"}, Case{"olmoe.json --node nowhere", "nowhere"},
                        Case{"olmoe.json --scenario s.yaml --model olmoe-1b-7b", "`model`: the scenario says that"},
                        Case{"olmoe.json --scenario s.yaml --node DGX-H100", "`node`: the scenario says that"},
                        Case{"olmoe.json --scenario s.yaml --nodes 4", "`nodes`: the scenario says that"}}) {
    CAPTURE(c.words);
    const Outcome done = run_epsim(dir, std::string("diagnose ") + c.words);
    CHECK(done.exit_code == 2);
    CHECK_MESSAGE(one_line(done.err).find(c.says) != std::string::npos, done.err);
  }
}

TEST_CASE("a scenario that names a policy's kind keeps it, and SGLang's own EPLB stands in where it does not") {
  const TempDir dir;
  write_counts(dir / "counts.json", 2, skewed);
  const auto diagnosed = [&](const std::string& policies) {
    const Outcome done = run_epsim(
        dir, "diagnose counts.json --model olmoe-1b-7b --nodes 2 --seeds 1 --set requests.count=60 --json " + policies);
    CHECK_MESSAGE((done.exit_code >= 10 && done.exit_code <= 12), done.err);
    return done.out;
  };
  diagnosed("--set 'policies={base: {kind: contiguous}}'");  // which has no `mode`
  const std::string own = diagnosed("");
  CHECK(diagnosed("--set policies.eplb.kind=eplb_sglang --set policies.base.mode=auto") == own);
  CHECK(diagnosed("--set policies.eplb.kind=random") != own);
}
