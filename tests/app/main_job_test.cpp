// The main job through the program itself: files, ranking, determinism, the questions a first user asks.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <vector>

#include "tests/app/process.h"

using epsim::test::Outcome;
using epsim::test::run_epsim;
using epsim::test::small_scenario;
using epsim::test::TempDir;

namespace {

std::map<std::string, std::string> files_below(const std::filesystem::path& folder) {
  std::map<std::string, std::string> out;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) {
      out[entry.path().lexically_relative(folder).string()] = epsim::test::slurp(entry.path());
    }
  }
  return out;
}

// The same, but for the comments that tell which values of a resolved scenario are defaults.
std::map<std::string, std::string> results_below(const std::filesystem::path& folder) {
  auto out = files_below(folder);
  out["resolved.yaml"] = std::regex_replace(out["resolved.yaml"], std::regex(" +# default[^\n]*"), "");
  return out;
}

}  // namespace

TEST_CASE("compare writes every file of every policy and says who is first") {
  const TempDir dir;
  const Outcome done = run_epsim(dir, "compare " + small_scenario() + " --policies base,eplb -o out");
  REQUIRE_MESSAGE(done.exit_code == 0, done.err);
  for (const char* file : {"resolved.yaml", "summary.json", "requests.csv", "layers.csv", "links.csv", "gpus.csv"}) {
    CHECK(std::filesystem::exists(dir / "out/base" / file));
    CHECK(std::filesystem::exists(dir / "out/eplb" / file));
  }
  CHECK(std::filesystem::exists(dir / "out/comparison.json"));
  CHECK(done.out.find("eplb against base") != std::string::npos);
  const nlohmann::json base = nlohmann::json::parse(epsim::test::slurp(dir / "out/base/summary.json"));
  const nlohmann::json eplb = nlohmann::json::parse(epsim::test::slurp(dir / "out/eplb/summary.json"));
  // p4de's all-to-all between nodes is p5's, and the summary says why.
  const nlohmann::json& borrowed = base.at("carried_over");
  REQUIRE(borrowed.size() == 1);
  const auto why = borrowed[0].get<std::string>();
  CHECK(why.find("links between nodes (efa-p4de): all_to_all, all_gather from efa-p5, since no all-to-all and no "
                 "all-gather was measured on p4de") == 0);
  CHECK(done.out.find("links between nodes (efa-p4de)") != std::string::npos);
  // One copy per GPU and layer: 16 layers x 12 MiB (OLMoE's expert) = 192 MiB per GPU off the pool.
  const double lost =
      base.at("kv").at("kv_pool_gib_per_gpu").get<double>() - eplb.at("kv").at("kv_pool_gib_per_gpu").get<double>();
  CHECK(lost == doctest::Approx(192.0 / 1024).epsilon(1e-9));
  CHECK(eplb.at("balancedness").at("balancedness_mean").get<double>() >
        base.at("balancedness").at("balancedness_mean").get<double>());
}

TEST_CASE("same scenario and seed: the same bytes, twice, with one thread and with two") {
  const TempDir dir;
  const std::string job = "compare " + small_scenario() + " --policies base,eplb,contiguous ";
  REQUIRE(run_epsim(dir, job + "-o a --threads 1").exit_code == 0);
  REQUIRE(run_epsim(dir, job + "-o b --threads 2").exit_code == 0);
  REQUIRE(run_epsim(dir, job + "-o c --threads 2").exit_code == 0);
  const auto a = files_below(dir / "a");
  CHECK(a.size() >= 3 * 6 + 2);
  CHECK(a == files_below(dir / "b"));
  CHECK(a == files_below(dir / "c"));
  REQUIRE(run_epsim(dir, job + "-o d --seed 4").exit_code == 0);
  CHECK(files_below(dir / "d").at("base/requests.csv") != a.at("base/requests.csv"));
}

