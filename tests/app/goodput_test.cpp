// `epsim goodput` through the program itself.
#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/app/resume_support.h"

using epsim::test::contents;
using epsim::test::finished_parts;
using epsim::test::Outcome;
using epsim::test::run_epsim;
using epsim::test::signal_after;
using epsim::test::slurp;
using epsim::test::small_scenario;
using epsim::test::TempDir;

namespace {

const std::string kSearchJob =
    "goodput " + small_scenario() + " -q --seeds 2 --only-listed --tolerance 0.2 --sensitivity 2,8 ";
const std::string kBranchesJob =
    "goodput " + small_scenario() + " -q --seeds 1 --only-listed --tolerance 0.2 --sensitivity 5 --branches ";
const std::string kSloJob =
    "goodput " + small_scenario() +
    " -q --seeds 2 --tolerance 0.2 --policies contiguous,eplb --only-listed --slo 'ttft.p95<80ms' ";
// Of study.json, resolved.yaml and the rest.
const std::vector<std::string> kFiles = {"resolved.yaml", "goodput.json", "goodput.csv", "curve.csv"};

}  // namespace

TEST_CASE("goodput writes its files, the same with one thread and with two, and shows the knee of every policy") {
  const TempDir dir;
  const Outcome done = run_epsim(dir, kSearchJob + "--policies base,eplb -o out --threads 2");
  REQUIRE_MESSAGE(done.exit_code == 0, done.err);
  REQUIRE(run_epsim(dir, kSearchJob + "--policies base,eplb -o one --threads 1").exit_code == 0);
  for (const std::string& file : kFiles) {
    CAPTURE(file);
    CHECK(slurp(dir / "out" / file).size() > 0);
    CHECK(slurp(dir / "one" / file) == slurp(dir / "out" / file));
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

TEST_CASE("goodput refuses wrong options with a clear error and writes nothing") {
  struct Wrong {
    const char* arguments;
    std::vector<std::string> mentions;
  };
  const TempDir dir;
  for (const Wrong& wrong :
       {Wrong{"--k 1", {"k", "exceed 1"}}, Wrong{"--k five", {"k", "five", "not a number"}},
        Wrong{"--seeds 0", {"seeds", "1 to 100"}}, Wrong{"--slo tftt=2s", {"tftt", "ttft"}},
        Wrong{"--slo ttft=2", {"slo", "unit", "ms"}},
        Wrong{"--set protocol.slo=ttft=2", {"protocol.slo", "unit", "ms"}},
        Wrong{"--slo ttft=2s,ttft=3s", {"ttft", "twice"}}, Wrong{"--rates -1", {"rates", "positive"}},
        Wrong{"--tolerance 0", {"tolerance"}}, Wrong{"--max-requests 500", {"max-requests", "1,000"}},
        Wrong{"--set requests.output_tokens=1 --slo 'ttft.p99<1s,tpot.p99<1s'", {"slo", "no time per output token"}},
        Wrong{"--max-requests few", {"max-requests", "'few'"}}, Wrong{"--warmup 0.9", {"warmup"}},
        Wrong{"--policies base,elpb", {"elpb", "eplb"}}}) {
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

TEST_CASE("goodput --slo: rate, limit and verdict, and none of the knee") {
  const TempDir dir;
  const Outcome done = run_epsim(dir, kSloJob + "-o out");
  REQUIRE_MESSAGE(done.exit_code == 0, done.err);
  const auto json = nlohmann::json::parse(slurp(dir / "out/goodput.json"));
  CHECK(json.at("slo").at("text") == "ttft.p95<80ms");
  for (const auto& search : json.at("searches")) {
    const double rate = search.at("slo").at("rate");
    CHECK(rate > 0);
    CHECK(search.at("slo").at("limit_term") == "ttft.p95<80ms");
    for (const auto& probe : search.at("curve")) {
      const double offered = probe.at("offered_requests_per_s");
      // Beside the interval of the rate, every probe is on its side.
      if (offered < search.at("slo").at("interval").at(0) || offered > search.at("slo").at("interval").at(1)) {
        CHECK((probe.at("ttft").at("p95") <= 0.08) == (offered < rate));
      }
    }
  }
  CHECK(done.out.find("knee") == std::string::npos);
  CHECK(done.out.find(json.at("verdict").at("text").get<std::string>().substr(0, 40)) != std::string::npos);
  CHECK(done.out.find("load balancing off") != std::string::npos);
}

TEST_CASE("goodput --branches: knees from both starts and with prompts together, and none of it without") {
  const TempDir dir;
  const Outcome done = run_epsim(dir, kBranchesJob + "--policies base,eplb -o out");
  REQUIRE_MESSAGE(done.exit_code == 0, done.err);
  CHECK(done.out.find("after a backlog:") != std::string::npos);
  CHECK(done.out.find("serving.enable_prefill_delayer=true") != std::string::npos);
  const auto json = nlohmann::json::parse(slurp(dir / "out/goodput.json"));
  // The knee is nearly the saturation throughput here, so a backlog would hardly shrink: no rate is served after one.
  CHECK(done.out.find("no rate was served after a backlog") != std::string::npos);
  for (const auto& policy : json.at("policies")) {
    CHECK(policy.at("starts").empty());
    CHECK(policy.at("aligned_requests_per_s").at("mean") > 0);
  }
  const Outcome short_runs =
      run_epsim(dir, kBranchesJob + "--policies base --set 'protocol={requests: 100, count: all}' -o short");
  CHECK(short_runs.exit_code == 2);
  CHECK(short_runs.err.find("Remove --branches") != std::string::npos);
  const Outcome aligned = run_epsim(dir, kBranchesJob +
                                             "--policies base -o held "
                                             "--set serving.enable_prefill_delayer=true");
  REQUIRE_MESSAGE(aligned.exit_code == 0, aligned.err);
  CHECK(aligned.out.find("not searched, since the scenario does so already") != std::string::npos);
}

TEST_CASE("goodput takes as many generated requests as it needs, whatever the scenario says") {
  const TempDir dir;
  for (const char* run : {"--set requests.count=30 -o few", "--set requests.count=5000 -o many",
                          "--set requests.count=null --set requests.duration=1s -o time"}) {
    const Outcome done =
        run_epsim(dir, "goodput " + small_scenario() +
                           " -q --seeds 1 --tolerance 0.2 --policies eplb --slo 'ttft.p95<80ms' " + run);
    REQUIRE_MESSAGE(done.exit_code == 0, done.err);
  }
  CHECK(slurp(dir / "few/curve.csv") == slurp(dir / "many/curve.csv"));
  CHECK(slurp(dir / "few/curve.csv") == slurp(dir / "time/curve.csv"));
}

TEST_CASE("goodput: a recording that is too short is told once, with what is missing") {
  const TempDir dir;
  {
    std::ofstream csv(dir / "r.csv");
    csv << "t,i,o\n";
    for (int i = 0; i < 200; ++i) {
      csv << 0.05 * i + 0.001 * (i * i % 37) << ",300,200\n";
    }
  }
  const Outcome done = run_epsim(
      dir, "goodput " + small_scenario() +
               " --policies base,eplb --seeds 2 --slo 'tpot.mean<1s' -o out --set 'requests={kind: csv, path: "
               "r.csv, arrival_column: t, input_column: i, output_column: o}'");
  CHECK(done.exit_code == 2);
  for (const char* word : {"200", "too few", "are needed", "longer recording"}) {
    CHECK_MESSAGE(done.err.find(word) != std::string::npos, done.err, " does not say ", word);
  }
  CHECK(done.err.find("too few") == done.err.rfind("too few"));
}

TEST_CASE("goodput: faults and loads that change at a time are refused, since its runs last as long as each needs") {
  const TempDir dir;
  for (const char* set : {"faults=[{at: 5s, gpu: 0, speed: 0.5}]", "faults=[{at: 0s, until: 9s, gpu: 0, speed: 0.5}]",
                          "loads={windows: [{kind: uniform, for: 9s}, {kind: zipf, exponent: 0.5, for: 1h}]}"}) {
    CAPTURE(set);
    const Outcome refused = run_epsim(dir, kSearchJob + "--policies base -o out --set '" + set + "'");
    CHECK(refused.exit_code == 2);
    CHECK_FALSE(std::filesystem::exists(dir / "out"));  // nothing in the way of the next try
    CHECK(refused.err.find("for as long as its verdict needs") != std::string::npos);
  }
}

TEST_CASE("goodput: an SLO that is never met is an answer, with exit code 3") {
  const TempDir dir;
  const Outcome done =
      run_epsim(dir, "goodput " + small_scenario() + " -q --seeds 1 --policies base,eplb --slo 'ttft.p50<10us' -o out");
  REQUIRE_MESSAGE(done.exit_code == 3, done.err);
  CHECK(done.out.find("No policy meets the SLO, not even with one request in the system") != std::string::npos);
}

TEST_CASE("goodput: options of the knee are refused beside an SLO, also the scenario's own") {
  const TempDir dir;
  for (const std::string slo : {"--slo 'ttft.p99<1s'", "--set 'protocol.slo=ttft.p99<1s'"}) {
    const Outcome refused = run_epsim(dir, "goodput " + small_scenario() + " -q --policies base --k 4 -o out " + slo);
    CHECK(refused.exit_code == 2);
    CHECK(refused.err.find("this option is for the knee") != std::string::npos);
  }
}

TEST_CASE("goodput: killed or interrupted, it goes on to the same bytes from the searches it finished") {
  const TempDir dir;
  REQUIRE(run_epsim(dir, kSloJob + "--threads 1 -o whole").exit_code == 0);
  const auto whole = contents(dir / "whole");
  for (const int signal : {SIGKILL, SIGTERM}) {
    CAPTURE(signal);
    const std::string name = "cut" + std::to_string(signal);
    signal_after(signal, dir, kSloJob + "--threads 1 -o " + name, dir / name / "searches", 2);
    const std::size_t finished = finished_parts(dir / name / "searches");
    CHECK(finished >= 2);
    CHECK(finished < 4);
    CHECK_FALSE(std::filesystem::exists(dir / name / "goodput.json"));
    const Outcome resumed = run_epsim(dir, kSloJob + "--threads 2 -o " + name);
    REQUIRE_MESSAGE(resumed.exit_code == 0, resumed.err);
    CHECK(contents(dir / name) == whole);
  }
}

TEST_CASE("goodput: goes on only with the inputs it began with") {
  const TempDir dir;
  std::ofstream(dir / "own.yaml") << slurp(epsim::test::data_dir() / "small.yaml");
  const std::string job = "goodput own.yaml -q --seeds 1 --tolerance 0.1 -o out ";
  REQUIRE(run_epsim(dir, job + "--slo 'ttft.p95<80ms'").exit_code == 0);
  const auto before = contents(dir / "out");
  const auto refused = [&](const std::string& arguments, const std::string& says) {
    const Outcome done = run_epsim(dir, job + arguments);
    CHECK(done.exit_code == 2);
    CHECK_MESSAGE(done.err.find(says) != std::string::npos, done.err, " does not say ", says);
    CHECK(done.err.find("--overwrite") != std::string::npos);
    CHECK(contents(dir / "out") == before);
  };
  refused("--slo 'ttft.p95<90ms'", "options/slo was \"ttft.p95<80ms\" and is \"ttft.p95<90ms\"");
  refused("--slo 'ttft.p95<80ms' --policies eplb", "policies/0");
  refused("--slo 'ttft.p95<80ms' --set requests.rate=9/s", "set/0 was absent and is \"requests.rate=9/s\"");
  CHECK(run_epsim(dir, job + "--slo 'ttft.p95<80ms'").exit_code == 0);
  CHECK(contents(dir / "out") == before);
}
