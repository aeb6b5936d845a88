#include "sim/app/accuracy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "calibration/row_counts.h"
#include "models/hardware_profile.h"
#include "models/profile/profiles.h"
#include "models/step_model.h"
#include "sim/serving/run_policy.h"

namespace epsim::app {
namespace {

constexpr int kDraws = 200;  // of a power law's busiest rank

AccuracyRow row_of(ConfigReader& in, const std::string& group, double predicted_ms, double measured_ms) {
  AccuracyRow row;
  row.group = group;
  row.what = in.required<std::string>("what");
  row.predicted_ms = predicted_ms;
  row.measured_ms = measured_ms;
  row.band = in.required<double>("band", Bound::kPositive);
  row.note = in.optional<std::string>("note", "");
  row.outside = in.optional<std::string>("outside", "");
  in.required<std::string>("source");
  in.finish();
  return row;
}

const FittedOp& op_of(ConfigReader& in, const FittedProfile& profile) {
  const auto name = in.required<std::string>("op");
  const FittedOp* op = profile.find(name);
  in.check(op != nullptr, "op", "the profile of " + profile.machine + " has no such operator.");
  return *op;
}

// An operator with its parameters in the order of models/profile/op_shapes.h.
AccuracyRow operator_row(ConfigReader in) {
  const FittedProfile profile = fitted_profile(in.required<std::string>("machine"));
  const FittedOp& op = op_of(in, profile);
  const auto parameters = in.required<std::vector<double>>("parameters", Bound::kPositive);
  in.check(parameters.size() == count_names(op_info(op.kind).parameters), "parameters", "one per column is needed.");
  const double predicted = op.price(parameters).time.count() * 1e3;
  const auto measured = in.required<double>("measured_ms", Bound::kPositive);
  return row_of(in, profile.machine + " " + op.op, predicted, measured);
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
  const auto measured = in.required<double>("measured_ms", Bound::kPositive);
  return row_of(in, profile.machine + " " + op.op, sum / draws * 1e3, measured);
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
  const double share = (which == CollectiveKind::kAllReduce ? 2.0 : 1.0) * (gpus - 1) / gpus;  // inside a node
  const double predicted = link.time(which, gpus, Bytes(mib * kMiB * share) / rate).time.count() * 1e3;
  const auto measured = in.required<double>("measured_ms", Bound::kPositive);
  return row_of(in, link.name + " " + kind, predicted, measured);
}

RankBatch batch_of(ConfigReader& in) {
  RankBatch batch;
  batch.prefill_tokens = in.optional<std::int64_t>("prefill_tokens", 0);
  const auto prompt = in.optional<double>("prompt", 0);
  batch.prefill_pairs = static_cast<double>(batch.prefill_tokens) * (prompt + 1) / 2;
  batch.decode_tokens = in.optional<std::int64_t>("decode_sequences", 0);
  batch.decode_context = static_cast<double>(batch.decode_tokens) * in.optional<double>("context", 0);
  const double prompts = prompt > 0 ? static_cast<double>(batch.prefill_tokens) / prompt : 0;
  batch.sampled = batch.decode_tokens + static_cast<std::int64_t>(prompts);
  in.check(batch.tokens() > 0, "prefill_tokens", "a step has prefill_tokens or decode_sequences.");
  return batch;
}

// One step of a scenario in which every DP rank brings the same. With two batches in flight computation hides the
// exchange or the other way round: the step is between the longer of both and their sum; the row states the former,
// its note the latter.
AccuracyRow step_row(ConfigReader in) {
  const Config config = Config::from_file(in.path("scenario"));
  const Scenario scenario = read_scenario(config, {in.required<std::string>("policy")});
  const PolicyChoice& policy = scenario.policies.front();
  const PreparedRun run = prepare_run(scenario, policy);
  const LoadSource& loads = policy.perfect_balance ? *scenario.balanced_loads : *scenario.loads;
  StepModel model(scenario.model, scenario.cluster, scenario.parallelism, scenario.dispatch, run.placement, loads,
                  scenario.compute, scenario.network);
  const std::vector<RankBatch> ranks(static_cast<std::size_t>(scenario.parallelism.dp_ranks()), batch_of(in));
  const StepCost cost = model.price(0, ranks);
  const auto part = [&](LayerPart p) { return to_ms(cost.by_part[static_cast<std::size_t>(p)]); };
  const double exchange = part(LayerPart::kDispatch) + part(LayerPart::kCombine);
  const double total = to_ms(cost.total);
  const bool overlaps = in.optional<bool>("two_batches", false);
  const double predicted = overlaps ? std::max(exchange, total - exchange) : total;
  const auto measured = in.required<double>("measured_ms", Bound::kPositive);
  AccuracyRow row = row_of(in, "step of " + scenario.name, predicted, measured);
  row.note = fmt::format("attention {:.1f}, experts {:.1f}, exchange {:.1f}, in all {:.1f} ms without overlap{}{}",
                         part(LayerPart::kAttention), part(LayerPart::kExperts), exchange, total,
                         row.note.empty() ? "" : "; ", row.note);
  return row;
}

// "median: .06, p95: .2" for the operators of a profile.
void held_out_rows(ConfigReader in, std::vector<HeldOutRow>& out) {
  const FittedProfile profile = fitted_profile(in.required<std::string>("machine"));
  const auto bands = [&](const char* key) {
    const auto both = in.required<std::vector<double>>(key, Bound::kPositive);
    in.check(both.size() == 2, key, "states two bands: of the median and of the 95th percentile.");
    return both;
  };
  const std::vector<double> gemm = bands("gemm"), skewed = bands("skewed"), attention = bands("attention");
  in.finish();
  const auto add = [&](const std::string& what, const ErrorSummary& e, const std::vector<double>& band) {
    out.push_back({profile.machine, what, e.points, e.median, e.p95, e.worst, band[0], band[1]});
  };
  for (const FittedOp& op : profile.ops) {
    const bool is_gemm = op.kind == OpKind::kGroupedGemm || op.kind == OpKind::kDenseGemm;
    add(op.op, op.held_out, is_gemm ? gemm : attention);
    if (op.held_out_skewed) {
      add(op.op + ", uneven groups", *op.held_out_skewed, skewed);
    }
  }
}

}  // namespace

int AccuracyTable::failures() const {
  const auto held = std::count_if(held_out.begin(), held_out.end(), [](const HeldOutRow& r) { return !r.inside(); });
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
  add("steps", step_row);
  root.finish();
  return out;
}

std::string accuracy_text(const AccuracyTable& table) {
  std::string out = "operators, error on held-out points, %\n";
  out += fmt::format("  {:<6} {:<32} {:>7} {:>7} {:>6} {:>6} {:>7}  {}\n", "GPU", "operator", "points", "median", "p95",
                     "worst", "bands", "");
  for (const HeldOutRow& r : table.held_out) {
    out += fmt::format("  {:<6} {:<32} {:>7} {:>7.1f} {:>6.1f} {:>6.1f} {:>3.0f}/{:<3.0f}  {}\n", r.machine, r.what,
                       r.points, r.median * 100, r.p95 * 100, r.worst * 100, r.median_band * 100, r.p95_band * 100,
                       r.inside() ? "ok" : "LEFT ITS BAND");
  }
  std::string group;
  for (const AccuracyRow& r : table.rows) {
    if (r.group != group) {
      out += fmt::format("\n{}, ms {:>{}} {:>10} {:>8} {:>6}\n", r.group, "predicted",
                         std::max<int>(10, 62 - static_cast<int>(r.group.size())), "measured", "error %", "band");
      group = r.group;
    }
    out += fmt::format("  {:<55} {:>9.4g} {:>10.4g} {:>+8.1f} {:>6.0f}  {}\n", r.what, r.predicted_ms, r.measured_ms,
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
  out += fmt::format("\nworst row that is held to a band: {} ({:.1f} %)\n{} of {} rows left their bands\n", where,
                     worst * 100, table.failures(), table.held_out.size() + table.rows.size());
  return out;
}

}  // namespace epsim::app