TEST_CASE("the resolved scenario runs again to the same result") {
  const TempDir dir;
  REQUIRE(run_epsim(dir, "run " + small_scenario() + " -o first --set policy=eplb").exit_code == 0);
  const Outcome again = run_epsim(dir, "run first/resolved.yaml -o second");
  REQUIRE_MESSAGE(again.exit_code == 0, again.err);
  CHECK(results_below(dir / "first") == results_below(dir / "second"));
  REQUIRE(run_epsim(dir, "compare " + small_scenario() + " --policies base,eplb -o both").exit_code == 0);
  REQUIRE(run_epsim(dir, "run both/eplb/resolved.yaml -o third").exit_code == 0);
  CHECK(results_below(dir / "both/eplb") == results_below(dir / "third"));
  // A recorded trace at another rate than its own has no time_scale.
  std::ofstream(dir / "trace.csv") << "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:00:00.0,30,4\n"
                                      "2023-11-16 18:00:01.0,20,3\n2023-11-16 18:00:03.0,40,2\n";
  REQUIRE(run_epsim(dir, "run " + small_scenario() +
                             " -o fourth --set 'requests={kind: azure_csv, path: trace.csv, rate: 6/s}'")
              .exit_code == 0);
  REQUIRE(run_epsim(dir, "run fourth/resolved.yaml -o fifth").exit_code == 0);
  CHECK(results_below(dir / "fourth") == results_below(dir / "fifth"));
}

TEST_CASE("--overwrite replaces results, and only results") {
  const TempDir dir;
  REQUIRE(run_epsim(dir, "run " + small_scenario() + " -o out").exit_code == 0);
  CHECK(run_epsim(dir, "run " + small_scenario() + " -o out --overwrite").exit_code == 0);
  std::filesystem::create_directory(dir / "home");
  std::ofstream(dir / "home/letter.txt") << "keep me";
  const Outcome refused = run_epsim(dir, "run " + small_scenario() + " -o home --overwrite");
  CHECK(refused.exit_code == 2);
  CHECK(epsim::test::slurp(dir / "home/letter.txt") == "keep me");
}

TEST_CASE("help, version and lists answer without a scenario") {
  const TempDir dir;
  CHECK(run_epsim(dir, "--help").out.find("compare") != std::string::npos);
  CHECK(run_epsim(dir, "--version").out.starts_with("epsim "));
  CHECK(run_epsim(dir, "compare --help").out.find("--policies") != std::string::npos);
  const Outcome list = run_epsim(dir, "list");
  CHECK(list.exit_code == 0);
  for (const char* name : {"DeepSeek-R1", "p4de.24xlarge", "eplb", "azure_csv", "sglang_counts"}) {
    CHECK_MESSAGE(list.out.find(name) != std::string::npos, name);
  }
  CHECK(run_epsim(dir, "validate " + small_scenario() + " --policies base,eplb").exit_code == 0);
}

TEST_CASE("variants of one policy stand side by side under labels of their own") {
  const TempDir dir;
  const Outcome done = run_epsim(dir, "compare " + small_scenario() +
                                          " --policies eplb,more -o out --set policies.more.kind=eplb"
                                          " --set policies.more.num_redundant_experts=32");
  REQUIRE_MESSAGE(done.exit_code == 0, done.err);
  CHECK(std::filesystem::exists(dir / "out/more/summary.json"));
}

TEST_CASE("Ctrl-C keeps the complete steps and says so") {
  const TempDir dir;
  // Far more work than the seconds until the first heartbeat hold, so the signal finds the run under way.
  const std::string job = "run " + small_scenario() + " -o out --set requests.count=3000000 --set requests.rate=100/s";
  const std::string command = "cd '" + dir.path().string() + "' && ( '" EPSIM_BINARY "' " + job +
                              " >stdout.txt 2>stderr.txt & pid=$!;"
                              " while kill -0 $pid && ! grep -qE '[(][1-9]' stderr.txt; do sleep 0.1; done;"
                              " kill -INT $pid; wait $pid; echo $? > code.txt )";
  REQUIRE(std::system(command.c_str()) == 0);
  CHECK(epsim::test::slurp(dir / "code.txt") == "130\n");
  CHECK(epsim::test::slurp(dir / "stdout.txt").find("interrupted") != std::string::npos);
  const nlohmann::json summary = nlohmann::json::parse(epsim::test::slurp(dir / "out/summary.json"));
  CHECK(summary.at("interrupted").get<bool>());
  CHECK(summary.at("requests").at("completed_requests").get<int>() > 0);
  CHECK(summary.at("requests").at("waiting_requests").get<int>() > 0);
}

