// Made-up hardware profiles with round numbers, so that tests can work prices out by hand.
#pragma once

#include "models/catalogue/hardware_profile.h"

namespace epsim::test {

inline Figure figure(double value, Origin origin = Origin::kMeasured) { return {value, origin, "made up for tests"}; }

// A link that needs `latency` and then runs at `share` of its rate, whatever the size (up to 1000 s on the wire).
inline LinkProfile plain_link(double latency_s, double share, int gpus) {
  LinkProfile link;
  link.name = "plain";
  link.base_latency = figure(latency_s);
  for (const CollectiveKind kind : {CollectiveKind::kAllToAll, CollectiveKind::kAllGather,
                                    CollectiveKind::kReduceScatter, CollectiveKind::kAllReduce}) {
    CollectiveCurve curve;
    curve.kind = kind;
    curve.gpus = gpus;
    curve.wire_share = 1.0;
    curve.link_rate = BytesPerSecond(1);
    curve.points = {{Bytes(0), Seconds(latency_s), Seconds(0)},
                    {Bytes(1000), Seconds(latency_s + 1000.0 / share), Seconds(1000)}};
    link.curves.push_back(curve);
  }
  return link;
}

// Half of the peak for every product, 80 % of the memory bandwidth, no constant per kernel.
inline ComputeProfile plain_compute() {
  ComputeProfile p;
  p.name = "plain";
  p.dense_gemm.points = {{1e-9, 0.5}, {1e12, 0.5}};
  GroupedGemmCurve grouped;
  grouped.hidden = 1000;
  grouped.intermediate = 200;
  grouped.experts = 10;
  grouped.curve.points = {{1.0, 0.5}, {1e6, 0.5}};
  p.grouped_gemm = {grouped};
  p.weight_read = figure(0.8);
  p.memory_bound = figure(0.8);
  p.kernel_constant = figure(0.0);
  p.attention_prefill = figure(0.5);
  p.attention_decode = figure(0.8);
  return p;
}

}  // namespace epsim::test
