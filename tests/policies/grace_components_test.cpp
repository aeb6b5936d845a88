// GRACE-MoE's component study (Sec. 5.3, Figure 5) on generated tokens of its three models with its cluster: 2 nodes of
// 2 or 4 RTX 4090 on PCIe 4.0 and 25 GbE, batches of 128 prompts of 64 tokens. Signs of acceptance G05 to G16.
//   Rows   : once per (token, node) and then on inside the node, as Sec. 5.1 says the authors send them. That matters
//   for
//            G16: with one row per (token, GPU), what topology-aware routing keeps from other nodes arrives at the
//            node's other GPU as one more row inside the node, and traffic inside nodes rises by 7 to 9 %.
//   Sizes  : the paper's tokens are not public; these follow the presets of traces/presets, whose affinity is that of
//            gpt-oss-20b. So sizes are held only where they come out (G07 and G11 of two models), and reported by the
//            README of policies for the rest.
#include <doctest/doctest.h>

#include <cmath>
#include <span>
#include <vector>

#include "models/catalogue/catalogue.h"
#include "models/catalogue/model_catalogue.h"
#include "models/compute/roofline.h"
#include "models/network/two_tier.h"
#include "tests/policies/grace_support.h"
#include "traces/routing_model/presets.h"
#include "traces/routing_model/token_sampler.h"

using namespace epsim;

namespace {

constexpr int kPrompts = 128, kPromptTokens = 64, kComponentLayers = 6;

// The preset's first layers and its tokens, some to plan from and others, of another domain, to run.
struct Workload {
  explicit Workload(const std::string& preset) : law(shortened(preset)), spec(find_model(law.model().model)) {
    TokenSampler sampler(law, Seed{3});
    planned = draw(sampler, 0);
    run = draw(sampler, 100000);
  }
  static RoutingModel shortened(const std::string& preset) {
    RoutingModel out = routing_preset(preset);
    out.layers.resize(kComponentLayers);
    return out;
  }
  test::RoutingShape shape() const { return {kComponentLayers, law.experts(), law.top_k()}; }
  std::vector<std::uint16_t> draw(TokenSampler& sampler, int first) const {
    const std::size_t prompt = shape().ids_per_token() * kPromptTokens;
    std::vector<std::uint16_t> out(prompt * kPrompts);
    for (int s = 0; s < kPrompts; ++s) {
      sampler.sample(first + s, kPromptTokens, std::span(out).subspan(prompt * static_cast<std::size_t>(s), prompt));
    }
    return out;
  }
  RoutingLaw law;
  MoeSpec spec;
  std::vector<std::uint16_t> planned, run;
};

struct Cluster {
  explicit Cluster(const std::string& node) : entry(find_node(node)) {
    spec.nodes = 2;
    spec.node = entry.spec;
  }
  ClusterShape shape() const { return {spec.gpus(), spec.node.gpus}; }
  NodeEntry entry;
  ClusterSpec spec;
};

// Sums over the layers of one step: rows, seconds, and assignments.
struct Outcome {
  double cross_node = 0, in_node = 0, all_to_all = 0, idle = 0, deviation = 0;
};

Outcome run(const char* policy, const Workload& workload, const LoadWindow& window, const Cluster& cluster,
            Dedup dedup = Dedup::kNode) {
  const ClusterShape shape = cluster.shape();
  const Placement placement = test::placed(policy, window, shape);
  TwoTierNetwork network(cluster.spec, cluster.entry.network);
  std::vector<double> link_bytes(network.links().size(), 0.0);
  Parallelism parallelism;
  parallelism.gpus = shape.gpus;
  const ComputeModel compute(workload.spec, cluster.spec.node.gpu, parallelism, cluster.entry.compute);
  std::vector<std::int32_t> gpu;  // data parallel: prompts are dealt to the GPUs
  for (int t = 0; t < kPrompts * kPromptTokens; ++t) {
    gpu.push_back(t / kPromptTokens % shape.gpus);
  }
  Outcome out;
  for (int l = 0; l < kComponentLayers; ++l) {
    TrafficMatrix traffic;
    count_token_traffic<std::uint16_t>(placement, l, shape, dedup,
                                       test::layer_of<std::uint16_t>(workload.run, workload.shape(), l), gpu, traffic);
    out.cross_node += test::sum(traffic.inter_out);
    out.in_node += test::sum(traffic.intra_out);
    for (const Direction direction : {Direction::kDispatch, Direction::kCombine}) {
      out.all_to_all +=
          network.all_to_all(traffic, Bytes(workload.spec.hidden * 2.0), direction, link_bytes).price.time.count();
    }
    double busiest = 0, mean = 0;
    for (std::size_t g = 0; g < traffic.executed.size(); ++g) {
      const double time = compute.experts(traffic.executed[g], traffic.touched[g]).time.count();
      busiest = std::max(busiest, time);
      mean += time / shape.gpus;
    }
    out.idle += busiest - mean;
    out.deviation += test::deviation(traffic.executed);
  }
  return out;
}

double change(double now, double before) { return now / before - 1; }

}  // namespace