TEST_CASE("a Hugging Face config.json beside the scenario is a model") {
  const TempDir dir;
  std::ofstream(dir / "config.json") << R"({"model_type": "olmoe", "num_hidden_layers": 16, "hidden_size": 2048,
    "num_experts": 64, "num_experts_per_tok": 8, "intermediate_size": 1024, "num_attention_heads": 16,
    "num_key_value_heads": 16, "vocab_size": 50304, "tie_word_embeddings": false, "torch_dtype": "bfloat16"})";
  const std::string by_name = "validate " + small_scenario() + " --policies eplb";
  const Outcome own = run_epsim(dir, by_name + " --set model.architecture=./config.json");
  REQUIRE_MESSAGE(own.exit_code == 0, own.err);
  const std::string catalogued = run_epsim(dir, by_name).out;
  CHECK(own.out.substr(own.out.find("eplb: fits")) == catalogued.substr(catalogued.find("eplb: fits")));
}

TEST_CASE("compare --seeds: paired differences whose intervals follow from the values by seed") {
  const TempDir dir;
  const std::string compare = "compare " + small_scenario() + " --policies base,eplb -q ";
  const Outcome done = run_epsim(dir, compare + "--seeds 3 --threads 1 -o three");
  REQUIRE_MESSAGE(done.exit_code == 0, done.err);
  CHECK(done.out.find("3 seeds, paired") != std::string::npos);
  // Neither threads nor the other seeds show in the folders of the policies.
  REQUIRE(run_epsim(dir, compare + "--seeds 3 --threads 4 -o again").exit_code == 0);
  CHECK(files_below(dir / "three") == files_below(dir / "again"));
  const Outcome one = run_epsim(dir, compare + "-o one");
  CHECK(one.out.find("Run --seeds 5") != std::string::npos);
  CHECK(files_below(dir / "three/eplb") == files_below(dir / "one/eplb"));
  // Under seed 4 alone the figures are those of the second seed.
  REQUIRE(run_epsim(dir, compare + "--seed 4 -o four").exit_code == 0);
  const auto json = [&](const std::string& file) {
    return nlohmann::json::parse(epsim::test::slurp(dir / file / "comparison.json"));
  };
  const auto ttft = [](const nlohmann::json& comparison, const std::string& policy) {
    for (const nlohmann::json& run : comparison["runs"]) {
      if (run["policy"] == policy) {
        return run["over_seeds"]["ttft_mean_ms"];
      }
    }
    return nlohmann::json();
  };
  const nlohmann::json all = json("three"), base = ttft(all, "base"), eplb = ttft(all, "eplb");
  CHECK(eplb["by_seed"][1] == ttft(json("four"), "eplb")["mean"]);
  // Three differences d: mean, and 4.303 (Student's t, 2 degrees) x their deviation / sqrt(3).
  double d[3], mean = 0, squares = 0;
  for (std::size_t s = 0; s < 3; ++s) {
    d[s] = eplb["by_seed"][s].get<double>() - base["by_seed"][s].get<double>();
    mean += d[s] / 3;
  }
  for (const double value : d) {
    squares += (value - mean) * (value - mean);
  }
  const double half = 4.3027 * std::sqrt(squares / 2 / 3);
  CHECK(half > 0);
  CHECK(eplb["difference"]["mean"].get<double>() == doctest::Approx(mean));
  CHECK(eplb["difference"]["interval95"][0].get<double>() == doctest::Approx(mean - half).epsilon(1e-3));
  CHECK(eplb["difference"]["interval95"][1].get<double>() == doctest::Approx(mean + half).epsilon(1e-3));
  CHECK(run_epsim(dir, compare + "--seeds 0 -o none").exit_code == 2);
}

