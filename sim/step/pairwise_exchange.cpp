#include "sim/step/pairwise_exchange.h"

#include <algorithm>
#include <numeric>

namespace epsim {
namespace {

Price longer(const Price& a, const Price& b) { return a.time >= b.time ? a : b; }

}  // namespace

void PairwiseExchange::price(const StepModel& model) {
  const LayerCosts& costs = model.costs();
  const Network& network = costs.network();
  const TrafficMatrix& traffic = model.traffic();
  const auto gpus = traffic.executed.size();
  tp_ = costs.parallelism().attention_tp;
  const std::size_t ranks = gpus / static_cast<std::size_t>(tp_);
  const auto price = [&](Bytes row, Direction direction, Network::PortPrices& out) {
    slowed_ = costs.slowed_links() ? costs.as_slowed(traffic, direction) : TrafficMatrix{};
    network.port_prices(costs.slowed_links() ? slowed_ : traffic, row, direction, out);
  };
  price(costs.dispatch_row(), Direction::kDispatch, gpu_dispatch_);
  price(costs.combine_row(), Direction::kCombine, gpu_combine_);
  rank_combine_.in.assign(ranks, {});
  rank_combine_.out.assign(ranks, {});
  rank_dispatch_out_.assign(ranks, {});
  tokens_.assign(ranks, 0.0);
  executed_.assign(ranks, 0.0);
  for (std::size_t g = 0; g < gpus; ++g) {
    const std::size_t r = g / static_cast<std::size_t>(tp_);
    rank_dispatch_out_[r] = longer(rank_dispatch_out_[r], gpu_dispatch_.out[g]);
    rank_combine_.in[r] = longer(rank_combine_.in[r], gpu_combine_.in[g]);
    rank_combine_.out[r] = longer(rank_combine_.out[r], gpu_combine_.out[g]);
    executed_[r] += traffic.executed[g];
  }
  for (std::size_t r = 0; r < ranks; ++r) {
    tokens_[r] = static_cast<double>(model.ranks()[r].tokens);
  }
  all_tokens_ = std::accumulate(tokens_.begin(), tokens_.end(), 0.0);
  all_executed_ = std::accumulate(executed_.begin(), executed_.end(), 0.0);
}

TickCost PairwiseExchange::cost(const StepTask& task) const {
  const auto index = static_cast<std::size_t>(task.index), from = static_cast<std::size_t>(task.from);
  const auto part_of = [](const Price& price, double part, double all) {
    return tick_cost({price.time * (all > 0 ? part / all : 0.0), price.origin});
  };
  switch (task.stage) {
    case Stage::kDispatchOut:
      return tick_cost(rank_dispatch_out_[index]);
    case Stage::kCombineOut:
      return tick_cost(rank_combine_.out[index]);
    case Stage::kDispatchIn: {
      const double local = tokens_[index / static_cast<std::size_t>(tp_)] / tp_;  // stay on the GPU
      const bool own = from == index / static_cast<std::size_t>(tp_);
      return part_of(gpu_dispatch_.in[index], tokens_[from] - (own ? local : 0.0), all_tokens_ - local);
    }
    default:
      return part_of(rank_combine_.in[index], executed_[from], all_executed_);
  }
}

}  // namespace epsim
