// Planning times: one call plans all MoE layers of a model. Targets, on one core:
//   eplb : <= 3 ms for 60 x 384 -> 480 on 96 GPUs, <= 1.5 ms for 58 x 256 -> 320 on 64.
//   craft (claim C29: about 10 s): gains of 7 counts over 3000 batches x 58 x 256 on 64 GPUs <= 0.1 s, the whole plan <= 0.15 s.
//   grace: grouping for 48 x 128 experts <= 2 s.
//   libra: planning and sharding of one layer, 8 GPUs x 160 experts, <= 50 us; the CPU time of Libra's own execution.
#include <benchmark/benchmark.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "policies/per_step/libra.h"
#include "policies/placement/craft/craft.h"
#include "policies/placement/grace/grace.h"
#include "sim/core/rng.h"
#include "sim/domain/affinity.h"
#include "tests/policies/support.h"
#include "tests/support/residency.h"

namespace epsim {
namespace {

// Lognormal expert popularity, sigma 1: the hottest of 256 experts gets about 10x the mean.
LoadWindow skewed_loads(int layers, int experts) {
  RandomStream random(Seed{1}, "bench loads");
  LoadWindow load(layers, experts);
  for (int l = 0; l < layers; ++l) {
    for (double& x : load.layer(l)) {
      x = static_cast<double>(static_cast<std::int64_t>(random.lognormal(7, 1)));
    }
  }
  return load;
}

void plan(benchmark::State& state, const char* name, const char* yaml, int layers, int experts, ClusterShape shape) {
  const LoadWindow load = skewed_loads(layers, experts);
  const auto policy = test::policy(name, yaml);
  for (auto _ : state) {
    benchmark::DoNotOptimize(policy->plan(load, shape));
  }
}

BENCHMARK_CAPTURE(plan, eplb_60x384_to_480_on_96, "eplb", "{num_redundant_experts: 96}", 60, 384, ClusterShape{96, 8})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(plan, eplb_60x384_to_448_on_64, "eplb", "{num_redundant_experts: 64}", 60, 384, ClusterShape{64, 8})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(plan, eplb_58x256_to_320_on_64, "eplb", "{num_redundant_experts: 64}", 58, 256, ClusterShape{64, 8})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(plan, eplb_58x256_to_320_on_64_hierarchical, "eplb",
                  "{num_redundant_experts: 64, mode: hierarchical, num_groups: 8}", 58, 256, ClusterShape{64, 8})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(plan, eplb_58x256_to_320_on_64_libstdcxx, "eplb", "{num_redundant_experts: 64, ties: libstdcxx}", 58,
                  256, ClusterShape{64, 8})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(plan, base_58x256_on_64, "base", "{}", 58, 256, ClusterShape{64, 8})->Unit(benchmark::kMillisecond);

// The profile of CRAFT's Sec. 3.1 in size: 3000 batches of 58 x 256 counts that scatter around the layer's popularity.
const LoadWindow& craft_profile() {
  static const LoadWindow profile = [] {
    const LoadWindow mean = skewed_loads(58, 256);
    RandomStream random(Seed{2}, "bench batches");
    LoadWindow out(58, 256);
    out.reserve_batches(3000);
    std::vector<float> batch(58 * 256);
    for (int b = 0; b < 3000; ++b) {
      for (std::size_t i = 0; i < batch.size(); ++i) {
        const double popularity = mean.layer(static_cast<int>(i / 256))[i % 256];
        batch[i] = static_cast<float>(static_cast<int>(popularity * 2 * random.uniform()));
      }
      out.add_batch(batch);
    }
    return out;
  }();
  return profile;
}

void craft_gains(benchmark::State& state) {
  const LoadWindow& profile = craft_profile();
  for (auto _ : state) {
    benchmark::DoNotOptimize(estimate_gains(profile, CraftLayout::global(64), {}));
  }
}
BENCHMARK(craft_gains)->Unit(benchmark::kMillisecond);

void craft_whole_plan(benchmark::State& state) {
  const LoadWindow& profile = craft_profile();
  for (auto _ : state) {
    benchmark::DoNotOptimize(craft_plan({}, profile, {64, 8}));
  }
}
BENCHMARK(craft_whole_plan)->Unit(benchmark::kMillisecond);

// What each GPU of 8 asks of each expert in a step of 32768 tokens a GPU.
RequestMatrix skewed_requests(int experts) {
  const LoadWindow popularity = skewed_loads(1, experts);
  RandomStream random(Seed{3}, "bench requests");
  RequestMatrix requests(8, experts);
  for (int g = 0; g < 8; ++g) {
    for (int e = 0; e < experts; ++e) {
      const double mean = 32768 * popularity.layer(0)[static_cast<std::size_t>(e)] / popularity.total(0);
      requests.at(g, e) = static_cast<std::int64_t>(mean * (0.5 + random.uniform()));
    }
  }
  return requests;
}

void libra_layer(benchmark::State& state) {
  const auto experts = static_cast<int>(state.range(0));
  const RequestMatrix requests = skewed_requests(experts);
  const Residency home = test::contiguous(experts, 8);
  LibraPrefetchOptions options;
  options.relief = static_cast<LibraRelief>(state.range(1));
  for (auto _ : state) {
    const Residency held = libra_prefetch(requests, home, options);
    benchmark::DoNotOptimize(libra_shard(requests, held, {}));
  }
}
BENCHMARK(libra_layer)->ArgsProduct({{128, 160, 256}, {0, 1, 2}})->Unit(benchmark::kMicrosecond);

void step_policy_layer(benchmark::State& state, const char* name) {
  const auto experts = static_cast<int>(state.range(0));
  const RequestMatrix requests = skewed_requests(experts);
  const Residency home = test::contiguous(experts, 8);
  const auto policy = test::step_policy(name);
  for (auto _ : state) {
    benchmark::DoNotOptimize(policy->decide(requests, requests, home));
  }
}
BENCHMARK_CAPTURE(step_policy_layer, lina, "lina")->Arg(128)->Arg(160)->Arg(256)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(step_policy_layer, harmoeny, "harmoeny")->Arg(128)->Arg(160)->Arg(256)->Unit(benchmark::kMicrosecond);

// A model of Qwen3-30B's size: 48 layers of 128 experts in eight scattered communities, on 2 nodes of 4 GPUs.
void grace_plan(benchmark::State& state) {
  RandomStream random(Seed{4}, "bench affinity");
  auto affinity = std::make_shared<Affinity>(48, 128);
  for (int l = 0; l < 48; ++l) {
    for (int a = 0; a < 128; ++a) {
      for (int b = a + 1; b < 128; ++b) {
        affinity->add(l, a, b, (a % 8 == b % 8 ? 100.0 : 10.0) * random.uniform());
      }
    }
  }
  LoadWindow load = skewed_loads(48, 128);
  load.set_affinity(std::move(affinity));
  GraceOptions options;
  if (state.range(0) == 1) {
    options.ratio = std::nullopt;  // the knee
  }
  for (auto _ : state) {
    benchmark::DoNotOptimize(grace_plan(options, load, {8, 4}));
  }
}
BENCHMARK(grace_plan)->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace epsim
