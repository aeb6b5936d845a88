// A step small enough to be worked out by hand.
#pragma once

#include <algorithm>
#include <vector>

#include "models/step/step_model.h"
#include "tests/models/profiles.h"

namespace epsim::test {

using namespace epsim::literals;

// The same mix in every step.
class FixedLoads final : public ExpertLoadSource {
 public:
  FixedLoads(int layers, std::vector<float> pi) : layers_(layers), pi_(std::move(pi)) {}
  int layers() const override { return layers_; }
  int experts() const override { return static_cast<int>(pi_.size()); }
  void draw(const StepAt&, std::span<const std::int64_t>, StepLoads& out) const override {
    out.resize(layers_, 1, experts());
    for (int l = 0; l < layers_; ++l) {
      std::copy(pi_.begin(), pi_.end(), out.row(l, 0).begin());
    }
  }

 private:
  int layers_;
  std::vector<float> pi_;
};

// Two nodes of two GPUs, one DP rank a node; one dense and two MoE layers, four experts of 1 MB matrices.
struct SmallStep {
  MoeSpec model;
  ClusterSpec cluster;
  Parallelism parallelism{.gpus = 4, .attention_tp = 2};
  PlacementPlan plan{.policy = "test",
                     .experts = 4,
                     .gpus = 4,
                     .layers = {uniform_layer({0, 1, 2, 3}, 4), uniform_layer({0, 1, 2, 3}, 4)}};
  SmallStep() {
    model.name = "tiny";
    model.layers = 3;
    model.first_dense_layers = 1;
    model.hidden = 1000;
    model.dense_intermediate = 4000;
    model.experts = 4;
    model.top_k = 2;
    model.moe_intermediate = 500;
    model.vocab = 2000;
    model.attention = {.kind = AttentionKind::kGqa, .heads = 8, .kv_heads = 8, .head_dim = 125};
    model.validate();
    cluster.node.gpu = {"gpu", 100_TFps, FlopsPerSecond(0), 80_GiB, BytesPerSecond(1e12), ""};
    cluster.node.gpus = 2;
    cluster.node.intra_rate = 100_GBps;
    cluster.node.nics = 1;
    cluster.node.nic_rate = 10_GBps;
    cluster.nodes = 2;
  }
  Placement placement() const { return Placement::build(plan, shape_of(cluster), Bytes(1), Bytes(1e9)); }
  StepModel step_model(const Placement& placement, const ExpertLoadSource& loads) const {
    return {model,     cluster, parallelism,     DispatchOptions{.exchange_counts = false},
            placement, loads,   plain_compute(), {plain_link(0.0, 0.5, 2), plain_link(0.0, 0.8, 4)}};
  }
};

}  // namespace epsim::test
