// The network's reference model: topologies, routes and max-min flows of all-to-alls.
//   bench_network             the bar: 4032 flows of a 64-GPU all-to-all in milliseconds when they are symmetric
#include <benchmark/benchmark.h>

#include "models/catalogue.h"
#include "models/network/fabric.h"
#include "models/network/max_min.h"
#include "sim/core/rng.h"

namespace epsim {
namespace {

ClusterSpec cluster_of(const char* node, std::int64_t gpus) {
  const NodeSpec spec = find_node(node).spec;
  return {.node = spec, .nodes = static_cast<int>(gpus) / spec.gpus};
}

// Every GPU to every other: 1 MB each, or a drawn part of it, so that no two flows end together.
std::vector<Flow> all_to_all(int gpus, bool random) {
  RandomStream draw(Seed{1}, "bench");
  std::vector<Flow> flows;
  for (int from = 0; from < gpus; ++from) {
    for (int to = 0; to < gpus; ++to) {
      if (from != to) {
        flows.push_back({from, to, Bytes(random ? 1e6 * (0.5 + draw.uniform()) : 1e6)});
      }
    }
  }
  return flows;
}

void run(benchmark::State& state, const char* node, bool random) {
  const Topology topology(plan_topology(cluster_of(node, state.range(0))));
  const std::vector<Flow> flows = all_to_all(topology.gpus(), random);
  int events = 0;
  for (auto _ : state) {
    const MaxMinResult result = max_min(topology, flows);
    events = result.events;
    benchmark::DoNotOptimize(result.time);
  }
  state.counters["flows"] = static_cast<double>(flows.size());
  state.counters["events"] = events;
}

void p4de_symmetric(benchmark::State& state) { run(state, "p4de.24xlarge", false); }
void p4de_random(benchmark::State& state) { run(state, "p4de.24xlarge", true); }
void p5_symmetric(benchmark::State& state) { run(state, "p5.48xlarge", false); }
void p5_random(benchmark::State& state) { run(state, "p5.48xlarge", true); }

void build_topology(benchmark::State& state) {
  const ClusterSpec cluster = cluster_of("p5.48xlarge", state.range(0));
  for (auto _ : state) {
    const Topology topology(plan_topology(cluster, {.kind = FabricKind::kRailOptimised}));
    benchmark::DoNotOptimize(topology.gpus());
  }
}

BENCHMARK(p4de_symmetric)->Arg(16)->Arg(64)->Arg(256)->Unit(benchmark::kMillisecond);
BENCHMARK(p5_symmetric)->Arg(64)->Unit(benchmark::kMillisecond);
BENCHMARK(p4de_random)->Arg(16)->Arg(64)->Unit(benchmark::kMillisecond);
BENCHMARK(p5_random)->Arg(64)->Unit(benchmark::kMillisecond);
BENCHMARK(build_topology)->Arg(64)->Arg(1024)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace epsim
