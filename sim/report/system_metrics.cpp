// What the system under a service does: KV memory, transfers, new plans, lost hardware, links.
#include <algorithm>
#include <array>
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
      {{"kv_tokens_per_rank",
        "tokens",
        "Blocks of a DP rank x tokens of a block.",
        kCount,
        kHigher,
        [](Run r) { return r.kv.blocks_per_rank * r.kv.block_tokens; },
        {},
        {.place = 11,
         .label = "KV room per rank",
         .header = {"KV pool", "tokens", "/rank"},
         .csv = true,
         .change = "kv_tokens_change_share"}},
       {"kv_pool_gib_per_gpu",
        "GiB",
        "Memory of the pool on a GPU.",
        kThreeDigits,
        kHigher,
        [](Run r) { return to_gib(r.memory.kv_pool); },
        {},
        {.place = 12, .header = {"KV pool", "GiB", "/GPU"}, .csv = true}},
       {"kv_bytes_per_token_per_gpu", "bytes", "KV cache of a token on a GPU, all layers.", kNumber, kLower,
        [](Run r) { return r.memory.kv_bytes_per_token.count(); }},
       {"kv_lost_to_copies_share",
        "share",
        "Share of the pool there would be with an even share of the experts on every GPU and no buffers that experts "
        "beyond it took (copies, or where the plan has none, uneven homes) and the policy's buffers (for experts "
        "fetched "
        "in a step, or on the move in a rebalance).",
        kPercent,
        kLower,
        [](Run r) { return r.memory.lost_to_extras; },
        {},
        {.place = 13, .header = {"lost to", "extras", "%"}, .csv = true}},
       {"kv_copies_gib_per_gpu",
        "GiB",
        "What that share amounts to: pool x lost / (1 - lost).",
        kThreeDigits,
        kLower,
        [](Run r) { return to_gib(r.memory.copies + r.memory.buffers); },
        {},
        {.change = "copies_change_gib_per_gpu"}},
       {"kv_peak_use_share",
        "share",
        "Largest number of blocks reserved on any rank / blocks of a rank; of decode instances where there are any.",
        kPercent,
        kNeither,
        [](Run r) { return ratio(static_cast<double>(r.kv.peak_blocks), static_cast<double>(r.kv.blocks_per_rank)); },
        {},
        {.place = 14, .label = "KV peak use", .csv = true}},
       {"kv_mean_use_share", "share",
        "Blocks reserved / blocks: mean over time (pauses included) and ranks; of decode instances where there are "
        "any.",
        kPercent, kNeither, [](Run r) { return r.steps > 0 ? r.kv.mean_use : kUndefined; }},
       {"kv_full_time_share", "share",
        "Of the step time: a request at the head of a queue lacked blocks; of all instances.", kPercent, kLower,
        [](Run r) { return r.steps > 0 ? r.kv.time_full_share : kUndefined; }}});
}

