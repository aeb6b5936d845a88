// Small routing models for tests.
#pragma once

#include <numeric>

#include "traces/format/trace.h"
#include "traces/routing_model/routing_law.h"

namespace epsim::test {

// `layers` equal layers of a power law: share of the r-th hottest expert ~ 1 / r, in order.
inline RoutingModel small_routing_model(int layers, int experts, int top_k, double sigma) {
  RoutingModel m;
  m.name = "toy-model";
  m.source = "made up for a test";
  m.experts = experts;
  m.top_k = top_k;
  m.factors = 4;
  m.sequence_tokens = 100;
  m.topic_tokens = 100;
  for (int l = 0; l < layers; ++l) {
    LayerRouting layer;
    layer.number = l;
    layer.sigma = sigma;
    for (int e = 0; e < experts; ++e) {
      layer.shares.push_back(1.0 / (e + 8));
    }
    const double sum = std::accumulate(layer.shares.begin(), layer.shares.end(), 0.0);
    for (double& s : layer.shares) {
      s /= sum;
    }
    m.layers.push_back(layer);
  }
  return m;
}

// Passes a trace on to two sinks.
class BothSinks final : public TraceSink {
 public:
  BothSinks(TraceSink& a, TraceSink& b) : a_(a), b_(b) {}
  void begin(const TraceInfo& info, int sources) override {
    a_.begin(info, sources);
    b_.begin(info, sources);
  }
  void loads(const LoadRow& row) override {
    a_.loads(row);
    b_.loads(row);
  }
  void tokens(const TokenBlock& block) override {
    a_.tokens(block);
    b_.tokens(block);
  }
  void table(const std::string& name, const Table& table) override {
    a_.table(name, table);
    b_.table(name, table);
  }

 private:
  TraceSink& a_;
  TraceSink& b_;
};

// Keeps a trace as it came.
struct KeptTrace final : TraceSink {
  TraceInfo info;
  int sources = 0;
  std::vector<double> counts;
  std::vector<std::uint16_t> experts;
  std::vector<std::int32_t> sequence;
  void begin(const TraceInfo& i, int s) override {
    info = i;
    sources = s;
  }
  void loads(const LoadRow& row) override { counts.insert(counts.end(), row.counts.begin(), row.counts.end()); }
  void tokens(const TokenBlock& block) override {
    experts.insert(experts.end(), block.experts.begin(), block.experts.end());
    sequence.insert(sequence.end(), block.sequence.begin(), block.sequence.end());
  }
  void table(const std::string&, const Table&) override {}
};

}  // namespace epsim::test
