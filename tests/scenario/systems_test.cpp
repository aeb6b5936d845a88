// Labels with sections of their own, with a policy for each pool, and per-step policies on a planned placement.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "sim/cluster/run_policy.h"
#include "sim/core/error.h"
#include "sim/scenario/compared_policies.h"
#include "sim/step/step_routing.h"
#include "tests/support/small_scenario.h"

namespace epsim {
using test::small;

namespace {

Config small_document(const std::vector<std::string>& settings) {
  Config config = Config::from_file(test::data_dir() / "small.yaml");
  config.set(settings);
  return config;
}

std::string fingerprint(const Scenario& s, std::size_t policy) {
  return run_policy(s, s.policies[policy], {}).fingerprint;
}

constexpr const char* kFew = "requests.count=6";

}  // namespace

TEST_CASE("systems: a label's sections act as --set on the whole scenario would, and on that label alone") {
  const Config config = small_document(
      {kFew, "policies={own: {kind: contiguous, dispatch: {dedup: none}, execution: {overlap: shared_expert}}}"});
  const Scenario s = read_scenario(config, {"own", "contiguous"});
  CHECK(s.policies[0].overrides == "dispatch.dedup=none, execution.overlap=shared_expert");
  const std::string plain = fingerprint(small({kFew, "policy=contiguous"}), 0);
  const std::string set =
      fingerprint(small({kFew, "policy=contiguous", "dispatch.dedup=none", "execution.overlap=shared_expert"}), 0);
  CHECK(plain != set);
  CHECK(fingerprint(s, 0) == set);
  CHECK(fingerprint(s, 1) == plain);
}

TEST_CASE("what no deployment can have: ceilings, and copies that take no KV room") {
  const Scenario s = read_scenario(
      small_document({kFew, "policies={free: {kind: eplb, copies_take_kv: false}, top: {kind: perfect}}"}),
      {"eplb", "free", "oracle", "top", "base"});
  CHECK(out_of_reach(s.policies) == std::vector<std::string>{"free", "oracle", "top"});
}

TEST_CASE("systems: the resolved scenario reads to itself, another engine and its defaults included") {
  const Config config =
      small_document({kFew, "serving={engine: sglang, chunked_prefill_size: 2048}",
                      "policies={other: {kind: eplb, num_redundant_experts: 16, serving: {engine: vllm}, "
                      "dispatch: {transport: null, dedup: null}}}"});
  const Scenario first = read_scenario(config, {"contiguous", "other"});
  const Scenario again = read_scenario(Config::from_text(first.resolved, "resolved.yaml"), {"contiguous", "other"});
  const Scenario third = read_scenario(Config::from_text(again.resolved, "resolved.yaml"), {"contiguous", "other"});
  CHECK(third.resolved == again.resolved);  // the first one marks defaults as such, in comments
  CHECK(fingerprint(again, 1) == fingerprint(first, 1));
  CHECK(system_of(first, first.policies[1]).serving.engine != first.serving.engine);
}

TEST_CASE("systems: labels that differ in how they run share a plan, policies with other options do not") {
  const Config config = small_document(
      {"policies={a: {kind: eplb, num_redundant_experts: 16}, b: {kind: eplb, num_redundant_experts: 16, dispatch: "
       "{dedup: none}}, c: {kind: eplb, num_redundant_experts: 32, dispatch: {dedup: none}}}"});
  const Scenario s = read_scenario(config, {"a", "b", "c"});
  PlanCache plans;
  for (const PolicyChoice& policy : s.policies) {
    prepare_run(s, policy, &plans);
  }
  CHECK(plans.made() == 2);
}

TEST_CASE("systems: an error names the key where the label has it") {
  const std::string text =
      "extends: " + (test::data_dir() / "small.yaml").string() +
      "\npolicies:\n  own:\n    kind: contiguous\n    dispatch: {transport: allgather_reducescatter, dedup: gpu}\n";
  const auto read = [](const std::string& document) {
    const std::filesystem::path file = std::filesystem::temp_directory_path() / "epsim-systems-test.yaml";
    std::ofstream(file) << document;
    const Config config = Config::from_file(file);
    try {
      read_scenario(config, {"own"});
    } catch (const InputError& error) {
      return error.place;
    }
    return InputPlace{};
  };
  const InputPlace place = read(text);
  CHECK(place.key == "policies.own.dispatch.dedup");
  CHECK(place.line == 5);
}

TEST_CASE("systems: collaborators constrain the routing of one label, and all others as collaborators change nothing") {
  const std::vector<std::string> tokens = {kFew, "loads={preset: olmoe, kind: model, affinity_tokens: 512}",
                                           "plan_loads={preset: olmoe, kind: model, affinity_tokens: 512}"};
  const auto with = [&](const std::string& policies) {
    std::vector<std::string> all = tokens;
    all.push_back(policies);
    return small_document(all);
  };
  const Scenario s = read_scenario(
      with("policies={c2r: {kind: contiguous, dispatch: {collaborators: 8}}, any: {kind: contiguous, dispatch: "
           "{collaborators: 63}}}"),
      {"c2r", "any", "contiguous"});
  const ConservationReport c2r = run_policy(s, s.policies[0], {}).conservation;
  CHECK(c2r.assignments_rerouted > 0);
  // The first of eight choices is free.
  CHECK(c2r.assignments_rerouted < 7.0 / 8 * c2r.assignments_routed);
  CHECK(run_policy(s, s.policies[1], {}).conservation.assignments_rerouted == 0);
  CHECK(fingerprint(s, 1) == fingerprint(s, 2));
  CHECK(fingerprint(s, 0) != fingerprint(s, 2));
  // The label's own number takes precedence over the scenario's, and null removes it.
  Config whole = with(
      "policies={c2r: {kind: contiguous, dispatch: {collaborators: 8}}, free: {kind: contiguous, dispatch: "
      "{collaborators: null}}}");
  whole.set("dispatch.collaborators=16");
  const Scenario all = read_scenario(whole, {"c2r", "free", "contiguous"});
  CHECK(fingerprint(all, 0) == fingerprint(s, 0));
  CHECK(fingerprint(all, 1) == fingerprint(s, 2));
  const double wider = run_policy(all, all.policies[2], {}).conservation.assignments_rerouted;
  CHECK((wider > 0 && wider < c2r.assignments_rerouted));
  const Scenario again = read_scenario(Config::from_text(all.resolved, "resolved.yaml"), {"c2r", "free", "contiguous"});
  for (const std::size_t label : {0, 1, 2}) {
    CHECK(fingerprint(again, label) == fingerprint(all, label));
  }
}

TEST_CASE("systems: collaborators need enough experts to choose from, and tokens that show which work together") {
  const std::string own = "policies={own: {kind: contiguous, dispatch: {collaborators: ";
  CHECK_THROWS_WITH_AS(read_scenario(small_document({own + "6}}}"}), {"own"}), doctest::Contains("allowed are 7"),
                       InputError);
  // Buffers of one size in a pool meet the scenario's collaborators.
  CHECK_THROWS_WITH_AS(
      read_scenario(small_document({"cluster.node=DGX-H200", "dispatch.collaborators=8", "dispatch.dedup=none",
                                    "deployment={prefill: {dispatch: {capacity_factor: 1}}, decode: {}}"}),
                    {}),
      doctest::Contains("dispatch.collaborators out"), InputError);
  // All of OLMoE's 63 others: any.
  CHECK(read_scenario(small_document({"dispatch.collaborators=63"}), {}).dispatch.collaborators == 0);
  const Scenario s = read_scenario(small_document({own + "8}}}"}), {"own"});
  CHECK_THROWS_WITH_AS(prepare_run(system_of(s, s.policies[0]), s.policies[0]), doctest::Contains("affinity_tokens"),
                       InputError);
}

TEST_CASE("a policy for each pool: prefill and decode instances plan as the named policies do") {
  const std::vector<std::string> apart = {
      "cluster.node=DGX-H200", "deployment={prefill: {}, decode: {}}",
      "policies={split: {prefill: libra, decode: more}, more: {kind: eplb, num_redundant_experts: 16}}"};
  const Scenario s = read_scenario(small_document(apart), {"split", "libra", "more"});
  const PreparedRun split = prepare_run(s, s.policies[0]), libra = prepare_run(s, s.policies[1]),
                    more = prepare_run(s, s.policies[2]);
  CHECK(split.pools[0].policy.per_step != nullptr);
  CHECK(split.pools[0].memory.kv_pool == libra.pools[0].memory.kv_pool);
  CHECK(split.pools[1].plan.layers[0].slots == more.pools[1].plan.layers[0].slots);
  CHECK(split.pools[1].policy.label == "split");
  CHECK_THROWS_AS(read_scenario(small_document({apart[0], apart[2]}), {"split"}), InputError);  // no pools
}

TEST_CASE("per-step policies start from a planned placement, and not from one with copies") {
  const Scenario s = read_scenario(
      small_document({kFew,
                      "policies={moved: {kind: libra, home: scattered}, scattered: {kind: random}, copied: {kind: "
                      "libra, home: more}, more: {kind: eplb, num_redundant_experts: 16}}"}),
      {"moved", "scattered", "libra", "copied"});
  const PreparedRun moved = prepare_run(s, s.policies[0]), scattered = prepare_run(s, s.policies[1]);
  CHECK(moved.last().plan.layers[0].slots == scattered.last().plan.layers[0].slots);
  const LayerPlan& layer = moved.last().plan.layers[0];
  const Residency home = homes_of(moved.last().plan, 8)[0];
  for (int g = 0; g < 16; ++g) {
    CHECK(home.home_of(layer.slots[static_cast<std::size_t>(layer.first_slot[static_cast<std::size_t>(g)])]) == g);
  }
  CHECK(fingerprint(s, 0) != fingerprint(s, 2));
  CHECK_THROWS_WITH_AS(prepare_run(s, s.policies[3]), doctest::Contains("lie on one GPU each"), InputError);
}

}  // namespace epsim
