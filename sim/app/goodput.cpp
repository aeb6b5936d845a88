// `epsim goodput`: how many requests per second each policy sustains.
#include "sim/study/goodput.h"

#include <fmt/format.h>
#include <tbb/global_control.h>

#include <algorithm>
#include <iostream>
#include <mutex>
#include <utility>

#include "sim/app/command_line.h"
#include "sim/app/compared_labels.h"
#include "sim/app/goodput_options.h"
#include "sim/app/results_folder.h"
#include "sim/app/seeds.h"
#include "sim/app/shared_study.h"
#include "sim/core/files.h"
#include "sim/core/mapped.h"
#include "sim/report/format.h"
#include "sim/report/goodput_summary.h"
#include "sim/report/goodput_writer.h"
#include "sim/report/progress.h"
#include "sim/report/run_info.h"
#include "sim/scenario/compared_policies.h"
#include "sim/scheduler/engines.h"
#include "sim/study/load_point.h"
#include "sim/verbs/goodput_folder.h"

namespace epsim::app {

namespace fs = std::filesystem;

namespace {

void print_load_point(const SearchTarget& target, const LoadPoint& p) {
  std::cerr << fmt::format("{}, seed {}{}{}: {} requests at {:.4g}/s, {:.4g}/s completed, TTFT {} ms{}\n",
                           printable(target.policy), target.seed, target.aligned ? ", prompts together" : "",
                           p.backlog > 0 ? ", after a backlog" : "", p.requests, p.offered, p.completed,
                           rounded(p.ttft_s.mean * 1e3), p.stable ? "" : ", unstable");
}

constexpr Seconds kMostSilence{10};  // a rate may take minutes; then a line says how far its run is

// The scenario with prompts held until DP ranks have them together.
struct Alignment {
  std::vector<Scenario> by_seed;  // none where there is nothing to align
  std::string how;                // the assignment, or why there is none
};

std::string nothing_to_align(const Scenario& scenario) {
  const PrefillAlignment& own = scenario.serving.prefill_alignment;
  if (pools_of(scenario).size() > 1) {
    return "prefill and decode run apart here, and each pool has its own settings";
  }
  if (scenario.parallelism.dp_ranks() == 1) {
    return "there is one DP rank, which has no other to wait for";
  }
  return own.holds_any() ? "the scenario does so already" : "";
}

Alignment alignment_of(const po::variables_map& values, const ComparedLabels& compared, const Scenario& scenario) {
  if (const std::string reason = nothing_to_align(scenario); !reason.empty()) {
    return {{}, reason};
  }
  const std::string how = fmt::format("serving.{}", find_engine(scenario.serving.engine).aligned_prompts);
  try {
    return {scenarios_by_seed(values, compared.labels, {how}), how};
  } catch (const InputError& refused) {
    return {{}, fmt::format("{} is refused: {}", how, refused.what())};
  }
}

GoodputStudy study_of(const std::vector<Scenario>& by_seed, const Alignment& alignment, const GoodputOptions& options,
                      const JobStore& store, const po::variables_map& values) {
  RunControl control;
  control.stop = &interrupted();
  control.strict_calibration = values["strict-calibration"].as<bool>();
  GoodputStudy study;
  study.options = options;
  study.alignment = alignment.how;
  study.seeds = static_cast<int>(by_seed.size());
  study.policies = mapped(by_seed.front().policies, &PolicyChoice::label);
  study.out_of_reach = out_of_reach(by_seed.front().policies);
  study.same_requests = same_requests(by_seed);
  std::mutex turn;
  bool cost_told = false;
  PlanCache plans;
  const bool quiet = values["quiet"].as<bool>() || store.farm() != nullptr;
  Silence silence(kMostSilence);
  const OnServing under_way = [&](const ServedSoFar& run) {
    const std::lock_guard lock(turn);
    if (silence.too_long()) {
      silence.broken();
      std::cerr << fmt::format("epsim: under way: {}\n", served_text(run));
    }
  };
  const OnServing on_serving = quiet ? OnServing() : under_way;
  std::vector<SearchTarget> targets = targets_of(by_seed, control, &plans, on_serving);
  const auto usual = static_cast<std::ptrdiff_t>(targets.size());
  if (!alignment.by_seed.empty()) {
    for (SearchTarget& target : targets_of(alignment.by_seed, control, &plans, on_serving)) {
      target.aligned = true;
      targets.push_back(std::move(target));
    }
  }
  const OnLoadPoint print = [&](const SearchTarget& target, const LoadPoint& probe) {
    const std::lock_guard lock(turn);
    print_load_point(target, probe);
    silence.broken();
    const std::string note = cost_note(probe, printable(target.policy), targets.size(), options);
    if (!note.empty() && !std::exchange(cost_told, true)) {
      std::cerr << "epsim: " << note << "\n";
    }
  };
  study.searches = search_all(targets, options, quiet ? OnLoadPoint() : print, &store);
  study.aligned.assign(study.searches.begin() + usual, study.searches.end());
  study.searches.resize(static_cast<std::size_t>(usual));
  return study;
}

// A search scales stretches of a recording to each rate, so that a burst longer than they are is the same as any other.
std::string lost_bursts(const Scenario& scenario) {
  constexpr std::size_t kStretch = 1000;
  constexpr double kBurst = 2;
  const RequestTrace& trace = scenario.requests;
  if (scenario.make_requests || trace.requests.size() <= kStretch) {
    return "";
  }
  const Seconds busiest = to_seconds(busiest_of(trace, kStretch).requests.back().arrival);
  const double times = static_cast<double>(kStretch) / (busiest.count() * arrival_rate(trace));
  return times < kBurst ? ""
                        : fmt::format(
                              "the recording's busiest {} requests arrive at {:.1f} times its mean rate. The search "
                              "scales parts of it to each rate, without such bursts: the rate that it finds is that of "
                              "a steady load. `epsim capacity` sizes for bursts, and `epsim run` replays them.",
                              grouped(kStretch), times);
}

int goodput(const po::variables_map& values, const ComparedLabels& compared) {
  interrupted();  // from here on, Ctrl-C is ours
  const JsonOutput json(values);
  const SharedStudy shared(values);
  const GoodputOptions given = read_goodput_options(values);
  const std::vector<Scenario> by_seed = scenarios_by_seed(values, compared.labels, {});
  const Scenario& scenario = by_seed.front();
  check_searched(scenario);  // before the study has a folder
  GoodputOptions options = by_protocol(given, scenario);
  if (options.slo.any() && !given.slo.any()) {
    refuse_knee_options(values, "protocol.slo of the scenario");
  }
  options.branches = values["branches"].as<bool>();
  print_warnings(scenario);
  if (const std::string lost = lost_bursts(scenario); !lost.empty()) {
    std::cerr << "warning: " << lost << "\n";
  }
  print_note(values, compared.note);
  const Alignment alignment = options.branches ? alignment_of(values, compared, scenario) : Alignment{};
  const std::string manifest = goodput_manifest(by_seed, options, assignments_of(values));
  const ResultsFolder results(values, scenario.name + "-goodput",
                              [&](const fs::path& earlier) { return holds_study(earlier, kGoodputStore, manifest); });
  const fs::path& target = results.path();
  const JobStore store(target, kGoodputStore, manifest, values["overwrite"].as<bool>(), shared.sharing());
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, workers_of(values));
  return shared.run(target, [&] {
    const GoodputStudy study = study_of(by_seed, alignment, options, store, values);
    store.finish();
    write_goodput(store.path(), study, describe_inputs(scenario, EPSIM_VERSION));
    results.publish();
    const std::int64_t all = scenario.protocol.requests;
    std::cout << fmt::format("goodput of {}: {} on {} GPUs, {}, {} to each rate{}\n\n", scenario.name,
                             scenario.model.name, all_gpus(scenario), scenario.requests.source,
                             scenario.make_paced ? "sessions paced" : "scaled",
                             all > 0 ? fmt::format(", {} requests each", all) : "")
              << goodput_tables(study) << "\nresults: " << target.string() << "\n";
    json.print(read_file((store.path() / "goodput.json").string()));
    const auto holds = [](const GoodputSearch& search) { return search.slo.holds; };
    return !options.slo.any() || std::ranges::any_of(study.searches, holds) ? 0 : kInfeasible;
  });
}

}  // namespace

