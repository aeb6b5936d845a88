#include "sim/app/accuracy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "calibration/row_counts.h"
#include "models/catalogue/hardware_profile.h"
#include "models/catalogue/profiles.h"
#include "sim/cluster/prepare.h"
#include "sim/scenario/read_scenario.h"
#include "sim/step/step_prices.h"
#include "sim/study/job_runner.h"

namespace epsim::app {
namespace {

// Completes a row that is read; rows may be completed side by side.
using CompleteRow = std::function<AccuracyRow()>;

RankBatch batch_of(ConfigReader& in) {
  RankBatch batch;
  batch.prefill_tokens = in.optional<std::int64_t>("prefill_tokens", 0);
  const auto prompt = in.optional<double>("prompt", 0);
  const auto cached = in.optional<double>("cached", 0);  // tokens of each prompt ahead of the new ones
  batch.prefill_pairs = static_cast<double>(batch.prefill_tokens) * (cached + (prompt + 1) / 2);
  batch.prefill_context = prompt > 0 ? static_cast<double>(batch.prefill_tokens) / prompt * cached : 0;
  batch.decode_tokens = in.optional<std::int64_t>("decode_sequences", 0);
  batch.decode_context = static_cast<double>(batch.decode_tokens) * in.optional<double>("context", 0);
  const double prompts = prompt > 0 ? static_cast<double>(batch.prefill_tokens) / prompt : 0;
  batch.sampled = batch.decode_tokens + static_cast<std::int64_t>(prompts);
  in.check(batch.tokens() > 0, "prefill_tokens", "a step has prefill_tokens or decode_sequences.");
  return batch;
}

struct SystemName {
  std::filesystem::path scenario;
  std::string policy;
};

SystemName read_system(ConfigReader& in, const std::string& scenario_key, const std::string& policy_key) {
  return {in.path(scenario_key), in.required<std::string>(policy_key)};
}

// A scenario and one of its policies, ready to price steps in which every DP rank brings the same.
class SteadySystem {
 public:
  SteadySystem(const SystemName& name, PlanCache& plans)
      : scenario_(read_scenario(Config::from_file(name.scenario), {name.policy})),
        run_(prepare_run(scenario_, policy(), &plans)),
        prices_(scenario_, run_.last().pool, policy(), {run_.last().plan, run_.last().shares}, nullptr) {}

  const std::string& name() const { return scenario_.name; }
  StepCost price(std::int64_t step, const RankBatch& batch) { return prices_.price(step, ranks(batch)); }
  // The same pieces one after another.
  StepCost price_plainly(const RankBatch& batch) { return prices_.model().price(0, ranks(batch)); }
  // (max - mean) / mean of the GPUs' loads, mean over MoE layers, in one step.
  double imbalance(std::int64_t step, const RankBatch& batch) {
    prices_.model().begin(step, ranks(batch));
    const int layers = scenario_.model.moe_layers();
    double sum = 0;
    for (int l = 0; l < layers; ++l) {
      prices_.model().layer(l);
      sum += 1 / balancedness(prices_.model().traffic().executed) - 1;
    }
    return sum / layers;
  }

 private:
  const PolicyChoice& policy() const { return scenario_.policies.front(); }
  std::vector<RankBatch> ranks(const RankBatch& batch) const {
    return std::vector<RankBatch>(static_cast<std::size_t>(scenario_.parallelism.dp_ranks()), batch);
  }

