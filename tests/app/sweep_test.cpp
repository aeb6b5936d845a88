// `epsim sweep` through the program itself: what it writes and what it refuses.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/app/resume_support.h"
#include "traces/format/hdf5_file.h"

namespace fs = std::filesystem;
using epsim::test::contents;
using epsim::test::kSweepJob;
using epsim::test::Outcome;
using epsim::test::run_epsim;
using epsim::test::slurp;
using epsim::test::small_scenario;
using epsim::test::TempDir;

TEST_CASE("sweep: a row per point in order, with the figures that a run of its own gives") {
  const TempDir dir;
  const Outcome done = run_epsim(dir, kSweepJob + "-o out");
  REQUIRE_MESSAGE(done.exit_code == 0, done.err);
  std::istringstream csv(slurp(dir / "out/results.csv"));
  std::string line;
  std::getline(csv, line);
  CHECK(line.starts_with("point,requests.rate,cluster.nodes,policy,error,"));
  std::size_t row = 0;
  for (; std::getline(csv, line); ++row) {
    const std::string expected = std::to_string(row) + "," + std::vector{"10/s", "20/s", "40/s"}[row / 4] + "," +
                                 std::vector{"1", "2"}[row / 2 % 2] + "," + std::vector{"base", "eplb"}[row % 2] + ",,";
    CHECK_MESSAGE(line.starts_with(expected), line);
  }
  CHECK(row == 12);
  // Point 7: 20/s, 2 nodes, eplb.
  const std::string same = "run " + small_scenario() + " -q --set requests.rate=20/s --set cluster.nodes=2 ";
  REQUIRE(run_epsim(dir, same + "--set policy=eplb -o one").exit_code == 0);
  const auto summary = nlohmann::json::parse(slurp(dir / "one/summary.json"));
  epsim::Hdf5File h5 = epsim::Hdf5File::open(dir / "out/results.h5");
  std::vector<double> ttft(12);
  h5.dataset("results/ttft_mean_ms", 1).read<double>(0, 12, ttft);
  CHECK(ttft[7] == summary.at("latency").at("ttft_mean_ms").get<double>());
  CHECK(h5.read_texts("results/fingerprint")[7] == summary.at("fingerprint").get<std::string>());
  CHECK(h5.read_texts("results/policy")[7] == "eplb");
}

TEST_CASE("sweep: a policy whose keys do not vary has the figures of the first point that is alike") {
  const TempDir dir;
  const std::string job =
      "sweep " + small_scenario() + " -q --policies base,eplb --only-listed --vary requests.rate=10/s,20/s ";
  REQUIRE(run_epsim(dir, job + "--vary policies.eplb.num_redundant_experts=16,32 -o out").exit_code == 0);
  REQUIRE(run_epsim(dir, job + "--vary seed=3 --set policies.eplb.num_redundant_experts=32 -o alone").exit_code == 0);
  const auto fingerprints = [&](const char* folder, std::size_t rows) {
    const std::vector<std::string> out =
        epsim::Hdf5File::open(dir / folder / "results.h5").read_texts("results/fingerprint");
    REQUIRE(out.size() == rows);
    return out;
  };
  const auto all = fingerprints("out", 8), alone = fingerprints("alone", 4);  // rate, then copies, then the policy
  CHECK(all[0] == all[2]);
  CHECK(all[4] == all[6]);
  CHECK(all[0] != all[4]);
  CHECK(all[1] != all[3]);
  CHECK(std::vector{all[2], all[3], all[6], all[7]} == alone);
  CHECK(slurp(dir / "out/results.csv").find("\n2,10/s,32,base,,") != std::string::npos);
}

TEST_CASE("sweep: a policy that names another one runs at each of its values") {
  const TempDir dir;
  REQUIRE(run_epsim(dir, "sweep " + small_scenario() +
                             " -q --policies base,on --only-listed --set 'policies.on={kind: lplb, home: eplb}' "
                             "--vary policies.eplb.num_redundant_experts=16,32 -o out")
              .exit_code == 0);
  const std::vector<std::string> all = epsim::Hdf5File::open(dir / "out/results.h5").read_texts("results/fingerprint");
  REQUIRE(all.size() == 4);
  CHECK(all[0] == all[2]);
  CHECK(all[1] != all[3]);
}

