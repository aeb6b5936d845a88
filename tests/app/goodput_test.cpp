// `epsim goodput` through the program itself.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/app/process.h"

using epsim::test::Outcome;
using epsim::test::run_epsim;
using epsim::test::slurp;
using epsim::test::small_scenario;
using epsim::test::TempDir;

namespace {

const std::string kJob = "goodput " + small_scenario() + " -q --set requests.count=1600 --seeds 2 --sensitivity 2,8 ";

}  // namespace

TEST_CASE("goodput writes its files and shows the knee of every policy") {
  const TempDir dir;
  const Outcome done = run_epsim(dir, kJob + "--policies base,eplb -o out --slo ttft=60ms,itl=1s");
  REQUIRE_MESSAGE(done.exit_code == 0, done.err);
  for (const char* file : {"resolved.yaml", "goodput.json", "goodput.csv", "curve.csv"}) {
    CHECK(std::filesystem::exists(dir / "out" / file));
  }
  const auto json = nlohmann::json::parse(slurp(dir / "out/goodput.json"));
  REQUIRE(json.at("policies").size() == 2);
  for (const auto& policy : json.at("policies")) {
    const double knee = policy.at("knee").at("knee_requests_per_s").at("mean");
    CHECK(knee > 0);
    CHECK(knee < policy.at("saturation_requests_per_s").at("mean"));
    CHECK(policy.at("knee").at("knee_ttft_mean_ms").at("mean") <=
          5.0000001 * policy.at("idle_ttft_mean_ms").at("mean").get<double>());
    double last = 0;
    for (const auto& at_k : policy.at("sensitivity")) {
      CHECK(at_k.at("knee_requests_per_s").at("mean") >= last);
      last = at_k.at("knee_requests_per_s").at("mean");
    }
  }
  CHECK(done.out.find("eplb against base") != std::string::npos);
}

TEST_CASE("goodput: the same bytes with one thread and with two") {
  const TempDir dir;
  REQUIRE(run_epsim(dir, kJob + "--policies base,eplb -o a --threads 1").exit_code == 0);
  REQUIRE(run_epsim(dir, kJob + "--policies base,eplb -o b --threads 2").exit_code == 0);
  for (const char* file : {"resolved.yaml", "goodput.json", "goodput.csv", "curve.csv"}) {
    CAPTURE(file);
    CHECK(slurp(dir / "a" / file) == slurp(dir / "b" / file));
  }
}

TEST_CASE("goodput refuses wrong options with a clear error and writes nothing") {
  struct Wrong {
    const char* arguments;
    std::vector<std::string> mentions;
  };
  const TempDir dir;
  for (const Wrong& wrong :
       {Wrong{"--k 1", {"k", "exceed 1"}}, Wrong{"--k five", {"k", "five", "not a number"}},
        Wrong{"--seeds 0", {"seeds", "1 to 100"}}, Wrong{"--slo tftt=2s", {"tftt", "ttft"}},
        Wrong{"--slo ttft=2", {"slo", "unit", "ms"}}, Wrong{"--slo ttft=2s,ttft=3s", {"ttft", "twice"}},
        Wrong{"--rates -1", {"rates", "positive"}}, Wrong{"--tolerance 0", {"tolerance"}},
        Wrong{"--warmup 0.9", {"warmup"}}, Wrong{"--policies base,elpb", {"elpb", "eplb"}},
        Wrong{"--set requests.count=30", {"30 requests", "at least 40"}},
        Wrong{"--set requests.count=200 --set requests.output_tokens=200", {"200", "too few", "requests.count="}}}) {
    CAPTURE(wrong.arguments);
    const std::string policies = std::string(wrong.arguments).find("--policies") == 0 ? "" : "--policies base ";
    const Outcome refused = run_epsim(dir, "goodput " + small_scenario() + " -q -o out " + policies + wrong.arguments);
    CHECK(refused.exit_code == 2);
    for (const std::string& word : wrong.mentions) {
      CHECK_MESSAGE(refused.err.find(word) != std::string::npos, refused.err, " does not say ", word);
    }
    CHECK_FALSE(std::filesystem::exists(dir / "out"));
  }
}