  Scenario scenario_;
  PreparedRun run_;
  StepPrices prices_;
};

constexpr std::int64_t kSteps = 4;  // whose loads differ; a step of 58 layers is an average already

double mean_step_ms(SteadySystem& system, const RankBatch& batch) {
  double sum = 0;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    sum += to_ms(system.price(step, batch).total);
  }
  return sum / kSteps;
}

// The keys that every row has: what, measured (`key`), band, source, note, outside. Calls finish(). The prediction is
// still to be made.
AccuracyRow read_accuracy_row(ConfigReader& in, const std::string& group, const std::string& key = "measured_ms") {
  AccuracyRow row;
  row.group = group;
  row.what = in.required<std::string>("what");
  row.measured = in.required<double>(key, Bound::kPositive);
  row.band = in.required<double>("band", Bound::kPositive);
  row.note = in.optional<std::string>("note", "");
  row.outside = in.optional<std::string>("outside", "");
  in.required<std::string>("source");
  in.finish();
  return row;
}

// A step of a scenario, its pieces following each other as `execution` says. The note gives the pieces' own times, what
// overlaps hides among them. `plans` must outlive what is returned, here and below.
CompleteRow step_row(ConfigReader in, PlanCache& plans) {
  const SystemName name = read_system(in, "scenario", "policy");
  const RankBatch batch = batch_of(in);
  return [name, batch, &plans, row = read_accuracy_row(in, "steps of published systems")]() mutable {
    SteadySystem system(name, plans);
    row.predicted = mean_step_ms(system, batch);
    const StepCost cost = system.price_plainly(batch);
    const auto part = [&](LayerPart p) { return to_ms(cost.by_part[static_cast<std::size_t>(p)]); };
    const double total = to_ms(cost.total), attention = part(LayerPart::kAttention),
                 experts = part(LayerPart::kExperts), dispatch = part(LayerPart::kDispatch),
                 combine = part(LayerPart::kCombine);
    row.note = fmt::format(
        "attention {:.1f}, experts {:.1f}, dispatch {:.1f}, combine {:.1f}, others {:.1f}; one after another {:.1f} "
        "ms{}{}",
        attention, experts, dispatch, combine, total - attention - experts - dispatch - combine, total,
        row.note.empty() ? "" : "; ", row.note);
    return row;
  };
}

// How much longer the same step takes in another scenario, or under another policy.
CompleteRow gain_row(ConfigReader in, PlanCache& plans) {
  const SystemName with = read_system(in, "scenario", "policy");
  const SystemName without = read_system(in, "without_scenario", "without_policy");
  const RankBatch batch = batch_of(in);
  return [with, without, batch, &plans,
          row = read_accuracy_row(in, "gains, time without over time with", "measured")]() mutable {
    SteadySystem fast_system(with, plans), slow_system(without, plans);
    const double slow = mean_step_ms(slow_system, batch), fast = mean_step_ms(fast_system, batch);
    row.predicted = slow / fast;
    row.unit = "";
    row.note = fmt::format("{:.1f} ms for {:.1f} ms{}{}", fast, slow, row.note.empty() ? "" : "; ", row.note);
    return row;
  };
}

CompleteRow loads_row(ConfigReader in, PlanCache& plans) {
  const SystemName name = read_system(in, "scenario", "policy");
  const RankBatch batch = batch_of(in);
  return [name, batch, &plans,
          row = read_accuracy_row(in, "imbalance of GPU loads, (max - mean) / mean", "measured")]() mutable {
    SteadySystem system(name, plans);
    double sum = 0;
    for (std::int64_t step = 0; step < kSteps; ++step) {
      sum += system.imbalance(step, batch);
    }
    row.predicted = sum / kSteps;
    row.unit = "";
    return row;
  };
}

using Json = nlohmann::ordered_json;

constexpr int kDraws = 200;  // of a power law's busiest rank

const FittedOp& op_of(ConfigReader& in, const FittedProfile& profile) {
  const auto name = in.required<std::string>("op");
  if (const FittedOp* op = profile.find(name)) {
    return *op;
  }
  in.fail("op", "the profile of " + profile.machine + " has no such operator.");
}

AccuracyRow predicted_row(ConfigReader& in, const std::string& group, double predicted) {
  AccuracyRow row = read_accuracy_row(in, group);
  row.predicted = predicted;
  return row;
}

// An operator with its parameters in the order of models/profile/op_shapes.h.
AccuracyRow operator_row(ConfigReader in) {
  const FittedProfile profile = fitted_profile(in.required<std::string>("machine"));
  const FittedOp& op = op_of(in, profile);
  const auto parameters = in.required<std::vector<double>>("parameters", Bound::kPositive);
  in.check(parameters.size() == count_names(op_info(op.kind).parameters), "parameters", "one per column is needed.");
  const double predicted = op.price(parameters).time.count() * 1e3;
  return predicted_row(in, profile.machine + " " + op.op, predicted);
}

// A grouped GEMM whose source states tokens and a distribution: balanced (alpha 0) or a power law.
AccuracyRow routed_row(ConfigReader in) {
  const FittedProfile profile = fitted_profile(in.required<std::string>("machine"));
  const FittedOp& op = op_of(in, profile);
  RoutingShape shape;
  shape.tokens = in.required<std::int64_t>("tokens", Bound::kPositive);
  shape.experts = in.required<int>("experts", Bound::kPositive);
  shape.top_k = in.required<int>("top_k", Bound::kPositive);
  shape.ranks = in.required<int>("ranks", Bound::kPositive);
  const auto alpha = in.required<double>("alpha");
  const auto hidden = in.required<double>("hidden", Bound::kPositive);
  const auto intermediate = in.required<double>("intermediate", Bound::kPositive);
  RandomStream random(Seed{7}, "accuracy");
  const int draws = alpha > 0 && shape.ranks > 1 ? kDraws : 1;
  double sum = 0;
  for (int i = 0; i < draws; ++i) {
    const auto rows = alpha <= 0  ? balanced_rows(shape)
                      : draws > 1 ? power_law_drawn(shape, alpha, random)
                                  : power_law_quantiles(shape, alpha);
    const GroupRows busiest = summarise_rows(busiest_rank(rows, shape.ranks));
    sum += op.price(std::array{busiest.rows, busiest.groups, busiest.rows_max, hidden, intermediate,
                               static_cast<double>(shape.tokens)})
               .time.count();
  }
  return predicted_row(in, profile.machine + " " + op.op, sum / draws * 1e3);
}

// A collective of one buffer size over the GPUs of a link profile that comes with the program.
AccuracyRow collective_row(ConfigReader in) {
  const LinkProfile link = link_profile(in.required<std::string>("link"), "");
  const std::vector<std::string> names(std::begin(kCollectiveNames), std::end(kCollectiveNames));
  const std::string kind = in.choice("kind", names);
  const auto which = static_cast<CollectiveKind>(std::find(names.begin(), names.end(), kind) - names.begin());
  const auto gpus = in.required<int>("gpus", Bound::kPositive);
  const auto rate = in.required<BytesPerSecond>("link_rate", Bound::kPositive);
  const auto mib = in.required<double>("mib", Bound::kPositive);
  const double share = (is_all_reduce(which) ? 2.0 : 1.0) * (gpus - 1) / gpus;  // inside a node
  const double predicted = link.time(which, gpus, Bytes(mib * kMiB * share) / rate).time.count() * 1e3;
  return predicted_row(in, link.name + " " + kind, predicted);
}

// "median: .06, p95: .2" for the operators of a profile.
void held_out_rows(ConfigReader in, std::vector<HeldOutRow>& out) {
  const FittedProfile profile = fitted_profile(in.required<std::string>("machine"));
  const auto bands = [&](const char* key) {
    auto both = in.required<std::vector<double>>(key, Bound::kPositive);
    in.check(both.size() == 2, key, "states two bands: of the median and of the 95th percentile.");
    return both;
  };
  const std::vector<double> gemm = bands("gemm"), skewed = bands("skewed"), attention = bands("attention");
  const auto outside = in.optional<std::string>("outside", "");
  in.finish();
  for (const FittedOp& op : profile.ops) {
    const auto add = [&](const std::string& what, const ErrorSummary& e, const std::vector<double>& band) {
      const std::optional<double> noise = op.noise ? std::optional(op.noise->p95) : std::nullopt;
      out.push_back({profile.machine, what, e.points, e.median, e.p95, e.worst, band[0], band[1], noise, outside});
    };
    const bool is_gemm = op.kind == OpKind::kGroupedGemm || op.kind == OpKind::kDenseGemm;
    add(op.op, op.held_out, is_gemm ? gemm : attention);
    if (op.held_out_skewed) {
      add(op.op + ", uneven groups", *op.held_out_skewed, skewed);
    }
  }
}

}  // namespace

