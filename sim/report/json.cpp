#include "sim/report/json.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "sim/report/ranking.h"

namespace epsim {
namespace {

using Json = nlohmann::ordered_json;  // keeps the order of insertion; writes NaN as null

constexpr int kFormat = 1;  // raised when a key changes its meaning or goes away

std::string text_of(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

void put_info(Json& out, const RunInfo& info) {
  out["format"] = kFormat;
  out["epsim_version"] = info.version;
  out["scenario"] = info.scenario;
  out["seed"] = info.seed;
  out["inputs"] = Json::array();
  for (const InputFile& file : info.inputs) {
    out["inputs"].push_back({{"file_name", file.name}, {"size_bytes", file.bytes}, {"content_hash", file.hash}});
  }
}

Json requests_of(const RunSummary& run) {
  return {{"closed_loop_clients", run.concurrency > 0 ? Json(run.concurrency) : Json(nullptr)},
          {"warmup_requests", run.warmup},
          {"offered_requests", run.offered},
          {"completed_requests", run.completed},
          {"failed_requests", run.failed},
          {"retried_requests", run.retries},
          {"running_requests", run.running},
          {"waiting_requests", run.waiting},
          {"completed_input_tokens", run.input_tokens},
          {"completed_output_tokens", run.output_tokens}};
}

Json throughput_of(const RunSummary& run) {
  const ThroughputFigures& t = run.throughput;
  return {{"duration_s", t.duration_s},
          {"offered_requests_per_s", t.offered_requests_per_s},
          {"requests_per_s", t.requests_per_s},
          {"input_tokens_per_s", t.input_tokens_per_s},
          {"output_tokens_per_s", t.output_tokens_per_s},
          {"input_tokens_per_s_per_gpu", t.input_tokens_per_s_per_gpu},
          {"output_tokens_per_s_per_gpu", t.output_tokens_per_s_per_gpu}};
}

void put_latency(Json& out, const std::string& name, const LatencyFigures& l) {
  out[name + "_mean_ms"] = l.mean_ms;
  out[name + "_p50_ms"] = l.p50_ms;
  out[name + "_p90_ms"] = l.p90_ms;
  out[name + "_p99_ms"] = l.p99_ms;
  out[name + "_max_ms"] = l.max_ms;
  out[name + "_samples"] = l.samples;
}

Json latencies_of(const RunSummary& run) {
  Json out;
  put_latency(out, "ttft", run.ttft);
  put_latency(out, "itl", run.itl);
  put_latency(out, "tpot", run.tpot);
  put_latency(out, "e2e", run.e2e);
  put_latency(out, "queue", run.queue);
  return out;
}

Json steps_of(const RunSummary& run) {
  Json out{{"steps", run.steps},
           {"graph_steps", run.replayed_steps},
           {"step_mean_ms", run.step_mean_ms},
           {"step_time_s", run.step_time_s},
           {"busy_share", run.busy_share}};
  for (std::size_t k = 0; k < kStepKinds; ++k) {  // of all instances
    const StepKindFigures& f = run.step_kinds[k];
    out[fmt::format("{}_steps", kStepKindNames[k])] = f.steps;
    out[fmt::format("{}_step_mean_ms", kStepKindNames[k])] = f.mean_ms;
    out[fmt::format("{}_step_time_share", kStepKindNames[k])] = f.time.share;
  }
  return out;
}

Json step_kinds_of(const RunSummary& run) {
  Json out = Json::array();
  for (const StepKindFigures& f : run.step_kinds) {
    Json& row = out.emplace_back(Json{{"pool", f.pool},
                                      {"step_kind", kStepKindNames[static_cast<std::size_t>(f.kind)]},
                                      {"steps", f.steps},
                                      {"step_mean_ms", f.mean_ms},
                                      {"step_time_s", f.time.seconds},
                                      {"step_time_share", f.time.share}});
    for (std::size_t p = 0; p < f.parts.size(); ++p) {
      row[fmt::format("{}_s", kLayerPartNames[p])] = f.parts[p].seconds;
    }
    row["straggler_s"] = f.straggler.seconds;
  }
  return out;
}

template <std::size_t n, class Names>
void put_shares(Json& out, const std::array<TimeShare, n>& times, const Names& names) {
  for (std::size_t i = 0; i < n; ++i) {
    out[fmt::format("{}_s", names[i])] = times[i].seconds;
    out[fmt::format("{}_share", names[i])] = times[i].share;
  }
}

Json balancedness_of(const RunSummary& run) {
  const BalanceFigures& b = run.balancedness;
  Json out{{"balancedness_mean", b.mean}, {"balancedness_worst_layer_mean", b.worst_layer_mean}};
  out["balancedness_worst_layer"] = b.worst_layer >= 0 ? Json(b.worst_layer) : Json(nullptr);
  out["balancedness_lowest_step"] = b.lowest_step;
  out["balancedness_planned"] = b.planned;
  return out;
}

Json kv_of(const RunSummary& run) {
  const KvFigures& kv = run.kv;
  return {{"kv_tokens_per_rank", kv.tokens_per_rank},
          {"kv_pool_gib_per_gpu", kv.gib_per_gpu},
          {"kv_bytes_per_token_per_gpu", kv.bytes_per_token_per_gpu},
          {"kv_lost_to_copies_share", kv.lost_to_copies_share},
          {"kv_copies_gib_per_gpu", kv.copies_gib_per_gpu},
          {"kv_peak_use_share", kv.peak_use_share},
          {"kv_mean_use_share", kv.mean_use_share},
          {"kv_full_time_share", kv.full_time_share},
          {"prefix_lookup_tokens", kv.lookup_tokens},
          {"prefix_hit_tokens", kv.hit_tokens},
          {"prefix_hit_share", kv.hit_share},
          {"retractions", kv.retractions},
          {"recomputed_tokens", kv.recomputed_tokens}};
}

Json instances_of(const RunSummary& run) {
  Json out = Json::array();
  for (const InstanceFigures& i : run.instances) {
    out.push_back(
        {{"instance_role", i.role}, {"steps", i.steps}, {"step_time_s", i.step_time_s}, {"busy_share", i.busy_share}});
  }
  return out;
}

Json transfers_of(const RunSummary& run) {
  return {{"transfers", run.transfers.count},
          {"transferred_tokens", run.transfers.tokens},
          {"transfer_mean_ms", run.transfers.mean_ms},
          {"transfer_wait_mean_ms", run.transfers.wait_mean_ms}};
}

Json memory_of(const RunSummary& run) {
  Json out = Json::array();
  for (const MemoryItem& item : run.memory.items) {
    out.push_back({{"memory_item", item.name}, {"memory_gib", to_gib(item.size)}});
  }
  return out;
}

// Null where the policy does not plan again.
Json rebalance_of(const RunSummary& run) {
  const RebalanceReport& r = run.rebalance;
  if (!r.active) {
    return nullptr;
  }
  const RebalanceEvent sum = r.sum();
  const auto seconds = [](Ticks time) { return to_seconds(time).count(); };
  return {{"rebalance_plans", r.events.size()},
          {"rebalance_taken", r.count(RebalanceOutcome::kTaken)},
          {"rebalance_unchanged", r.count(RebalanceOutcome::kUnchanged)},
          {"rebalance_turned_down", r.count(RebalanceOutcome::kTurnedDown)},
          {"rebalance_did_not_fit", r.count(RebalanceOutcome::kDidNotFit)},
          {"rebalance_cut_short", r.count(RebalanceOutcome::kCutShort)},
          {"rebalance_moved_copies", sum.moved_copies},
          {"rebalance_moved_gib", to_gib(sum.moved)},
          {"rebalance_planning_s", seconds(sum.planning)},
          {"rebalance_moving_s", seconds(sum.moving)},
          {"rebalance_slowed_s", seconds(sum.slowed)},
          {"rebalance_lost_s", seconds(sum.lost())},
          {"rebalance_gained_s", seconds(r.gained)}};
}

// Null where no GPU went.
Json regroup_of(const RunSummary& run) {
  const RegroupReport& r = run.regroup;
  if (r.changes == 0) {
    return nullptr;
  }
  return {{"gpu_changes", r.changes},
          {"remade_copies", r.remade_copies},
          {"remade_moved_gib", to_gib(r.moved)},
          {"remade_reloaded_gib", to_gib(r.reloaded)},
          {"remaking_s", to_seconds(r.remaking).count()}};
}

Json busiest_link_of(const RunSummary& run) {
  if (run.busiest_link.name.empty()) {
    return nullptr;
  }
  return {{"link_name", run.busiest_link.name}, {"link_utilisation_share", run.busiest_link.utilisation_share}};
}

Json bottleneck_of(const BottleneckFigures& bottleneck, const std::string& direction) {
  if (bottleneck.link.empty()) {
    return nullptr;
  }
  return {{direction + "_bottleneck_link", bottleneck.link},
          {direction + "_bottleneck_s", bottleneck.bound_s},
          {direction + "_bottleneck_share", bottleneck.share}};
}

Json conservation_of(const RunSummary& run) {
  const ConservationReport& c = run.conservation;
  return {{"assignments_routed", c.assignments_routed},
          {"assignments_executed", c.assignments_executed},
          {"sent_bytes", c.bytes_sent},
          {"received_bytes", c.bytes_received},
          {"little_mean_in_system_requests", c.little_l},
          {"little_arrivals_times_stay_requests", c.little_lambda_w}};
}

Json change_of(const Change& c) {
  return {{"requests_per_s_change_share", c.requests_per_s},
          {"ttft_mean_change_share", c.ttft_mean},
          {"itl_mean_change_share", c.itl_mean},
          {"e2e_mean_change_share", c.e2e_mean},
          {"kv_tokens_change_share", c.kv_tokens},
          {"copies_change_gib_per_gpu", c.copies_gib_per_gpu}};
}

Json interval_of(const Estimate& e) { return std::isfinite(e.half_width) ? Json{e.low(), e.high()} : Json(nullptr); }

Json over_seeds_of(const Comparison& runs, std::size_t policy) {
  Json out;
  for (const ComparedFigure& figure : compared_figures()) {
    const Estimate own = over_seeds(runs, policy, figure), apart = difference(runs, policy, figure);
    out[std::string(figure.key)] = {{"mean", own.mean},
                                    {"interval95", interval_of(own)},
                                    {"by_seed", by_seed(runs, policy, figure)},
                                    {"difference", {{"mean", apart.mean}, {"interval95", interval_of(apart)}}}};
  }
  return out;
}

// Null where every policy serves what is offered.
Json overload_of(const Comparison& runs) {
  const std::optional<Overload> o = overload(runs);
  if (!o) {
    return nullptr;
  }
  return {{"overloaded_policies", o->policies},
          {"offered_requests_per_s", o->offered_requests_per_s},
          {"most_served_requests_per_s", o->most_served_requests_per_s},
          {"rate_to_try_requests_per_s", o->rate_to_try_requests_per_s},
          {"text", o->text}};
}

// The sections that a summary and a comparison share.
void put_figures(Json& out, const RunSummary& run) {
  out["policy"] = run.label;
  out["plan"] = run.plan;
  out["fingerprint"] = run.fingerprint;
  out["interrupted"] = run.interrupted;
  out["overloaded"] = run.overloaded;
  out["gpus"] = run.gpus;
  out["requests"] = requests_of(run);
  out["throughput"] = throughput_of(run);
  out["latency"] = latencies_of(run);
  out["step"] = steps_of(run);
  out["step_kinds"] = step_kinds_of(run);
  out["balancedness"] = balancedness_of(run);
  out["kv"] = kv_of(run);
  out["instances"] = instances_of(run);
  out["kv_transfers"] = transfers_of(run);
  out["rebalance"] = rebalance_of(run);
  out["lost_gpus"] = regroup_of(run);
}

}  // namespace

std::string summary_json(const RunSummary& run, const RunInfo& info) {
  Json out;
  put_info(out, info);
  put_figures(out, run);
  put_shares(out["time_by_part"], run.parts, kLayerPartNames);
  out["straggler"] = {{"straggler_s", run.straggler.seconds}, {"straggler_share", run.straggler.share}};
  put_shares(out["time_by_origin"], run.origins, kOriginNames);
  out["carried_over"] = run.carried_over;
  out["warnings"] = run.warnings;
  out["memory"] = memory_of(run);
  out["busiest_link"] = busiest_link_of(run);
  out["dispatch_bottleneck"] = bottleneck_of(run.dispatch_bottleneck, "dispatch");
  out["combine_bottleneck"] = bottleneck_of(run.combine_bottleneck, "combine");
  out["conservation"] = conservation_of(run);
  return text_of(out);
}

std::string comparison_json(const Comparison& runs, const RunInfo& info) {
  Json out;
  put_info(out, info);
  out["seeds"] = runs.seeds.size();
  out["same_requests"] = runs.same_requests;
  out["ranking_rule"] = kRankingRule;
  out["compared_with"] = runs.by_policy.empty() ? Json(nullptr) : Json(runs.first_seed(0).label);
  out["overload"] = overload_of(runs);
  out["runs"] = Json::array();
  int rank = 0;
  for (const std::size_t i : rank_policies(runs)) {
    Json row;
    row["rank"] = ++rank;
    put_figures(row, runs.first_seed(i));
    row["change"] = change_of(change(runs.first_seed(0), runs.first_seed(i)));
    row["over_seeds"] = over_seeds_of(runs, i);
    out["runs"].push_back(std::move(row));
  }
  out["conclusions"] = conclusions(runs);
  return text_of(out);
}

}  // namespace epsim