void add_kv_traffic(MetricRows& rows) {
  add_rows(
      rows, "kv",
      {{"prefix_lookup_tokens", "tokens", "Input tokens of the requests that were admitted; a request counts once.",
        kCount, kNeither, [](Run r) { return r.kv.lookup_tokens; }},
       {"prefix_hit_tokens", "tokens", "Of these, found in the prefix cache at admission and not computed.", kCount,
        kHigher, [](Run r) { return r.kv.hit_tokens; }},
       {"prefix_hit_share", "share", "`prefix_hit_tokens` / `prefix_lookup_tokens`.", kPercent, kHigher,
        [](Run r) { return ratio(static_cast<double>(r.kv.hit_tokens), static_cast<double>(r.kv.lookup_tokens)); }},
       {"retractions", "",
        "`summary.json`: requests sent back to wait for lack of KV blocks (SGLang's retraction, vLLM's preemption), "
        "each "
        "time counted. `requests.csv`: of this request.",
        kCount, kLower, [](Run r) { return r.kv.retractions; }},
       {"recomputed_tokens", "tokens", "Tokens whose keys and values were computed once more because of that.", kCount,
        kLower, [](Run r) { return r.kv.recomputed_tokens; }}});
  add_rows(rows, "kv_transfers",
           {{"transfers", "", "Their number, one per request of more than one output token.", kCount, kNeither,
             [](Run r) { return r.transfers.count; }},
            {"transferred_tokens", "tokens", "Input tokens whose keys and values they carried.", kCount, kNeither,
             [](Run r) { return r.transfers.tokens; }},
            {"transfer_mean_ms", "ms", "Mean time on the link.", kNumber, kLower,
             [](Run r) { return ratio(r.transfers.time.count() * 1e3, static_cast<double>(r.transfers.count)); }},
            {"transfer_wait_mean_ms", "ms",
             "Mean wait of a prompt, or its last part, behind other prompts and its own earlier parts, at both ends.",
             kNumber, kLower,
             [](Run r) { return ratio(r.transfers.wait.count() * 1e3, static_cast<double>(r.transfers.count)); }}});
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
      {{"rebalance_plans", "", "Plans made.", kCount, kNeither,
        where_rebalanced([](Report r) { return r.events.size(); })},
       {"rebalance_taken", "", "Those that were taken.", kCount, kNeither, plans_that_were(RebalanceOutcome::kTaken)},
       {"rebalance_unchanged", "", "Those that leave every expert where it is.", kCount, kNeither,
        plans_that_were(RebalanceOutcome::kUnchanged)},
       {"rebalance_turned_down", "", "Those that the rule turned down.", kCount, kNeither,
        plans_that_were(RebalanceOutcome::kTurnedDown)},
       {"rebalance_did_not_fit", "",
        "Those whose fullest GPU, after some layer's switch, needs more memory for experts than the first plan's.",
        kCount, kNeither, plans_that_were(RebalanceOutcome::kDidNotFit)},
       {"rebalance_cut_short", "", "Those that were taken but had not arrived in full when GPUs went or came back.",
        kCount, kNeither, plans_that_were(RebalanceOutcome::kCutShort)},
       {"rebalance_moved_copies", "", "Weights of an expert of one layer brought to another GPU.", kCount, kLower,
        where_rebalanced([](Report r) { return r.sum().moved_copies; })},
       {"rebalance_moved_gib", "GiB", "Their size together.", kThreeDigits, kLower,
        where_rebalanced([](Report r) { return to_gib(r.sum().moved); })},
       {"rebalance_planning_s", "s", "For which steps waited for plans.", kThreeDigits, kLower,
        rebalance_time(&RebalanceEvent::planning)},
       {"rebalance_moving_s", "s", "For which steps waited for weights.", kThreeDigits, kLower,
        rebalance_time(&RebalanceEvent::moving)},
       {"rebalance_slowed_s", "s", "Extra time of steps during background transfers.", kThreeDigits, kLower,
        rebalance_time(&RebalanceEvent::slowed)},
       {"rebalance_lost_s", "s", "The sum of the three.", kThreeDigits, kLower,
        where_rebalanced([](Report r) { return to_seconds(r.sum().lost()).count(); })},
       {"rebalance_gained_s", "s",
        "What the steps from the first switch on would have taken with the first plan, less what they took without the "
        "time lost; negative where the new plans were worse. How requests would have queued otherwise is not in it: "
        "compare with a run whose rule is `never`.",
        kThreeDigits, kHigher, where_rebalanced([](Report r) { return to_seconds(r.gained).count(); })}});
}

// Not defined where no GPU went.
template <class Value>
auto where_regrouped(Value value) {
  return [value](Run r) { return r.regroup.changes > 0 ? static_cast<double>(value(r.regroup)) : kUndefined; };
}

void add_lost_gpus(MetricRows& rows) {
  using Report = const RegroupReport&;
  add_rows(rows, "lost_gpus",
           {{"gpu_changes", "", "Times that GPUs of an instance went or came back.", kCount, kNeither,
             where_regrouped([](Report r) { return r.changes; })},
            {"remade_copies", "", "Copies of an expert of one layer brought to GPUs that did not hold it.", kCount,
             kLower, where_regrouped([](Report r) { return r.remade_copies; })},
            {"remade_moved_gib", "GiB", "What of them came from other GPUs, over the links.", kThreeDigits, kLower,
             where_regrouped([](Report r) { return to_gib(r.moved); })},
            {"remade_reloaded_gib", "GiB", "What came from outside.", kThreeDigits, kLower,
             where_regrouped([](Report r) { return to_gib(r.reloaded); })},
            {"remaking_s", "s", "For which instances stood still meanwhile, besides the declared times.", kThreeDigits,
             kLower, where_regrouped([](Report r) { return to_seconds(r.remaking).count(); })}});
}

void add_bottleneck(MetricRows& rows, Direction direction, const std::string& name, std::array<std::string, 3> texts) {
  add_rows(rows, name + "_bottleneck",
           {{name + "_bottleneck_link",
             "text",
             texts[0],
             kText,
             kNeither,
             {},
             [direction](Run r) { return run_bottleneck(r.detail, direction).link; }},
            {name + "_bottleneck_s", "s", texts[1], kNumber, kLower,
             [direction](Run r) {
               const BottleneckFigures found = run_bottleneck(r.detail, direction);
               return found.link.empty() ? kUndefined : found.bound_s;
             }},
            {name + "_bottleneck_share", "share", texts[2], kPercent, kNeither,
             [direction](Run r) { return run_bottleneck(r.detail, direction).share; }}});
}