int goodput_verb(const std::vector<std::string>& words) {
  po::options_description options("options");
  const auto word = [] { return po::value<std::string>(); };
  options.add_options()("policies", word(), "policies to compare, separated by commas");
  add_seeds_option(options, 3);
  add_comparison_options(options);
  add_goodput_options(options);
  options.add_options()("branches", po::bool_switch(),
                        "also run rates above the knee with a backlog at the start, and search each policy with "
                        "prompts held until all DP ranks have one; takes four to five times as long");
  add_scenario_options(options);
  add_output_options(options);
  add_shard_option(options);
  add_calibration_option(options);
  add_json_option(options, "rates by policy, the verdict and every probe, as goodput.json");
  const auto values = parse_words(
      words,
      "epsim goodput SCENARIO.yaml --policies base,eplb,craft [options]\n\n"
      "Finds the request rate that each policy sustains: with --slo the highest at which the SLO holds, or else the\n"
      "knee of mean TTFT and the saturation throughput. Rates scale the arrivals of the scenario's requests, so every\n"
      "policy sees the same ones; ratios between policies are taken seed by seed. The search generates as many\n"
      "requests as a verdict needs (1,000,000 at most); requests.count does not limit it. Finished searches are kept:\n"
      "after Ctrl-C or a kill, rerun the same command to continue. Exit code 3: no policy meets the SLO at any rate.\n",
      options, {"scenario"});
  return goodput(values, compared_labels(values, option_list(values, "policies")));
}

}  // namespace epsim::app