TEST_CASE("sweep: one thread and two give the same bytes, goodput too") {
  const TempDir dir;
  for (const std::string& job :
       {kSweepJob,
        "sweep " + small_scenario() +
            " -q --vary seed=3,4 --policies base,eplb --only-listed --measure goodput --set requests.count=800 "
            "--tolerance 0.2 --k 3 --sensitivity 4 "}) {
    REQUIRE(run_epsim(dir, job + "-o one --threads 1 --overwrite").exit_code == 0);
    REQUIRE(run_epsim(dir, job + "-o two --threads 2 --overwrite").exit_code == 0);
    CHECK(contents(dir / "one") == contents(dir / "two"));
  }
  CHECK(slurp(dir / "one/results.csv").find("knee_requests_per_s") != std::string::npos);
  CHECK(slurp(dir / "one/results.csv").find(",ttft\n") != std::string::npos);  // knee_limit, the last column
  CHECK(slurp(dir / "one/curve.csv").starts_with("point,seed,policy,offered_requests_per_s,"));
  CHECK(slurp(dir / "one/knees.csv").starts_with("point,seed,policy,k,knee_requests_per_s,"));
}

TEST_CASE("sweep over seeds: one row for points that differ in their seed, with intervals and paired ratios") {
  const TempDir dir;
  const Outcome done = run_epsim(
      dir, "sweep " + small_scenario() +
               " -q --vary seed=3,4,5 --vary requests.rate=10/s,20/s --policies base,eplb --only-listed -o out");
  REQUIRE_MESSAGE(done.exit_code == 0, done.err);
  CHECK(done.out.find("mean +- 95 % interval") != std::string::npos);
  CHECK(done.out.find("times that") != std::string::npos);
  const auto rows_of = [&](const char* file) {
    std::istringstream csv(slurp(dir / file));
    std::vector<std::vector<std::string>> rows;
    for (std::string line; std::getline(csv, line);) {
      std::vector<std::string>& row = rows.emplace_back(1);
      bool quoted = false;
      for (const char c : line) {
        quoted = quoted != (c == '"');
        if (c == ',' && !quoted) {
          row.emplace_back();
        } else {
          row.back() += c;
        }
      }
    }
    return rows;
  };
  const auto results = rows_of("out/results.csv"), intervals = rows_of("out/intervals.csv");
  REQUIRE(results.size() == 1 + 12);
  // The number of a layer is a figure of a point, and has no mean over seeds.
  CHECK(std::ranges::find(results[0], "balancedness_worst_layer") != results[0].end());
  CHECK(std::ranges::none_of(intervals, [](const auto& row) { return row[2] == "balancedness_worst_layer"; }));
  CHECK(std::ranges::any_of(intervals, [](const auto& row) { return row[2] == "balancedness_worst_layer_mean"; }));
  const auto column =
      static_cast<std::size_t>(std::find(results[0].begin(), results[0].end(), "ttft_mean_ms") - results[0].begin());
  // The second rate under eplb: of each seed's four points (2 rates x 2 policies) the last, and base the one before.
  double own[3], ratio[3], mean = 0, ratio_mean = 0, squares = 0, ratio_squares = 0;
  for (std::size_t s = 0; s < 3; ++s) {
    own[s] = std::stod(results[1 + 4 * s + 3][column]);
    ratio[s] = own[s] / std::stod(results[1 + 4 * s + 2][column]);
    mean += own[s] / 3;
    ratio_mean += ratio[s] / 3;
  }
  for (std::size_t s = 0; s < 3; ++s) {
    squares += (own[s] - mean) * (own[s] - mean);
    ratio_squares += (ratio[s] - ratio_mean) * (ratio[s] - ratio_mean);
  }
  const std::vector<std::string> lead{"20/s", "eplb", "ttft_mean_ms", "3"};
  const auto row = std::find_if(intervals.begin(), intervals.end(), [&](const std::vector<std::string>& cells) {
    return std::equal(lead.begin(), lead.end(), cells.begin());
  });
  REQUIRE(row != intervals.end());
  CHECK(std::stod((*row)[4]) == doctest::Approx(mean));
  CHECK(std::stod((*row)[6]) == doctest::Approx(mean + 4.3027 * std::sqrt(squares / 2 / 3)).epsilon(1e-3));
  CHECK(std::stod((*row)[7]) == doctest::Approx(ratio_mean));
  CHECK(std::stod((*row)[8]) == doctest::Approx(ratio_mean - 4.3027 * std::sqrt(ratio_squares / 2 / 3)).epsilon(1e-3));
}