void add_links(MetricRows& rows) {
  add_rows(rows, "busiest_link",
           {{"link_name",
             "text",
             "Its name: one direction of a GPU's port or of a node's NICs.",
             kText,
             kNeither,
             {},
             [](Run r) { return busiest_link(r).name; }},
            {"link_utilisation_share", "share", "Its bytes / (data-sheet rate x time of the run).", kPercent, kNeither,
             [](Run r) { return busiest_link(r).share; }}});
  add_bottleneck(rows, Direction::kDispatch, "dispatch",
                 {"Its name.", "Dispatch time, of all steps and layers, in which it was the one to wait for.",
                  "The same / dispatch time in which anything moved (in `layers.csv`: of the layer)."});
  add_bottleneck(rows, Direction::kCombine, "combine", {"As for dispatch.", "As for dispatch.", "As for dispatch."});
}

// One direction of a GPU's port or of a NIC: "node0.nic1.out", not what lies between the NIC and GPUs
// ("node0.nic1.bridge.out", "gpu3.nic.out").
bool is_of(const LinkTotals& link, std::string_view kind, std::string_view direction) {
  const bool attaches =
      kind == ".nic" && (link.name.find("gpu") != std::string::npos || link.name.find(".bridge.") != std::string::npos);
  return !attaches && link.name.find(kind) != std::string::npos && link.name.ends_with(direction);
}

// Mean over maximum of the bytes of all links of a kind and direction, weights that moved included; undefined where nothing
// went over them.
double link_balance(Run r, std::string_view kind, std::string_view direction) {
  double sum = 0, most = 0, count = 0;
  for (const LinkTotals& link : r.detail.links) {
    if (is_of(link, kind, direction)) {
      sum += link.bytes.count();
      most = std::max(most, link.bytes.count());
      ++count;
    }
  }
  return most > 0 ? sum / count / most : kUndefined;
}

void add_link_balance(MetricRows& rows) {
  add_rows(rows, "balancedness",
           {{"nic_sent_balance", "", "Mean / maximum over NICs of the bytes sent in the run, of tokens and weights.",
             kThreeDigits, kHigher, [](Run r) { return link_balance(r, ".nic", ".out"); }},
            {"nic_received_balance", "", "The same of bytes received.", kThreeDigits, kHigher,
             [](Run r) { return link_balance(r, ".nic", ".in"); }},
            {"gpu_sent_balance", "", "The same over GPUs' ports inside nodes, sent.", kThreeDigits, kHigher,
             [](Run r) { return link_balance(r, ".port", ".out"); }},
            {"gpu_received_balance", "", "The same over GPUs' ports inside nodes, received.", kThreeDigits, kHigher,
             [](Run r) { return link_balance(r, ".port", ".in"); }}});
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
           {{"assignments_routed", "", "Tokens x top-k x MoE layers; with a capacity the rows of the buffers.", kNumber,
             kNeither, [](Run r) { return r.conservation.assignments_routed; }},
            {"assignments_dropped", "", "Choices of tokens left out since the expert's buffer was full.", kNumber,
             kLower, [](Run r) { return r.conservation.assignments_dropped; }},
            {"assignments_rerouted", "", "Experts that tokens chose and `dispatch.collaborators` replaced.", kNumber,
             kLower, [](Run r) { return r.conservation.assignments_rerouted; }},
            {"assignments_executed", "", "Assignments that GPUs executed.", kNumber, kNeither,
             [](Run r) { return r.conservation.assignments_executed; }},
            {"sent_bytes", "bytes", "Bytes sent over all links.", kNumber, kNeither,
             [](Run r) { return r.conservation.bytes_sent; }},
            {"sent_between_nodes_bytes", "bytes", "Of these, what NICs sent.", kNumber, kNeither, sent_between_nodes},
            {"sent_inside_nodes_bytes", "bytes", "The rest: what went from GPU to GPU inside nodes, relays included.",
             kNumber, kNeither, [](Run r) { return r.conservation.bytes_sent - sent_between_nodes(r); }},
            {"received_bytes", "bytes", "Bytes received over all links.", kNumber, kNeither,
             [](Run r) { return r.conservation.bytes_received; }},
            {"little_mean_in_system_requests", "requests", "Mean number of requests in the system (L of Little's law).",
             kNumber, kNeither, [](Run r) { return r.conservation.little_l; }},
            {"little_arrivals_times_stay_requests", "requests", "Arrival rate x mean stay (lambda W of Little's law).",
             kNumber, kNeither, [](Run r) { return r.conservation.little_lambda_w; }}});
}

}  // namespace

void add_system_metrics(MetricRows& rows) {
  for (const auto part :
       {add_kv_pool, add_kv_traffic, add_rebalance, add_lost_gpus, add_link_balance, add_links, add_conservation}) {
    part(rows);
  }
}

}  // namespace epsim
