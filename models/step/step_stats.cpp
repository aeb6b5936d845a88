#include "models/step/step_stats.h"

#include <algorithm>
#include <functional>

namespace epsim {

StepStats::StepStats(const MoeSpec& model, int gpus, const Network& network)
    : layer_ticks_(model.moe_layers()), link_bytes_(network.links().size(), 0.0) {
  const auto cells = static_cast<std::size_t>(model.moe_layers()) * static_cast<std::size_t>(gpus);
  totals_.gpus = gpus;
  totals_.balancedness = LayerSeries(model.moe_layers());
  totals_.gpu_load.assign(cells, 0.0);
  totals_.gpu_busy_s.assign(cells, 0.0);
  totals_.gpu_rows = {totals_.gpu_load, totals_.gpu_load, totals_.gpu_load, totals_.gpu_load};
  for (const int number : model.moe_layer_numbers()) {
    totals_.layers.push_back({.layer_number = number});
  }
  for (const Network::Link& link : network.links()) {
    totals_.links.push_back({link.name, link.rate, Bytes(0), link.end});
  }
  totals_.bottleneck_s.assign(totals_.layers.size() * 2 * totals_.links.size(), 0.0);
}

void StepStats::bottlenecks(int l, const MoeLayerCost& cost) {
  double* seconds = totals_.bottleneck_s.data() + 2 * static_cast<std::size_t>(l) * totals_.links.size();
  if (cost.dispatch_bottleneck >= 0) {
    seconds[cost.dispatch_bottleneck] += to_seconds(cost.dispatch.time).count();
  }
  if (cost.combine_bottleneck >= 0) {
    seconds[totals_.links.size() + static_cast<std::size_t>(cost.combine_bottleneck)] +=
        to_seconds(cost.combine.time).count();
  }
}

void StepStats::load(int l, const TrafficMatrix& traffic, const PriceRow& experts, double weight) {
  const std::size_t gpus = traffic.executed.size();
  double* load = totals_.gpu_load.data() + static_cast<std::size_t>(l) * gpus;
  double* busy = totals_.gpu_busy_s.data() + static_cast<std::size_t>(l) * gpus;
  for (std::size_t g = 0; g < gpus; ++g) {
    load[g] += traffic.executed[g];
    busy[g] += experts.seconds[g];
  }
  GpuRows& rows = totals_.gpu_rows;
  const auto first = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(l) * gpus);
  const auto add = [&](const std::vector<double>& more, std::vector<double>& all) {
    std::transform(more.begin(), more.end(), all.begin() + first, all.begin() + first, std::plus());
  };
  add(traffic.intra_out, rows.sent_inside);
  add(traffic.intra_in, rows.received_inside);
  add(traffic.inter_out, rows.sent_outside);
  add(traffic.inter_in, rows.received_outside);
  const double balance = balancedness(traffic.executed);
  LayerTotals& layer = totals_.layers[l];
  layer.balancedness_sum += balance * weight;
  totals_.balancedness.add(l, balance * weight);
  layer.balancedness_min = std::min(layer.balancedness_min, balance);
}

const StepTotals& StepStats::totals() {
  for (std::size_t i = 0; i < link_bytes_.size(); ++i) {
    totals_.links[i].bytes = Bytes(link_bytes_[i]);
  }
  for (std::size_t l = 0; l < layer_ticks_.size(); ++l) {
    for (std::size_t p = 0; p < kLayerParts; ++p) {
      totals_.layers[l].by_part[p] = to_seconds(Ticks(layer_ticks_[l][p]));
    }
  }
  return totals_;
}

}  // namespace epsim