TEST_CASE("sweep: a point that fails is recorded and does not stop the rest") {
  const TempDir dir;
  const std::string job = "sweep " + small_scenario() + " -q --vary cluster.nodes=1,3,2 -o out ";
  const Outcome done = run_epsim(dir, job);
  CHECK(done.exit_code == 1);
  CHECK(done.out.find("1 of 3 points failed") != std::string::npos);
  CHECK(done.out.find("do not divide over 24 GPUs") != std::string::npos);
  const std::string csv = slurp(dir / "out/results.csv");
  CHECK(csv.find("\n0,1,,") != std::string::npos);
  CHECK(csv.find("\n1,3,--vary: `cluster.nodes`: 64 experts do not divide") != std::string::npos);
  CHECK(csv.find("\n2,2,,") != std::string::npos);
  const auto before = contents(dir / "out");
  CHECK(run_epsim(dir, job).exit_code == 1);  // known by now, and still told
  CHECK(run_epsim(dir, job + "--retry-failed").exit_code == 1);
  CHECK(contents(dir / "out") == before);
  // Several errors of a point are a line on the terminal.
  const Outcome two = run_epsim(
      dir, "sweep " + small_scenario() + " -q -o two --vary 'faults=[],[{at: 0s, gpu: 0, speed: 2, link_speed: 2}]'");
  CHECK(two.exit_code == 1);
  CHECK_MESSAGE(two.out.find("point 1 failed: 2 errors: --vary: `faults[0].speed`") != std::string::npos, two.out);
}

TEST_CASE("sweep: where a policy fails, the winner is said not to be compared with it") {
  const TempDir dir;
  // 64 + 8 experts divide over the 8 GPUs of one node, and not over the 16 of two.
  const Outcome done = run_epsim(dir, "sweep " + small_scenario() +
                                          " -q --policies base,eplb --only-listed --vary cluster.nodes=1,2 "
                                          "--vary policies.eplb.num_redundant_experts=8 -o out");
  CHECK(done.exit_code == 1);
  const std::string winners = slurp(dir / "out/winners.csv");
  CHECK_MESSAGE(winners.find("\n1,8,base,0,,,base,\n") != std::string::npos, winners);
  CHECK_MESSAGE(winners.find("\n2,8,base,0,,,base,eplb\n") != std::string::npos, winners);
  CHECK(done.out.find("not compared") != std::string::npos);
  CHECK(slurp(dir / "out/winners.svg").find(">base *</text>") != std::string::npos);
}

TEST_CASE("sweep: where all points keep up, no winner by requests/s is named; token counts are grouped") {
  const TempDir dir;
  const std::string job = "sweep " + small_scenario() + " -q --policies base,eplb --only-listed --set requests.count=";
  const Outcome low = run_epsim(dir, job + "200 --vary requests.rate=1/s,2/s -o low");
  REQUIRE_MESSAGE(low.exit_code == 0, low.err);
  CHECK_MESSAGE(low.out.find("No policy wins by requests/s: no point is overloaded") != std::string::npos, low.out);
  CHECK(low.out.find("a policy wins if") == std::string::npos);
  CHECK(slurp(dir / "low/winners.csv").find("\n1/s,base,0,") != std::string::npos);
  const Outcome high = run_epsim(dir, job + "200 --vary requests.rate=1/s,500/s -o high");
  REQUIRE_MESSAGE(high.exit_code == 0, high.err);
  CHECK_MESSAGE(high.out.find("a policy wins if") != std::string::npos, high.out);
  // Too few requests to call a point overloaded: 16 of 500 offered a second are not served in their time.
  const Outcome few = run_epsim(dir, job + "50 --vary requests.rate=500/s,2000/s -o few");
  CHECK(few.out.find("no point is overloaded") == std::string::npos);
}

TEST_CASE("sweep: a combination where all fail is counted with the added reference, and has a row of winners.csv") {
  const TempDir dir;
  const std::string nodes = "sweep " + small_scenario() + " -q --policies base,eplb --vary cluster.nodes=1,3 -o out";
  const Outcome done = run_epsim(dir, nodes);  // 64 experts over 24 GPUs, under base, eplb and contiguous
  CHECK(done.exit_code == 1);
  CHECK_MESSAGE(done.out.find("3 of 6 points failed") != std::string::npos, done.out);
  CHECK(slurp(dir / "out/winners.csv").find("\n3,,,,,,\"base, eplb, contiguous\"\n") != std::string::npos);
}