TEST_CASE("GRACE Figure 5: signs of every component's effect, three models on 2 x 2 and 2 x 4 RTX 4090") {
  for (const std::string preset : {"olmoe", "deepseek-v2-lite", "qwen3-30b"}) {
    CAPTURE(preset);
    const Workload workload(preset);
    const LoadWindow window = test::window_from_routing<std::uint16_t>(workload.planned, workload.shape());
    for (const std::string node : {"grace-2x4090", "grace-4x4090"}) {
      CAPTURE(node);
      const Cluster cluster(node);
      const Outcome vanilla = run("grace_vanilla", workload, window, cluster);
      const Outcome hg = run("grace_hg", workload, window, cluster);
      CHECK(hg.all_to_all < vanilla.all_to_all);  // G05
      CHECK(hg.cross_node < vanilla.cross_node);  // G06
      CHECK(hg.in_node < vanilla.in_node);        // G07
      CHECK(hg.idle > vanilla.idle);              // G08
      CHECK(hg.deviation > vanilla.deviation);    // G09
      const Outcome fr = run("grace_hg_fr", workload, window, cluster);
      const Outcome wrr = run("grace_hg_dr_wrr", workload, window, cluster);
      CHECK(wrr.idle < hg.idle);              // G10
      CHECK(wrr.deviation < hg.deviation);    // G11
      CHECK(fr.idle < hg.idle);               // G12
      CHECK(wrr.cross_node > hg.cross_node);  // G13
      CHECK(wrr.in_node > hg.in_node);
      const Outcome tar = run("grace_hg_dr_tar", workload, window, cluster);
      CHECK(tar.all_to_all < wrr.all_to_all);  // G14
      CHECK(tar.cross_node < wrr.cross_node);  // G15
      CHECK(tar.in_node < wrr.in_node);        // G16
      if (cluster.shape().gpus == 4) {         // the paper's study; on eight GPUs the two hardly differ
        CHECK(tar.idle > 0.999 * wrr.idle);    // OLMoE's are equal to 0.01 %
        CHECK(tar.deviation > wrr.deviation);
      }
      CHECK(tar.deviation < hg.deviation);
    }
  }
}

TEST_CASE("GRACE G07 and G11 in size, where generated tokens give it; G16 the other way where rows go to every GPU") {
  struct Row {
    std::string preset;
    double in_node, deviation;  // the paper's changes
  };
  for (const Row& row : {Row{"deepseek-v2-lite", -0.251, -0.480}, {"qwen3-30b", -0.358, -0.583}}) {
    CAPTURE(row.preset);
    const Workload workload(row.preset);
    const LoadWindow window = test::window_from_routing<std::uint16_t>(workload.planned, workload.shape());
    const Cluster cluster("grace-2x4090");
    const Outcome vanilla = run("grace_vanilla", workload, window, cluster);
    const Outcome hg = run("grace_hg", workload, window, cluster);
    const Outcome wrr = run("grace_hg_dr_wrr", workload, window, cluster);
    CHECK(std::fabs(change(hg.in_node, vanilla.in_node) - row.in_node) <= 0.10);
    CHECK(std::fabs(change(wrr.deviation, hg.deviation) - row.deviation) <= 0.15);  // 0.12 over all layers
    const Outcome flat_wrr = run("grace_hg_dr_wrr", workload, window, cluster, Dedup::kGpu);
    const Outcome flat_tar = run("grace_hg_dr_tar", workload, window, cluster, Dedup::kGpu);
    CHECK(flat_tar.cross_node + flat_tar.in_node < flat_wrr.cross_node + flat_wrr.in_node);
    CHECK(flat_tar.in_node > flat_wrr.in_node);
  }
}
