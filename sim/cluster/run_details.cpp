#include "sim/cluster/run_details.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "sim/core/check.h"
#include "sim/core/mapped.h"
#include "sim/core/text.h"
#include "sim/domain/affinity.h"
#include "sim/scenario/engine_defaults.h"

namespace epsim {
namespace {

// physics.md section 9: what was routed was executed, and what was sent was received. The loads are single precision.
ConservationReport check_conservation(const StepTotals& totals) {
  ConservationReport report;
  report.assignments_routed = totals.assignments_routed;
  report.assignments_dropped = totals.assignments_dropped;
  report.assignments_rerouted = totals.assignments_rerouted;
  report.assignments_executed = std::accumulate(totals.gpu_load.begin(), totals.gpu_load.end(), 0.0);
  for (const LinkTotals& link : totals.links) {
    report.bytes_sent += link.end == LinkEnd::kSends ? link.bytes.count() : 0.0;
    report.bytes_received += link.end == LinkEnd::kReceives ? link.bytes.count() : 0.0;
  }
  const auto agree = [](double a, double b, double tolerance) {
    return std::fabs(a - b) <= tolerance * std::max(1.0, std::max(a, b));
  };
  EPSIM_CHECK(
      agree(report.assignments_routed, report.assignments_executed, 1e-4),
      fmt::format("{} assignments routed, {} executed", report.assignments_routed, report.assignments_executed));
  EPSIM_CHECK(agree(report.bytes_sent, report.bytes_received, 1e-9),
              fmt::format("{} bytes sent, {} received", report.bytes_sent, report.bytes_received));
  return report;
}

void check_links(const StepTotals& totals, Seconds busy) {
  for (const LinkTotals& link : totals.links) {
    EPSIM_CHECK(link.bytes / link.rate <= busy * (1 + 1e-9), fmt::format("{} is more than 100 % busy", link.name));
  }
}

MemoryReport report_memory(const PreparedInstance& run, std::string_view buffers_item, Bytes buffers) {
  const MemoryBreakdown& m = run.memory;
  MemoryReport report;
  report.items = {{"attention (on every GPU)", m.weights.attention_replicated},
                  {"attention (split by heads)", m.weights.attention_split},
                  {"shared experts", m.weights.shared_experts},
                  {"dense FFN", m.weights.dense_ffn},
                  {"router", m.weights.router},
                  {"embedding and head", m.weights.embedding},
                  {std::string(kRoutedExpertsItem), m.experts_base},
                  {std::string(extra_experts_item(run)), m.expert_copies},
                  {"reserves", m.reserves - buffers},
                  {std::string(buffers_item), buffers},
                  {"KV cache", m.kv_pool}};
  report.kv_pool = m.kv_pool;
  report.kv_bytes_per_token = m.kv_per_token;
  report.copies = m.expert_copies;
  report.buffers = buffers;
  report.lost_to_extras = m.extras_loss;
  for (int g = 0; g < run.placement.gpus(); ++g) {
    report.over_mean.push_back(m.expert * static_cast<double>(run.placement.resident(g)) - m.experts_base);
  }
  return report;
}

std::string summarize_plan(const PreparedInstance& run, const MoeSpec& model) {
  if (model.dense()) {
    return "a dense model: no experts to place";
  }
  if (run.policy.per_step != nullptr) {
    const std::string& by = run.policy.planned_by;
    return fmt::format("{} experts per GPU and layer at home{}, others by step ({:.3f} GiB of buffers per GPU)",
                       run.plan.most_in_a_layer(),
                       by.empty() || by == run.policy.label ? "" : " as " + by + " places them", to_gib(run.buffers));
  }
  const int moe_tp = run.placement.gpus() / run.plan.gpus;
  const std::string holder = moe_tp == 1 ? "GPU" : fmt::format("EP rank of {} GPUs", moe_tp);
  const int extra = run.plan.beyond_even_share();
  if (run.plan.copies() == 0 && extra > 0) {
    return fmt::format(
        "no extra copies; {} more experts than an even share on the fullest {} over {} layers ({:.3f} GiB per GPU)",
        extra, holder, run.placement.layers(), to_gib(model.expert_bytes() * extra / moe_tp));
  }
  if (extra <= 0) {
    return fmt::format("{} experts per {} and layer, no extra copies", model.experts / run.plan.gpus, holder);
  }
  return fmt::format("{} extra copies per {} over {} layers ({:.3f} GiB per GPU)", extra, holder,
                     run.placement.layers(), to_gib(model.expert_bytes() * extra / moe_tp));
}

void append_links(StepTotals& all, const StepTotals& one, std::size_t instance) {
  for (const LinkTotals& link : one.links) {
    all.links.push_back(link);
    all.links.back().name = fmt::format("i{}.{}", instance, link.name);
    all.links.back().instance = static_cast<int>(instance);
  }
}

// Rows (layers, or layers and directions) of `one` behind those of `all`, which are so and so wide: GPUs or links.
std::vector<double> side_by_side(const std::vector<double>& all, std::ptrdiff_t all_width,
                                 const std::vector<double>& one, std::ptrdiff_t one_width) {
  if (one_width == 0) {  // an instance of one GPU has no links
    return all;
  }
  std::vector<double> out;
  out.reserve(all.size() + one.size());
  const std::ptrdiff_t rows = std::ssize(one) / one_width;
  for (std::ptrdiff_t row = 0; row < rows; ++row) {
    if (all_width > 0) {
      out.insert(out.end(), all.begin() + row * all_width, all.begin() + (row + 1) * all_width);
    }
    out.insert(out.end(), one.begin() + row * one_width, one.begin() + (row + 1) * one_width);
  }
  return out;
}

void append_totals(StepTotals& all, const StepTotals& one, std::size_t instance) {
  all.gpu_load = side_by_side(all.gpu_load, all.gpus, one.gpu_load, one.gpus);
  all.gpu_busy_s = side_by_side(all.gpu_busy_s, all.gpus, one.gpu_busy_s, one.gpus);
  for (std::vector<double> GpuRows::*rows :
       {&GpuRows::sent_inside, &GpuRows::received_inside, &GpuRows::sent_outside, &GpuRows::received_outside}) {
    all.gpu_rows.*rows = side_by_side(all.gpu_rows.*rows, all.gpus, one.gpu_rows.*rows, one.gpus);
  }
  all.steps += one.steps;
  all.gpus += one.gpus;
  all.assignments_routed += one.assignments_routed;
  all.assignments_dropped += one.assignments_dropped;
  all.assignments_rerouted += one.assignments_rerouted;
  all.bottleneck_s = side_by_side(all.bottleneck_s, std::ssize(all.links), one.bottleneck_s, std::ssize(one.links));
  append_links(all, one, instance);
  if (all.layers.empty()) {
    all.layers = one.layers;
    return;
  }
  EPSIM_CHECK(all.layers.size() == one.layers.size(), "instances of one model have the same layers");
  for (std::size_t l = 0; l < all.layers.size(); ++l) {
    LayerTotals& sum = all.layers[l];
    const LayerTotals& layer = one.layers[l];
    for (std::size_t p = 0; p < sum.by_part.size(); ++p) {
      sum.by_part[p] += layer.by_part[p];
    }
    sum.straggler += layer.straggler;
    sum.balancedness_sum += layer.balancedness_sum;
    sum.balancedness_min = std::min(sum.balancedness_min, layer.balancedness_min);
  }
}

// What prompts on their way put on the lanes of an instance (KvLanes), which no exchange of tokens waits for; lanes
// that carried nothing are left out.
void append_lanes(StepTotals& all, const KvLanes& lanes, std::size_t instance, const TransferStats& transfers) {
  const auto before = std::ssize(all.links);
  const auto add = [&](const std::vector<TransferStats::Carried>& carried, const char* way) {
    for (std::size_t lane = 0; lane < carried.size(); ++lane) {
      if (carried[lane].tokens > 0) {
        all.links.push_back({fmt::format("i{}.kv_lane{}.{}", instance, lane, way), lanes.rate(),
                             lanes.cache_of(carried[lane].prompts, carried[lane].tokens), LinkEnd::kBetween,
                             LinkTotals::kBesideSteps});
      }
    }
  };
  add(transfers.sent[instance], "out");
  add(transfers.received[instance], "in");
  if (const auto more = std::ssize(all.links) - before; more > 0) {
    const std::vector<double> none(all.layers.size() * 2 * static_cast<std::size_t>(more), 0.0);
    all.bottleneck_s = side_by_side(all.bottleneck_s, before, none, more);
  }
}

void add(ConservationReport& sum, const ConservationReport& one) {
  sum.assignments_routed += one.assignments_routed;
  sum.assignments_dropped += one.assignments_dropped;
  sum.assignments_rerouted += one.assignments_rerouted;
  sum.assignments_executed += one.assignments_executed;
  sum.bytes_sent += one.bytes_sent;
  sum.bytes_received += one.bytes_received;
}

// The plans of one instance behind those of the others.
void append(RebalanceReport& all, const RebalanceReport& one, int instance) {
  all.active = all.active || one.active;
  all.gained += one.gained;
  all.idle_moving += one.idle_moving;
  for (const RebalanceEvent& e : one.events) {
    all.events.push_back(e);
    all.events.back().instance = instance;
  }
}

// Each GPU of an EP rank computes its columns of every row: a part of the assignment.
StepTotals totals_of(ServedInstance& instance) {
  StepTotals out = instance.model->steps().totals();
  for (double& rows : out.gpu_load) {
    rows /= instance.prepared->pool.parallelism.moe_tp;
  }
  return out;
}

MemoryReport report_memory(const PreparedInstance& prepared) {
  return report_memory(prepared, prepared.policy.rebalance != nullptr ? kMigrationBufferItem : kPrefetchBuffersItem,
                       prepared.buffers);
}

// What only one instance can show: that of the last pool.
void describe_last(const Scenario& s, const PreparedInstance& prepared, RunResult& result) {
  if (prepared.policy.per_step == nullptr) {
    result.planned_balancedness = balancedness_by_layer(prepared.placement, planning_window(s, prepared.policy));
    for (const LayerPlan& layer : prepared.plan.layers) {
      result.extra_copies.push_back(std::ssize(layer.slots) - prepared.plan.experts);
    }
  }
  result.memory = report_memory(prepared);
}

// Where rows are sent once: which tokens told how often experts share one.
std::string describe_row_sharing(const Scenario& s, const PreparedInstance& last) {
  const UsedTogether together = used_together(s);
  const Dedup dedup = last.pool.dispatch.dedup;
  if (!together.known() || (dedup != Dedup::kGpu && dedup != Dedup::kNode)) {
    return "";
  }
  if (last.policy.per_step != nullptr) {
    return std::string(kIndependentRows);
  }
  if (s.loads->recorded() && last.policy.ceiling != Ceiling::kPerfectBalance) {
    return "counted token by token, as loads have them";
  }
  if (together.tokens == nullptr) {
    return fmt::format("which experts serve the same tokens is known from routing to {} of {} groups",
                       together.top_groups, together.groups);
  }
  const bool own = s.run_window.tokens() == together.tokens;
  return fmt::format("which experts serve the same tokens is known from {} tokens of {}", together.tokens->tokens(),
                     own ? "loads" : "plan_loads, as loads have no tokens");
}

// "prefill: ...; decode: ..." where pools differ.
std::string summarize_plans(std::span<ServedInstance> instances, const MoeSpec& model) {
  const std::string first = summarize_plan(*instances.front().prepared, model),
                    last = summarize_plan(*instances.back().prepared, model);
  const bool per_step = instances.front().prepared->policy.per_step != nullptr;
  const bool apart = instances.front().prepared->policy.planned_by != instances.back().prepared->policy.planned_by;
  return (per_step || apart) && first != last ? fmt::format("prefill: {}; decode: {}", first, last) : last;
}

// Keys and values travel between nodes even where every instance has one.
std::vector<std::string> stand_ins(const Scenario& s, std::span<const ServedInstance> instances) {
  const bool between = std::ranges::any_of(instances, [](const ServedInstance& instance) {
    return instance.lanes.has_value() || instance.prepared->pool.cluster.nodes > 1;
  });
  std::vector<std::string> out = carried_over(s.compute, s.network, s.model, between);
  if (const std::optional<KvLanes>& lanes = instances.front().lanes; lanes && !lanes->stand_in().empty()) {
    out.push_back("KV transfers: " + lanes->stand_in());
  }
  return out;
}

// A policy that acts in every step may find nothing to do in any. "" where it did.
std::string idle_policy(const Scenario& s, std::span<const ServedInstance> instances,
                        std::span<const StepTotals> totals) {
  const PreparedInstance* idle = nullptr;
  std::int64_t steps = 0, largest = 0;
  for (std::size_t i = 0; i < instances.size(); ++i) {
    if (instances[i].prepared->policy.per_step == nullptr || totals[i].steps == 0) {
      continue;
    }
    if (totals[i].policy_acted) {
      return "";
    }
    idle = instances[i].prepared;
    steps += totals[i].steps;
    largest = std::max(largest, totals[i].largest_step / idle->pool.cluster.gpus());
  }
  if (idle == nullptr) {
    return "";
  }
  const std::string known = never_acts(s, idle->pool, idle->policy);
  const std::int64_t least = idle->policy.per_step->profile().least_tokens;
  return !known.empty() ? known
         : largest < least
             ? fmt::format(
                   "policy '{}' did nothing in {} steps: it leaves those of fewer than {} tokens a GPU alone "
                   "(`{}`), and the largest had {}.",
                   idle->policy.label, steps, least, kPrefillTokensKey.name, largest)
             : fmt::format("policy '{}' did nothing in {} steps: {}.", idle->policy.label, steps,
                           idle->policy.per_step->profile().starts_from_copies
                               ? "its `home` has no copies to choose between"
                               : "it copied no expert");
}

// A recording whose rows are totals of many steps: a step that takes one's mix is as even as all of them together. ""
// where its rows may be steps.
std::string coarse_rows(const Scenario& s, std::span<const StepTotals> totals) {
  constexpr double kManySteps = 8;
  if (s.loads == nullptr || s.loads->replayed_steps() == 0) {
    return "";
  }
  double tokens = 0, steps = 0;
  for (const StepTotals& of : totals) {
    tokens += of.assignments_routed / s.model.top_k / s.model.moe_layers();
    steps += static_cast<double>(of.steps);
  }
  const double row = s.run_window.total(0) / s.model.top_k / static_cast<double>(s.loads->replayed_steps());
  return steps == 0 || row <= kManySteps * tokens / steps
             ? ""
             : fmt::format(
                   "loads: a row of the recording holds {:.0f} tokens on average, a step here {:.0f}. Rows that are "
                   "totals of many steps make every step as even as their mix; `variation: sampled` draws each step's "
                   "tokens.",
                   row, tokens / steps);
}

// Decode steps that CUDA graphs were to hold and did not. "" where they are few.
std::string eager_decodes(const GraphOptions& graphs, const InstanceTotals& totals) {
  constexpr double kFew = 0.1;
  const double share = totals.eager_decodes / totals.by_kind[static_cast<std::size_t>(StepKind::kDecode)].time.total;
  if (!(share > kFew)) {
    return "";
  }
  const bool one_rank = graphs.size == GraphSize::kMax,
             too_large = one_rank && totals.most_decodes > graphs.sizes.back();
  const std::string reason =
      !graphs.pad && !too_large ? "only batches of a captured size are replayed, since padding is off"
      : graphs.alike && !too_large
          ? "only those are replayed in which all DP ranks decode as many sequences"
          : fmt::format("graphs are captured for up to {} tokens {}{}", graphs.sizes.back(),
                        one_rank ? "a DP rank" : "of all DP ranks",
                        one_rank ? fmt::format(", and steps had up to {}", totals.most_decodes) : "");
  return fmt::format("{:.0f} % of the time of decode steps was spent outside CUDA graphs, kernel by kernel: {}.",
                     100 * share, reason);
}

// A router that follows prefixes may leave whole instances without a request.
std::string idle_instances(const Scenario& s, const RunResult& result) {
  const auto fronts =
      std::ranges::count_if(result.instances, [](const auto& i) { return i.role != InstanceRole::kDecode; });
  const auto idle = std::ranges::count_if(
      result.instances, [](const auto& i) { return i.role != InstanceRole::kDecode && i.steps == 0; });
  const bool follows = s.deployment.router == Router::kCacheAware && result.kv.hit_tokens > 0;
  return idle > 0 && follows && s.faults.empty()
             ? fmt::format(
                   "deployment.router: {} of {} served no request: cache_aware sent every request to the others, "
                   "which have the shared prefix in their caches. Compare with round_robin.",
                   idle, count_of(fronts, fronts < std::ssize(result.instances) ? "prefill instance" : "instance"))
             : "";
}

// Conversations begin with none open, and fewer requests come until as many are open as later.
std::string ends_in_ramp(const RunResult& result) {
  return result.ramp > 0 && result.ramp == result.requests.size()
             ? fmt::format(
                   "requests: they end after {:.0f} s, before as many conversations are open as later (4 x turns x "
                   "think_time), so fewer come in a second than these settings say. Raise requests.count or "
                   "requests.duration.",
                   to_seconds(result.due_of(result.requests.size() - 1)).count())
             : "";
}

void warn_of_outcome(const Scenario& s, std::span<ServedInstance> instances, std::span<const StepTotals> totals,
                     RunResult& result) {
  std::vector<std::string>& out = result.warnings;
  if (std::string idle = idle_policy(s, instances, totals); !idle.empty()) {
    out.push_back(std::move(idle));
  }
  if (std::string coarse = coarse_rows(s, totals); !coarse.empty()) {
    out.push_back(std::move(coarse));
  }
  if (std::string idle = idle_instances(s, result); !idle.empty()) {
    out.push_back(std::move(idle));
  }
  if (std::string early = ends_in_ramp(result); !early.empty()) {
    out.push_back(std::move(early));
  }
  if (result.failed > 0) {
    out.push_back(fmt::format(
        "{} of {} requests failed: hardware was lost, and no instance was left that could serve them, or they had been "
        "restarted as often as deployment.retry_limit allows. deployment.after_loss says what becomes of experts "
        "without a copy (docs/execution.md); none of its settings keeps an instance with fewer slots left than a layer "
        "has experts.",
        result.failed, result.requests.size()));
  }
  constexpr double kMany = 0.1;
  const double waited =
      static_cast<double>(result.turns_waited) / static_cast<double>(std::max<std::size_t>(1, result.requests.size()));
  if (waited > kMany) {
    out.push_back(
        fmt::format("requests: {:.0f} % of the turns waited for the answer before them: conversations last longer than "
                    "the trace has "
                    "them, and their requests come later.",
                    100 * waited));
  }
  for (std::size_t i = 0; i < instances.size(); ++i) {
    const std::string eager = eager_decodes(instances[i].prepared->pool.serving.graphs, result.instances[i]);
    if (!eager.empty()) {
      out.push_back(eager);
      break;
    }
  }
  const InstancePool& decoders = instances.back().prepared->pool;
  std::int64_t most = 0;
  for (std::size_t i = 0; i < instances.size(); ++i) {
    const bool prefill = result.instances[i].role == InstanceRole::kPrefill;
    most = prefill ? most : std::max(most, result.instances[i].most_decodes);
  }
  const bool told = low_latency_rows(decoders, decoders.serving.max_running_requests) > 0;  // before the run
  if (!told && low_latency_rows(decoders, most) > 0) {
    out.push_back(low_latency_words(decoders, most));
  }
}

}  // namespace

std::string_view extra_experts_item(const PreparedInstance& run) {
  return run.plan.copies() == 0 && run.memory.expert_copies > Bytes(0) ? kUnevenExpertsItem : kExtraCopiesItem;
}

void add_details(const Scenario& s, std::span<ServedInstance> instances, RunResult& result) {
  const PreparedInstance& last = *instances.back().prepared;
  result.label = last.policy.label;
  result.overrides = last.policy.overrides;
  result.plan_summary = summarize_plans(instances, s.model);
  result.row_sharing = describe_row_sharing(s, last);
  const auto& loads = last.policy.ceiling == Ceiling::kPerfectBalance ? s.balanced_loads : s.loads;
  result.whole_counts = (loads && loads->counted()) ||
                        std::any_of(instances.begin(), instances.end(), [](const ServedInstance& instance) {
                          return instance.prepared->policy.per_step != nullptr;
                        });
  result.warnings = s.warnings;
  result.carried_over = stand_ins(s, instances);
  describe_last(s, last, result);
  if (result.instances.front().role == InstanceRole::kPrefill) {
    result.prefill_memory = report_memory(*instances.front().prepared).items;
  }
  std::vector<StepTotals> all = mapped(instances, [&](ServedInstance& instance) { return totals_of(instance); });
  warn_of_outcome(s, instances, all, result);
  for (std::size_t i = 0; i < instances.size(); ++i) {
    const ServedInstance& instance = instances[i];
    const StepTotals& totals = all[i];
    const RebalanceReport rebalance = instance.model->rebalance();
    const RegroupReport& recovery = instance.model->recovery();
    add(result.conservation, check_conservation(totals));
    check_links(totals, result.instances[i].time.total + to_seconds(rebalance.idle_moving + recovery.remaking));
    result.instances[i].gpus = instance.prepared->pool.cluster.gpus();
    result.gpus += result.instances[i].gpus;
    append(result.rebalance, rebalance, static_cast<int>(i));
    result.regroup += recovery;
    if (instances.size() == 1) {
      result.detail = std::move(all[i]);
      return;
    }
    append_totals(result.detail, totals, i);
    if (instance.lanes) {
      append_lanes(result.detail, *instance.lanes, i, result.transfers);
    }
  }
}

}  // namespace epsim