TEST_CASE("sweep refuses wrong options with a clear error and writes nothing") {
  struct Wrong {
    const char* arguments;
    std::vector<std::string> mentions;
  };
  const TempDir dir;
  std::filesystem::create_directory(dir / "taken");
  std::ofstream(dir / "taken/thesis.txt") << "mine";
  for (const Wrong& wrong :
       {Wrong{"", {"--vary", "as in"}}, Wrong{"--vary seed", {"seed", "key=a,b,c"}},
        Wrong{"--vary seed=1,,2", {"empty"}}, Wrong{"--vary 'seed=[1,2'", {"']' is missing"}},
        Wrong{"--vary seed=1 --vary seed=2", {"each key once"}},
        Wrong{"--vary seed=1 --seed 2", {"fixed by --set", "or --seed"}},
        Wrong{"--vary requests.rat=1/s,2/s", {"requests.rat", "rate"}},
        Wrong{"--vary policy=base,eplb", {"--policies"}}, Wrong{"--vary seed=1 --policies elpb", {"elpb", "eplb"}},
        Wrong{"--vary seed=1 --policies eplb,eplb", {"eplb", "twice"}},
        Wrong{"--vary seed=1 --measure godput", {"godput", "goodput"}},
        Wrong{"--vary seed=1 --k 3", {"k", "--measure goodput"}},
        Wrong{"--vary seed=1 --threads -1", {"threads", "0 (all cores)"}},
        Wrong{"--vary seed=1 --very", {"very", "vary"}}, Wrong{"--vary seed=1 -o taken", {"taken", "exists"}},
        Wrong{"--vary seed=1 -o taken --overwrite", {"taken", "sweep.json"}}}) {
    CAPTURE(wrong.arguments);
    const std::string target = std::string(wrong.arguments).find("-o taken") == std::string::npos ? " -o out " : " ";
    const Outcome refused = run_epsim(dir, "sweep " + small_scenario() + " -q " + wrong.arguments + target);
    CHECK(refused.exit_code == 2);
    for (const std::string& word : wrong.mentions) {
      CHECK_MESSAGE(refused.err.find(word) != std::string::npos, refused.err, " does not say ", word);
    }
    CHECK_FALSE(std::filesystem::exists(dir / "out"));
  }
  CHECK(slurp(dir / "taken/thesis.txt") == "mine");
}

TEST_CASE("without --output a sweep goes on in its own folder, and another one gets the next number") {
  const TempDir dir;
  const auto results_of = [&](const std::string& seeds) {
    const Outcome run = run_epsim(dir, "sweep " + small_scenario() + " --policies base -q --vary seed=" + seeds);
    CHECK(run.exit_code == 0);
    return run.out.substr(run.out.rfind("results: "));
  };
  CHECK(results_of("1,2") == "results: out/small-sweep\n");
  CHECK(results_of("1,2") == "results: out/small-sweep\n");
  CHECK(results_of("1,3") == "results: out/small-sweep-2\n");
  CHECK(std::filesystem::read_symlink(dir / "out/last") == "small-sweep-2");
}

TEST_CASE("a goodput sweep ends with the highest rate, where it is, and how sure that is") {
  const TempDir dir;
  const std::string search = "sweep " + small_scenario() +
                             " --policies base -q --measure goodput --slo 'ttft.p99<300ms' --tolerance 0.05 "
                             "--vary cluster.nodes=1,3,4 -o ";
  const Outcome one = run_epsim(dir, search + "one");
  CHECK_MESSAGE(one.out.find("Highest rate within the SLO: ") != std::string::npos, one.out, one.err);
  CHECK(one.out.find(" % more than the next,") != std::string::npos);
  CHECK(one.out.find("(one seed:") != std::string::npos);
  // 64 experts do not divide over 24 GPUs.
  CHECK(slurp(dir / "one/verdict.txt").find(" Of 3 combinations 1 failed and are not compared") != std::string::npos);
  const Outcome three = run_epsim(dir, search + "three --vary seed=1,2,3");
  CHECK(three.out.find("3 seeds)") != std::string::npos);
  CHECK(three.out.find("seed=1") == std::string::npos);  // a place is what varies besides the seed
}

