#include "sim/scenario/faults.h"

#include <doctest/doctest.h>

#include <string>

#include "sim/cluster/hardware_change.h"
#include "sim/cluster/run_policy.h"
#include "sim/core/error.h"
#include "sim/scenario/read_scenario.h"

using namespace epsim;

namespace {

Scenario scenario(const std::string& faults, const std::string& policy = "base") {
  return read_scenario(
      Config::from_text(
          "name: faults\nseed: 2\ncluster: {node: DGX-H200, nodes: 2}\nmodel: {architecture: olmoe-1b-7b}\n"
          "parallelism: {attention_tp: 2}\ndispatch: {transport: nccl_p2p}\nmemory: {static_fraction: 0.5}\n"
          "serving: {chunked_prefill_size: 2048}\n"
          "requests: {kind: constant, rate: 1000/s, count: 200, input_tokens: 2048, output_tokens: 8}\n"
          "loads: {kind: uniform}\nplan_loads: {kind: uniform}\n" +
              faults,
          "faults.yaml"),
      {policy});
}

RunResult run(const Scenario& s) { return run_policy(s, s.policies[0], {}); }

std::string why(const std::string& faults) {
  try {
    scenario(faults);
  } catch (const InputError& e) {
    return e.place.key + ": " + e.problem;
  }
  return "";
}

}  // namespace

TEST_CASE("a straggler from the start slows every step as its speed says, and loses no request") {
  const RunResult whole = run(scenario("")), slow = run(scenario("faults:\n  - {at: 0s, node: 0, speed: 0.5}\n"
                                                                 "  - {at: 0s, node: 1, speed: 0.5}\n"));
  CHECK(slow.completed == whole.completed);
  const auto experts = static_cast<std::size_t>(LayerPart::kExperts);
  // Both nodes at half speed. Steps differ in what they batch, so compare the time per step's work roughly: twice.
  CHECK(slow.time.by_part[experts] / whole.time.by_part[experts] == doctest::Approx(2.0).epsilon(0.1));
  const RunResult one = run(scenario("faults: [{at: 0s, gpu: 3, speed: 0.5}]\n"));
  CHECK(one.completed == whole.completed);
  CHECK(one.time.total > whole.time.total);
  CHECK(one.time.straggler > whole.time.straggler);
}

TEST_CASE("a fault holds from its time on, and ends") {
  const RunResult whole = run(scenario(""));
  CHECK(run(scenario("faults: [{at: 1000s, gpu: 0, speed: 0.1}]\n")).fingerprint == whole.fingerprint);
  const RunResult some = run(scenario("faults: [{at: 0s, until: 20ms, node: 0, link_speed: 0.1}]\n"));
  const RunResult all = run(scenario("faults: [{at: 0s, node: 0, link_speed: 0.1}]\n"));
  CHECK(whole.end < some.end);
  CHECK(some.end < all.end);
}

TEST_CASE("faults of one GPU multiply") {
  const std::vector<Fault> faults{{Ticks(10), Ticks(30), 0, 2, 0.5, 1.0}, {Ticks(20), Ticks(40), 1, 1, 0.5, 0.25}};
  ClusterSpec cluster;
  cluster.nodes = 1;
  cluster.node.gpus = 3;
  CHECK(conditions_at(faults, Ticks(9), cluster).gpu_speed.empty());
  CHECK(conditions_at(faults, Ticks(10), cluster).gpu_speed == std::vector<double>{0.5, 0.5, 1.0});
  CHECK(conditions_at(faults, Ticks(10), cluster).link_speed.empty());
  CHECK(conditions_at(faults, Ticks(20), cluster).gpu_speed == std::vector<double>{0.5, 0.25, 1.0});
  CHECK(conditions_at(faults, Ticks(20), cluster).link_speed == std::vector<double>{1.0, 0.25, 1.0});
  CHECK(conditions_at(faults, Ticks(30), cluster).gpu_speed == std::vector<double>{1.0, 0.5, 1.0});
}

TEST_CASE("task graphs and policies that act in every step know faults too") {
  for (const char* policy : {"libra", "harmoeny"}) {
    const RunResult whole = run(scenario("", policy));
    CHECK(run(scenario("faults: [{at: 0s, gpu: 3, speed: 0.3}]\n", policy)).time.total > whole.time.total);
  }
  const std::string event = "execution: {mode: event}\n", fault = "faults: [{at: 5ms, gpu: 3, speed: 0.3}]\n";
  CHECK(run(scenario(event + fault)).fingerprint == run(scenario(fault)).fingerprint);
}

TEST_CASE("faults that cannot be are refused, each with its reason") {
  CHECK(why("faults: [{at: -1s, gpu: 0, speed: 0.5}]\n").find("at") != std::string::npos);
  CHECK(why("faults: [{at: 1s, gpu: 16, speed: 0.5}]\n").find("0 to 15") != std::string::npos);
  CHECK(why("faults: [{at: 1s, node: 2, speed: 0.5}]\n").find("0 to 1") != std::string::npos);
  CHECK(why("faults: [{at: 1s, gpu: 0, node: 0, speed: 0.5}]\n").find("either") != std::string::npos);
  CHECK(why("faults: [{at: 1s, gpu: 0}]\n").find("for failed hardware") != std::string::npos);
  CHECK(why("faults: [{at: 1s, gpu: 0, speed: 0}]\n").find("lost") != std::string::npos);
  CHECK(why("faults: [{at: 1s, gpu: 0, speed: 1.5}]\n").find("at most 1") != std::string::npos);
  CHECK(why("faults: [{at: 2s, until: 1s, gpu: 0, speed: 0.5}]\n").find("ends after") != std::string::npos);
}
