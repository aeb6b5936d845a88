// The network's reference model: topologies, routes and max-min flows of all-to-alls.
//   bench_network --benchmark_filter=layer    a layer's price, closed form, on a graph, and by flows
//   bench_network             the bar: 4032 flows of a 64-GPU all-to-all in milliseconds when they are symmetric
#include <benchmark/benchmark.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "models/catalogue/catalogue.h"
#include "models/network/fabric.h"
#include "models/network/make_network.h"
#include "models/network/max_min.h"
#include "models/network/traffic.h"
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

// One MoE layer as a run prices it: rows counted, dispatch and combine. 256 experts in order on p4de nodes, top-8, the
// hottest 8 times the mean.
void layer(benchmark::State& state, const NetworkOptions& options) {
  const NodeEntry node = find_node("p4de.24xlarge");
  const ClusterSpec cluster{.node = node.spec, .nodes = static_cast<int>(state.range(0)) / node.spec.gpus};
  const int gpus = cluster.gpus(), experts = std::max(256, gpus);
  const Parallelism parallelism{.gpus = gpus, .attention_tp = 8};
  std::vector<int> slots(static_cast<std::size_t>(experts));
  std::iota(slots.begin(), slots.end(), 0);
  const PlacementPlan plan{.policy = "bench", .experts = experts, .gpus = gpus, .layers = {uniform_layer(slots, gpus)}};
  const Placement placement = Placement::build(plan, shape_of(cluster), Bytes(1), Bytes(1e9));
  StepLoads loads;
  loads.resize(1, 1, experts);
  double all = 0;
  for (int e = 0; e < experts; ++e) {
    all += 1.0 / (e + 3);
  }
  for (int e = 0; e < experts; ++e) {
    loads.per_token[static_cast<std::size_t>(e)] = std::min(1.0F, static_cast<float>(8.0 / (e + 3) / all));
  }
  const std::unique_ptr<Network> network = make_network(cluster, node.network, options);
  TrafficModel counter(placement, parallelism, shape_of(cluster), Dedup::kGpu);
  const std::vector<std::int64_t> tokens(static_cast<std::size_t>(parallelism.dp_ranks()), 4096);
  std::vector<double> carried(network->links().size());
  TrafficMatrix traffic;
  for (auto _ : state) {
    counter.layer(0, loads, tokens, traffic);
    benchmark::DoNotOptimize(network->all_to_all(traffic, Bytes(14336), Direction::kDispatch, carried));
    benchmark::DoNotOptimize(network->all_to_all(traffic, Bytes(14336), Direction::kCombine, carried));
  }
}

void layer_two_tier(benchmark::State& state) { layer(state, {}); }
void layer_two_tier_leaves(benchmark::State& state) {
  layer(state, {.fabric = {.kind = FabricKind::kLeafSpine, .nodes_per_leaf = 2, .oversubscription = 2.0}});
}
void layer_max_min(benchmark::State& state) { layer(state, {.model = NetworkModel::kMaxMin}); }
BENCHMARK(layer_two_tier)->Arg(64)->Arg(256)->Unit(benchmark::kMicrosecond);
BENCHMARK(layer_two_tier_leaves)->Arg(64)->Arg(256)->Unit(benchmark::kMicrosecond);
BENCHMARK(layer_max_min)->Arg(16)->Arg(64)->Unit(benchmark::kMicrosecond);

BENCHMARK(p4de_symmetric)->Arg(16)->Arg(64)->Arg(256)->Unit(benchmark::kMillisecond);
BENCHMARK(p5_symmetric)->Arg(64)->Unit(benchmark::kMillisecond);
BENCHMARK(p4de_random)->Arg(16)->Arg(64)->Unit(benchmark::kMillisecond);
BENCHMARK(p5_random)->Arg(64)->Unit(benchmark::kMillisecond);
BENCHMARK(build_topology)->Arg(64)->Arg(1024)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace epsim