int AccuracyTable::failures() const {
  const auto held = std::count_if(held_out.begin(), held_out.end(),
                                  [](const HeldOutRow& r) { return !r.inside() && r.outside.empty(); });
  const auto left =
      std::count_if(rows.begin(), rows.end(), [](const AccuracyRow& r) { return r.outside.empty() && !r.inside(); });
  return static_cast<int>(held + left);
}

AccuracyTable compute_accuracy(const std::filesystem::path& folder) {
  const Config facts = Config::from_file(folder / "facts.yaml");
  ConfigReader root = facts.root();
  AccuracyTable out;
  for (ConfigReader& in : root.list_of_sections("held_out")) {
    held_out_rows(in, out.held_out);
  }
  const auto add = [&](const char* section, AccuracyRow (*predict)(ConfigReader)) {
    for (ConfigReader& in : root.list_of_sections(section)) {
      out.rows.push_back(predict(in));
    }
  };
  add("routed", routed_row);
  add("operators", operator_row);
  add("collectives", collective_row);
  PlanCache plans;
  std::vector<CompleteRow> jobs;
  const auto add_jobs = [&](const char* section, CompleteRow (*read)(ConfigReader, PlanCache&)) {
    for (ConfigReader& in : root.list_of_sections(section)) {
      jobs.push_back(read(in, plans));
    }
  };
  add_jobs("steps", step_row);
  add_jobs("gains", gain_row);
  add_jobs("loads", loads_row);
  root.finish();
  const std::size_t read = out.rows.size();
  out.rows.resize(read + jobs.size());
  run_jobs(all_jobs(jobs.size()), {}, [&](std::size_t i, const Abandoned&) { out.rows[read + i] = jobs[i](); });
  return out;
}