TEST_CASE("compare says first that more is offered than served, and names a rate that is served") {
  const TempDir dir;
  const auto compare = [&](const std::string& rate) {
    const Outcome done = run_epsim(dir, "compare " + small_scenario() + " --policies base,eplb -q --overwrite -o out " +
                                            "--set requests.count=400 --set requests.rate=" + rate);
    REQUIRE_MESSAGE(done.exit_code == 0, done.err);
    return done.out;
  };
  const std::string text = compare("2000/s"), option = "--set requests.rate=";
  const std::size_t offered = text.find("requests/s are offered and at most "), to_try = text.find(option);
  REQUIRE(to_try != std::string::npos);
  CHECK(offered < text.find("policy"));  // before the table
  CHECK(text.find("eplb against base: throughput +") == std::string::npos);
  const std::size_t from = to_try + option.size();
  CHECK(compare(text.substr(from, text.find("/s", from) + 2 - from)).find("overload") == std::string::npos);
}

TEST_CASE("balance predicts as well as the policy's own options say") {
  const TempDir dir;
  // Lina copies the experts that it predicts to be popular: the more of its predictions are right, not stale, the better
  // it balances.
  const auto scored = [&](const std::string& options) {
    const Outcome done = run_epsim(dir, "balance " + small_scenario() + " --policies lina --set 'policies.lina={" +
                                            options + "}' --set 'plan_loads={kind: uniform}'");
    REQUIRE_MESSAGE(done.exit_code == 0, done.err);
    std::stringstream words(done.out.substr(done.out.rfind("lina")));
    std::string label, copies, pool, lost, planned;
    double score = 0;
    words >> label >> copies >> pool >> lost >> planned >> score;
    return score;
  };
  CHECK(scored("accuracy: 1, distortion: 0") > scored("accuracy: 0.5, distortion: 0"));
  CHECK(scored("accuracy: 0.5, distortion: 0") > scored("accuracy: 0, distortion: 0"));
  CHECK(scored("accuracy: 0.5, distortion: 0") > scored("accuracy: 0.5, distortion: 2") + 0.01);
}

TEST_CASE("the ceilings bound what policies reach, in runs and in epsim balance") {
  const TempDir dir;
  const Outcome done = run_epsim(dir, "compare " + small_scenario() +
                                          " --policies base,eplb,oracle,perfect -o out --set loads.variation=none"
                                          " --set loads.low=1.8");
  REQUIRE_MESSAGE(done.exit_code == 0, done.err);
  std::vector<double> balance;
  for (const char* policy : {"base", "eplb", "oracle", "perfect"}) {
    const nlohmann::json summary =
        nlohmann::json::parse(epsim::test::slurp(dir / ("out/" + std::string(policy) + "/summary.json")));
    balance.push_back(summary.at("balancedness").at("balancedness_mean").get<double>());
  }
  CHECK(std::is_sorted(balance.begin(), balance.end()));
  const nlohmann::json ranked = nlohmann::json::parse(epsim::test::slurp(dir / "out/comparison.json")).at("runs");
  std::set<std::string> last;
  for (std::size_t r = 0; r < ranked.size(); ++r) {
    CHECK(ranked[r].at("bound") == (r + 2 >= ranked.size()));
    if (ranked[r].at("bound")) {
      last.insert(ranked[r].at("policy"));
    }
  }
  CHECK(last == std::set<std::string>{"oracle", "perfect"});
  CHECK(balance.back() == doctest::Approx(1.0).epsilon(1e-6));
  const Outcome printed =
      run_epsim(dir, "balance " + small_scenario() + " --policies base,eplb,perfect --set loads.low=1.8");
  REQUIRE_MESSAGE(printed.exit_code == 0, printed.err);
  CHECK(printed.out.find("1.000") != std::string::npos);
}