TEST_CASE("a goodput sweep recommends neither ceilings nor variants, and its intervals have the brackets in them") {
  const TempDir dir;
  const Outcome done = run_epsim(dir, "sweep " + small_scenario() +
                                          " --policies eplb,perfect --split -q --measure goodput --slo "
                                          "'ttft.p99<300ms' --tolerance 0.2 --vary cluster.nodes=1,2 "
                                          "--vary seed=1,2 -o out");
  REQUIRE_MESSAGE(done.exit_code == 0, done.err);
  const std::string verdict = slurp(dir / "out/verdict.txt"), winners = slurp(dir / "out/winners.csv");
  CHECK(verdict.starts_with("Highest rate within the SLO: "));
  for (const char* unusable : {"perfect", "kv_free"}) {
    CAPTURE(unusable);
    CHECK(verdict.find(unusable) == std::string::npos);
    CHECK(winners.find(unusable) == std::string::npos);
    CHECK(slurp(dir / "out/results.csv").find(unusable) != std::string::npos);
  }
  const auto left_out = nlohmann::json::parse(slurp(dir / "out/sweep.json")).at("not_for_use");  // for the report
  CHECK(left_out == nlohmann::json({"perfect", "eplb:kv_free"}));
  std::istringstream intervals(slurp(dir / "out/intervals.csv"));
  for (std::string line; std::getline(intervals, line);) {
    if (line.starts_with("2,perfect,slo_requests_per_s,2,")) {
      std::istringstream cells(line.substr(line.find(",2,") + 3));
      double mean = 0, low = 0;
      char comma = 0;
      cells >> mean >> comma >> low;
      CHECK(mean - low >= 0.999 * 1.96 * 0.2 * mean / std::sqrt(12 * 2));
      return;
    }
  }
  FAIL("no such interval");
}

TEST_CASE("a goodput sweep says which combination alone meets the SLO, and that none does") {
  const TempDir dir;
  const auto last_lines = [&](const std::string& slo) {
    const Outcome run =
        run_epsim(dir, "sweep " + small_scenario() + " --policies base -q --measure goodput --tolerance 0.2 --slo '" +
                           slo + "' --vary requests.input_tokens=100,8000 -o '" + slo + "'");
    CHECK_MESSAGE(run.exit_code == 0, run.err);
    return run.out;
  };
  CHECK(last_lines("ttft.mean<40ms").find("\nOnly requests.input_tokens=100, base sustains a rate within the SLO") !=
        std::string::npos);
  CHECK(last_lines("ttft.mean<1us").find("\nNo combination sustains any rate within the SLO") != std::string::npos);
}

TEST_CASE("a sweep in a file: axes with labels, options by name, and a map of which policy to take where") {
  const TempDir dir;
  std::ofstream(dir / "study.yaml") << "scenario: " << small_scenario() << R"(
policies: contiguous,base,eplb
quiet: true
axes:
  loads:
    even: ['loads={kind: uniform}', 'plan_loads={kind: uniform}']
    hot: ['loads={kind: skew, range: [8, 8]}', 'plan_loads={kind: skew, range: [8, 8]}']
  seed: [1, 2]
)";
  const Outcome done =
      run_epsim(dir, "sweep study.yaml -o out --policies contiguous,eplb --only-listed --set requests.rate=2000/s");
  REQUIRE_MESSAGE(done.exit_code == 0, done.err);
  // The command line's policies count; where all experts take the same, copies serve no more than experts in order.
  const std::string winners = slurp(dir / "out/winners.csv");
  CHECK(winners.starts_with(
      "loads,winner,gain_mean,gain_interval95_low,gain_interval95_high,over,not_compared\neven,contiguous,0,"));
  CHECK(winners.find("\nhot,eplb,0.") != std::string::npos);
  // The rule below the table is that of several seeds at one rate.
  CHECK(done.out.find("`over` and its 95 % interval") != std::string::npos);
  CHECK(done.out.find("tolerance") == std::string::npos);
  // What others have to gain over is the reference, wherever it stands in the list.
  REQUIRE(
      run_epsim(dir, "sweep study.yaml -o turned --policies eplb,contiguous --only-listed --set requests.rate=2000/s")
          .exit_code == 0);
  CHECK(slurp(dir / "turned/winners.csv") == winners);
  const std::string map = slurp(dir / "out/winners.svg");
  CHECK(map.starts_with("<svg "));
  CHECK(map.find(">even</text>") != std::string::npos);
  CHECK(map.find(">eplb +") != std::string::npos);
  CHECK(map.find(">base<") == std::string::npos);
  std::ofstream(dir / "wrong.yaml") << "scenario: " << small_scenario() << "\naxes:\n  nodes: {two: [cluster.nodes]}\n";
  const Outcome wrong = run_epsim(dir, "sweep wrong.yaml");
  CHECK(wrong.exit_code == 2);
  CHECK(wrong.err.find("two") != std::string::npos);
}