std::string accuracy_text(const AccuracyTable& table) {
  std::string out =
      "operators, error on held-out points, %; repeats: 95th percentile of what repeated rows differ by\n";
  out += fmt::format("  {:<11} {:<32} {:>7} {:>7} {:>6} {:>6} {:>7} {:>8}  {}\n", "GPU", "operator", "points", "median",
                     "p95", "worst", "bands", "repeats", "");
  for (const HeldOutRow& r : table.held_out) {
    out += fmt::format("  {:<11} {:<32} {:>7} {:>7.1f} {:>6.1f} {:>6.1f} {:>3.0f}/{:<3.0f} {:>8}  {}\n", r.machine,
                       r.what, r.points, r.median * 100, r.p95 * 100, r.worst * 100, r.median_band * 100,
                       r.p95_band * 100, r.noise_p95 ? fmt::format("{:.1f}", *r.noise_p95 * 100) : "none",
                       r.inside()          ? "ok"
                       : r.outside.empty() ? "LEFT ITS BAND"
                                           : "outside: " + r.outside);
  }
  std::string group;
  for (const AccuracyRow& r : table.rows) {
    if (r.group != group) {
      const std::string title = r.group + (r.unit.empty() ? "" : ", " + r.unit);
      out += fmt::format("\n{} {:>{}} {:>10} {:>8} {:>6}\n", title, "predicted",
                         std::max<int>(10, 66 - static_cast<int>(title.size())), "measured", "error %", "band");
      group = r.group;
    }
    out += fmt::format("  {:<55} {:>9.4g} {:>10.4g} {:>+8.1f} {:>6.0f}  {}\n", r.what, r.predicted, r.measured,
                       r.error() * 100, r.band * 100,
                       !r.outside.empty() ? "outside: " + r.outside
                       : r.inside()       ? "ok"
                                          : "LEFT ITS BAND");
    if (!r.note.empty()) {
      out += "    " + r.note + "\n";
    }
  }
  double worst = 0;
  std::string where = "none";
  for (const AccuracyRow& r : table.rows) {
    if (r.outside.empty() && std::fabs(r.error()) > worst) {
      worst = std::fabs(r.error());
      where = r.group + ", " + r.what;
    }
  }
  const auto excused = std::ranges::count_if(table.rows, [](const AccuracyRow& r) { return !r.outside.empty(); }) +
                       std::ranges::count_if(table.held_out, [](const HeldOutRow& r) {
                         return !r.outside.empty() && !r.inside();  // its profile's reason, also of what is inside
                       });
  out += fmt::format(
      "\nworst row that is held to a band: {} ({:.1f} %)\n{} of {} rows left their bands; {} more, marked outside, "
      "are held to none\n",
      where, worst * 100, table.failures(), table.held_out.size() + table.rows.size() - excused, excused);
  return out;
}

std::string accuracy_json(const AccuracyTable& table) {
  Json out{{"format", 1}, {"failures", table.failures()}, {"held_out", Json::array()}, {"rows", Json::array()}};
  for (const HeldOutRow& r : table.held_out) {
    out["held_out"].push_back({{"gpu", r.machine},
                               {"operator", r.what},
                               {"points", r.points},
                               {"median_share", r.median},
                               {"p95_share", r.p95},
                               {"worst_share", r.worst},
                               {"median_band_share", r.median_band},
                               {"p95_band_share", r.p95_band},
                               {"repeats_p95_share", r.noise_p95 ? Json(*r.noise_p95) : Json()},
                               {"inside", r.inside()},
                               {"outside_reason", r.outside}});
  }
  for (const AccuracyRow& r : table.rows) {
    out["rows"].push_back({{"group", r.group},
                           {"what", r.what},
                           {"unit", r.unit},
                           {"predicted", r.predicted},
                           {"measured", r.measured},
                           {"error_share", r.error()},
                           {"band_share", r.band},
                           {"inside", r.inside()},
                           {"outside_reason", r.outside},
                           {"note", r.note}});
  }
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace epsim::app
