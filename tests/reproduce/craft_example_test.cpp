// Which setup a reproduction shows in detail, at which rate, and that its scenario says so.
#include "sim/reproduce/craft_example.h"

#include <doctest/doctest.h>
#include <tbb/global_control.h>

#include <sstream>

#include "sim/study/goodput.h"
#include "sim/study/load_point.h"

namespace epsim {
namespace {

PolicyEvidence searched(double knee) {
  PolicyEvidence out;
  GoodputSearch first, second;
  first.knee.rate = knee;
  second.knee.rate = knee / 2;  // another seed's, which does not count
  out.searches = {first, second};
  return out;
}

// `requests`: the YAML mapping of that section.
SetupEvidence setup_with(const std::string& requests) {
  SetupEvidence out;
  out.resolved = "name: craft\nseed: 3\nrequests: " + requests + "\n";
  out.policies = {{"base", searched(1.0)}, {"cra8", searched(1.5)}, {"eplb", searched(0.5)}, {"cra4", searched(0.1)}};
  return out;
}

const std::string kPoisson = "{kind: poisson, rate: 2/s, count: 7500, input_tokens: 4096, output_tokens: 256}";

std::string setup_of(const CraftEvidence& evidence) {
  const auto example = choose_craft_example(evidence);
  return example ? example->setup : "none";
}

}  // namespace

TEST_CASE("the setup shown is the first of the paper's on which all three policies were searched") {
  CraftEvidence evidence;
  CHECK(setup_of(evidence) == "none");
  evidence["dj8"] = evidence["ka8"] = evidence["ke12"] = setup_with(kPoisson);
  CHECK(setup_of(evidence) == "dj8");
  evidence["de8"] = setup_with(kPoisson);
  CHECK(setup_of(evidence) == "de8");
  evidence["de8"].policies["cra8"].searches.clear();  // planned, but not searched
  CHECK(setup_of(evidence) == "dj8");
  evidence["dj8"].policies.erase("base");
  CHECK(setup_of(evidence) == "ka8");  // in the setups' order, not that of their names
  evidence["ka8"] = setup_with("{kind: azure_csv, path: a.csv, rate: 2/s}");  // whose number is not ours to say
  CHECK(setup_of(evidence) == "ke12");
}

// Knees under the first seed: base 1.0, cra8 1.5, eplb 0.5; 0.9 x 0.5 = 0.45. cra4's 0.1 is not shown and counts for
// nothing.
TEST_CASE("its rate is 90 % of the lowest knee, of its requests a third") {
  for (const char* kind : {"poisson", "constant", "gamma, burstiness: 0.5"}) {
    CAPTURE(kind);
    const CraftEvidence evidence{
        {"ke6", setup_with(std::string("{kind: ") + kind +
                           ", rate: 2/s, count: 7500, input_tokens: 4096, output_tokens: 256}")}};
    const CraftExample example = choose_craft_example(evidence).value();
    CHECK(example.rate == doctest::Approx(0.45));
    CHECK(example.requests == 2500);
    std::ostringstream csv;
    write_craft_example_csv(csv, example);
    CHECK(csv.str() ==
          "setup,policy,knee_requests_per_s,lowest_knee_share,offered_requests_per_s,offered_requests\n"
          "ke6,base,1,0.9,0.45,2500\nke6,cra8,1.5,0.9,0.45,2500\nke6,eplb,0.5,0.9,0.45,2500\n");
  }
}

TEST_CASE("its scenario is the setup with these requests, and its runs do not depend on threads") {
  // Few batches and short answers: a matter of a second.
  const std::vector<std::string> small{"plan_loads.steps=4", "loads.steps=2", "requests.count=90",
                                       "requests.output_tokens=4"};
  const Scenario whole = craft_scenario(craft_setup("ke6"), CraftMemory::kPaper, small, {"base"});
  SetupEvidence setup = setup_with(kPoisson);
  setup.resolved = whole.resolved;
  const CraftExample example = choose_craft_example({{"ke6", setup}}).value();
  const Scenario scenario = craft_example_scenario(example);
  CHECK(scenario.name == "craft-ke6");
  REQUIRE(scenario.policies.size() == 3);
  REQUIRE(scenario.requests.requests.size() == 30);
  // The sample itself comes at the rate, not the process that it is drawn from, and in the searches' pattern.
  CHECK(arrival_rate(scenario.requests) == doctest::Approx(0.45).epsilon(1e-9));
  const RequestTrace part = at_rate(first_of(whole.requests, 30), 0.45);
  for (std::size_t r = 1; r < 30; ++r) {
    const auto& of = scenario.requests.requests;
    CHECK((of[r].arrival - of[0].arrival).count() ==
          doctest::Approx(static_cast<double>((part.requests[r].arrival - part.requests[0].arrival).count())));
  }

  const std::atomic<bool> go_on{false}, stop{true};
  const auto runs_with = [&](std::size_t threads) {
    const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, threads);
    return run_craft_example(scenario, go_on);
  };
  const std::vector<RunResult> one = runs_with(1), three = runs_with(3);
  for (std::size_t p = 0; p < kExamplePolicies.size(); ++p) {
    CHECK(one[p].label == kExamplePolicies[p]);
    CHECK(one[p].completed == 30);
    CHECK(one[p].fingerprint == three[p].fingerprint);
  }
  CHECK_THROWS_AS(run_craft_example(scenario, stop), StudyInterrupted);
}

}  // namespace epsim
