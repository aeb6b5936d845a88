// What the system under a service does: KV memory, transfers, new plans, lost hardware, links.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "sim/report/bottleneck.h"
#include "sim/report/metric_rows.h"

namespace epsim {
namespace {

using enum Better;
using enum Form;
using Run = const RunResult&;

void add_kv_pool(MetricRows& rows) {
  add_rows(
      rows, "kv",
      {{"kv_tokens_per_rank", kCount, kHigher, [](Run r) { return r.kv.blocks_per_rank * r.kv.block_tokens; }},
       {"kv_pool_gib_per_gpu", kThreeDigits, kHigher, [](Run r) { return to_gib(r.memory.kv_pool); }},
       {"kv_bytes_per_token_per_gpu", kNumber, kLower, [](Run r) { return r.memory.kv_bytes_per_token.count(); }},
       {"kv_lost_to_copies_share", kPercent, kLower, [](Run r) { return r.memory.lost_to_extras; }},
       {"kv_copies_gib_per_gpu", kThreeDigits, kLower,
        [](Run r) { return to_gib(r.memory.copies + r.memory.buffers); }},
       {"kv_peak_use_share", kPercent, kNeither,
        [](Run r) { return ratio(static_cast<double>(r.kv.peak_blocks), static_cast<double>(r.kv.blocks_per_rank)); }},
       {"kv_mean_use_share", kPercent, kNeither, [](Run r) { return r.steps > 0 ? r.kv.mean_use : kUndefined; }},
       {"kv_full_time_share", kPercent, kLower,
        [](Run r) { return r.steps > 0 ? r.kv.time_full_share : kUndefined; }}});
}

void add_kv_traffic(MetricRows& rows) {
  add_rows(
      rows, "kv",
      {{"prefix_lookup_tokens", kCount, kNeither, [](Run r) { return r.kv.lookup_tokens; }},
       {"prefix_hit_tokens", kCount, kHigher, [](Run r) { return r.kv.hit_tokens; }},
       {"prefix_hit_share", kPercent, kHigher,
        [](Run r) { return ratio(static_cast<double>(r.kv.hit_tokens), static_cast<double>(r.kv.lookup_tokens)); }},
       {"retractions", kCount, kLower, [](Run r) { return r.kv.retractions; }},
       {"recomputed_tokens", kCount, kLower, [](Run r) { return r.kv.recomputed_tokens; }}});
  add_rows(rows, "kv_transfers",
           {{"transfers", kCount, kNeither, [](Run r) { return r.transfers.count; }},
            {"transferred_tokens", kCount, kNeither, [](Run r) { return r.transfers.tokens; }},
            {"transfer_mean_ms", kNumber, kLower,
             [](Run r) { return ratio(r.transfers.time.count() * 1e3, static_cast<double>(r.transfers.count)); }},
            {"transfer_wait_mean_ms", kNumber, kLower,
             [](Run r) { return ratio(r.transfers.wait.count() * 1e3, static_cast<double>(r.transfers.count)); }},
            {"transfer_memory_wait_mean_ms", kNumber, kLower, [](Run r) {
               return ratio(r.transfers.wait_for_memory.count() * 1e3, static_cast<double>(r.transfers.count));
             }}});
}

// Not defined where the policy does not plan again, so that the section is null.
template <class Value>
auto where_rebalanced(Value value) {
  return [value](Run r) { return r.rebalance.active ? static_cast<double>(value(r.rebalance)) : kUndefined; };
}
auto plans_that_were(RebalanceOutcome outcome) {
  return where_rebalanced([outcome](const RebalanceReport& r) { return r.count(outcome); });
}
auto rebalance_time(Ticks RebalanceEvent::*time) {
  return where_rebalanced([time](const RebalanceReport& r) { return to_seconds(r.sum().*time).count(); });
}

void add_rebalance(MetricRows& rows) {
  using Report = const RebalanceReport&;
  add_rows(
      rows, "rebalance",
      {{"rebalance_plans", kCount, kNeither, where_rebalanced([](Report r) { return r.events.size(); })},
       {"rebalance_taken", kCount, kNeither, plans_that_were(RebalanceOutcome::kTaken)},
       {"rebalance_unchanged", kCount, kNeither, plans_that_were(RebalanceOutcome::kUnchanged)},
       {"rebalance_turned_down", kCount, kNeither, plans_that_were(RebalanceOutcome::kTurnedDown)},
       {"rebalance_did_not_fit", kCount, kNeither, plans_that_were(RebalanceOutcome::kDidNotFit)},
       {"rebalance_cut_short", kCount, kNeither, plans_that_were(RebalanceOutcome::kCutShort)},
       {"rebalance_moved_copies", kCount, kLower, where_rebalanced([](Report r) { return r.sum().moved_copies; })},
       {"rebalance_moved_gib", kThreeDigits, kLower, where_rebalanced([](Report r) { return to_gib(r.sum().moved); })},
       {"rebalance_planning_s", kThreeDigits, kLower, rebalance_time(&RebalanceEvent::planning)},
       {"rebalance_moving_s", kThreeDigits, kLower, rebalance_time(&RebalanceEvent::moving)},
       {"rebalance_slowed_s", kThreeDigits, kLower, rebalance_time(&RebalanceEvent::slowed)},
       {"rebalance_lost_s", kThreeDigits, kLower,
        where_rebalanced([](Report r) { return to_seconds(r.sum().lost()).count(); })},
       {"rebalance_gained_s", kThreeDigits, kHigher,
        where_rebalanced([](Report r) { return to_seconds(r.gained).count(); })}});
}

// Not defined where no GPU went.
template <class Value>
auto where_regrouped(Value value) {
  return [value](Run r) { return r.regroup.changes > 0 ? static_cast<double>(value(r.regroup)) : kUndefined; };
}

void add_lost_gpus(MetricRows& rows) {
  using Report = const RegroupReport&;
  add_rows(
      rows, "lost_gpus",
      {{"gpu_changes", kCount, kNeither, where_regrouped([](Report r) { return r.changes; })},
       {"remade_copies", kCount, kLower, where_regrouped([](Report r) { return r.remade_copies; })},
       {"remade_moved_gib", kThreeDigits, kLower, where_regrouped([](Report r) { return to_gib(r.moved); })},
       {"remade_reloaded_gib", kThreeDigits, kLower, where_regrouped([](Report r) { return to_gib(r.reloaded); })},
       {"remaking_s", kThreeDigits, kLower, where_regrouped([](Report r) { return to_seconds(r.remaking).count(); })}});
}

void add_bottleneck(MetricRows& rows, Direction direction, const std::string& name) {
  add_rows(rows, name + "_bottleneck",
           {{name + "_bottleneck_link",
             kText,
             kNeither,
             {},
             [direction](Run r) { return run_bottleneck(r.detail, direction).link; }},
            {name + "_bottleneck_s", kNumber, kLower,
             [direction](Run r) {
               const BottleneckFigures found = run_bottleneck(r.detail, direction);
               return found.link.empty() ? kUndefined : found.bound_s;
             }},
            {name + "_bottleneck_share", kPercent, kNeither,
             [direction](Run r) { return run_bottleneck(r.detail, direction).share; }}});
}

void add_links(MetricRows& rows) {
  add_rows(rows, "busiest_link",
           {{"link_name", kText, kNeither, {}, [](Run r) { return busiest_link(r).name; }},
            {"link_utilisation_share", kPercent, kNeither, [](Run r) { return busiest_link(r).share; }}});
  add_bottleneck(rows, Direction::kDispatch, "dispatch");
  add_bottleneck(rows, Direction::kCombine, "combine");
}

// One direction of a GPU's port or of a NIC: "node0.nic1.out", not what lies between the NIC and GPUs
// ("node0.nic1.bridge.out", "gpu3.nic.out").
bool is_of(const LinkTotals& link, std::string_view kind, std::string_view direction) {
  const bool attaches =
      kind == ".nic" && (link.name.find("gpu") != std::string::npos || link.name.find(".bridge.") != std::string::npos);
  return !attaches && link.name.find(kind) != std::string::npos && link.name.ends_with(direction);
}

// Mean over maximum of the bytes of an instance's links of a kind and direction, weights that moved included, in the instance
// where that is least; undefined where nothing went over them.
double link_balance(Run r, std::string_view kind, std::string_view direction) {
  double out = kUndefined;
  for (int i = 0; i < std::ssize(r.instances); ++i) {
    double sum = 0, most = 0, count = 0;
    for (const LinkTotals& link : r.detail.links) {
      if (link.instance == i && is_of(link, kind, direction)) {
        sum += link.bytes.count();
        most = std::max(most, link.bytes.count());
        ++count;
      }
    }
    out = most > 0 ? std::fmin(out, sum / count / most) : out;
  }
  return out;
}

void add_link_balance(MetricRows& rows) {
  add_rows(rows, "balancedness",
           {{"nic_sent_balance", kThreeDigits, kHigher, [](Run r) { return link_balance(r, ".nic", ".out"); }},
            {"nic_received_balance", kThreeDigits, kHigher, [](Run r) { return link_balance(r, ".nic", ".in"); }},
            {"gpu_sent_balance", kThreeDigits, kHigher, [](Run r) { return link_balance(r, ".port", ".out"); }},
            {"gpu_received_balance", kThreeDigits, kHigher, [](Run r) { return link_balance(r, ".port", ".in"); }}});
}

// Bytes that NICs sent.
double sent_between_nodes(Run r) {
  double sum = 0;
  for (const LinkTotals& link : r.detail.links) {
    sum += is_of(link, ".nic", ".out") ? link.bytes.count() : 0;
  }
  return sum;
}

void add_conservation(MetricRows& rows) {
  add_rows(rows, "conservation",
           {{"assignments_routed", kNumber, kNeither, [](Run r) { return r.conservation.assignments_routed; }},
            {"assignments_dropped", kNumber, kLower, [](Run r) { return r.conservation.assignments_dropped; }},
            {"assignments_rerouted", kNumber, kLower, [](Run r) { return r.conservation.assignments_rerouted; }},
            {"assignments_executed", kNumber, kNeither, [](Run r) { return r.conservation.assignments_executed; }},
            {"sent_bytes", kNumber, kNeither, [](Run r) { return r.conservation.bytes_sent; }},
            {"sent_between_nodes_bytes", kNumber, kNeither, sent_between_nodes},
            {"sent_inside_nodes_bytes", kNumber, kNeither,
             [](Run r) { return r.conservation.bytes_sent - sent_between_nodes(r); }},
            {"received_bytes", kNumber, kNeither, [](Run r) { return r.conservation.bytes_received; }},
            {"little_mean_in_system_requests", kNumber, kNeither, [](Run r) { return r.conservation.little_l; }},
            {"little_arrivals_times_stay_requests", kNumber, kNeither,
             [](Run r) { return r.conservation.little_lambda_w; }}});
}

}  // namespace

void add_system_metrics(MetricRows& rows) {
  for (const auto part :
       {add_kv_pool, add_kv_traffic, add_rebalance, add_lost_gpus, add_link_balance, add_links, add_conservation}) {
    part(rows);
  }
}

}  // namespace epsim
