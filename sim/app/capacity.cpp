// `epsim capacity`: what to rent for a demand and an SLO, how to run it, what it costs.
#include <fmt/format.h>
#include <tbb/global_control.h>

#include <initializer_list>
#include <iostream>

#include "sim/app/command_line.h"
#include "sim/app/results_folder.h"
#include "sim/app/shared_study.h"
#include "sim/core/files.h"
#include "sim/core/text.h"
#include "sim/report/capacity_report.h"
#include "sim/report/capacity_words.h"
#include "sim/report/format.h"
#include "sim/report/tables.h"
#include "sim/scenario/new_scenario.h"
#include "sim/scenario/read_scenario.h"
#include "sim/study/capacity_scenario.h"
#include "sim/study/job_runner.h"
#include "sim/verbs/capacity_folder.h"
#include "sim/verbs/capacity_request.h"

namespace epsim::app {

namespace fs = std::filesystem;

namespace {

void print_answer(const std::string& progress, const CapacityDesign& design, int instances, const CapacityAnswer& a) {
  if (a.refused.empty()) {
    const std::string load = a.point.requests == 0
                                 ? "requests alone"
                                 : fmt::format("{} at {:.4g}/s, {}", count_of(instances, "instance"), a.point.offered,
                                               count_of(a.point.requests, "request"));
    std::cerr << progress
              << fmt::format("{}: {}: TTFT p99 {} ms, TPOT p99 {} ms, {}\n",
                             shortened(printable(name_of(design)), kColumns), load, rounded(a.point.ttft_s.p99 * 1e3),
                             rounded(a.point.tpot_s.p99 * 1e3), a.point.slo.holds ? "holds" : "fails");
  }
}

// How far a search is: the designs that have a verdict and the cheapest deployment so far. No estimate of the time left:
// most designs are told from one short run or none, a few take most of the time, and which ones is not known before.
class SearchProgress {
 public:
  explicit SearchProgress(const CapacityRequest& request)
      : request_(request), designs_(request.question.layouts.size() * request.question.policies.size()) {}

  void settled() { ++settled_; }
  void found(const std::vector<CapacityPool>& pools) {
    CapacityOption option;
    option.pools = pools;
    option.spare = request_.question.spare;
    const auto price = price_of(option.node(), request_.plan.prices);
    const double cost = price ? option.nodes() * price->usd_per_hour : 0;
    if (price && (best_ == 0 || cost < best_)) {
      best_ = cost;
      best_text_ = fmt::format("; best so far {} x {}, {} usd/h", option.nodes(), option.node(), money(cost));
    }
  }
  std::string text() const {
    if (settled_ >= designs_) {
      return fmt::format("[checks of the cheapest{}] ", best_text_);
    }
    return fmt::format("[{} of {} designs{}] ", settled_, designs_, best_text_);
  }

 private:
  const CapacityRequest& request_;
  std::size_t designs_, settled_ = 0;
  double best_ = 0;  // usd/h
  std::string best_text_;
};

// The options that were given, as the request takes them.
CapacityWords words_of(const po::variables_map& values) {
  CapacityWords out;
  for (const auto& [name, value] : values) {
    if (const auto* word = boost::any_cast<std::string>(&value.value())) {
      out[name] = {*word};
    } else if (const auto* words = boost::any_cast<std::vector<std::string>>(&value.value())) {
      out[name] = *words;
    }
  }
  if (values["quick"].as<bool>()) {
    out["quick"] = {};
  }
  return out;
}

// What a run of the recommended deployment would warn of, and why its weights have their type.
void print_notes(const CapacityQuestion& question, const CapacityPlan& plan) {
  if (!plan.feasible) {
    return;
  }
  const CapacityDesign& d = plan.study.options[plan.order.front()].pools.front().design;
  const NewScenario usual = usual_scenario(question, d);
  if (!usual.dtype_note.empty() && usual.dtype == d.dtype) {
    std::cerr << "note: weights are " << usual.dtype_note << "\n";
  }
  for (const std::string& warning : plan.warnings) {
    std::cerr << "warning: " << warning << "\n";
  }
}

int capacity(const po::variables_map& values) {
  interrupted();  // from here on, Ctrl-C is ours
  const JsonOutput json(values);
  const SharedStudy shared(values);
  std::string name = "capacity";
  std::optional<Config> file;
  if (values.count("file") > 0) {
    const fs::path path = shipped_file(values["file"].as<std::string>());
    file = Config::from_file(path);
    name = path.stem().string() + "-capacity";
  }
  const CapacityRequest request = read_capacity_request(words_of(values), file);
  const std::string text = capacity_manifest(request);
  const ResultsFolder results(values, name,
                              [&](const fs::path& earlier) { return holds_study(earlier, kCapacityStore, text); });
  const JobStore store(results.path(), kCapacityStore, text, values["overwrite"].as<bool>(), shared.sharing());
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, workers_of(values));
  CapacityControl control{&interrupted(), &store};
  SearchProgress progress(request);
  if (!values["quiet"].as<bool>() && !shared.quiet()) {
    control.on_answer = [&](const CapacityDesign& design, int instances, const CapacityAnswer& answer) {
      print_answer(progress.text(), design, instances, answer);
    };
    control.on_settled = [&] { progress.settled(); };
    control.on_found = [&](const std::vector<CapacityPool>& pools) { progress.found(pools); };
  }
  return shared.run(results.path(), [&] {
    const CapacityPlan plan = plan_capacity(request, control);
    write_capacity(store.path(), plan, request.question);
    results.publish();
    std::cout << fmt::format("capacity: {} for {}, SLO {}\n\n", plan.model, plan.demand, name_of(plan.slo))
              << capacity_text(plan)
              << fmt::format("\n{}, {}\nresults: {}\n", count_of(plan.study.rows.size(), "design"),
                             count_of(plan.study.runs, "run"), results.path().string());
    print_notes(request.question, plan);
    json.print(read_file((store.path() / "capacity.json").string()));
    return plan.feasible ? 0 : kInfeasible;
  });
}

struct Option {
  const char *name, *help;
  bool repeatable = false;
};

void add(po::options_description& to, std::initializer_list<Option> options) {
  for (const Option& option : options) {
    const po::value_semantic* words = nullptr;
    if (option.repeatable) {
      words = po::value<std::vector<std::string>>();
    } else {
      words = po::value<std::string>();
    }
    to.add_options()(option.name, words, option.help);
  }
}

void add_capacity_options(po::options_description& options) {
  add(options,
      {
          {"model", "a name of epsim list models, or a Hugging Face config.json"},
          {"rate", "requests/s to serve, as in 20/s"},
          {"concurrency",
           "requests in flight, instead of a rate: clients that send the next request when one has ended"},
          {"times", "factor on the rate, or on a trace's rate"},
          {"time-share", "share of a trace's hours in which the SLO must hold; default 1, the busiest hour too"},
          {"input-tokens", "prompt length of each request"},
          {"output-tokens", "answer length of each request"},
          {"growth", "reserve for growth of demand, as in 0.3 for 30 %; default 0"},
          {"spare", "instances of each pool that may fail while the SLO still holds; default 0"},
          {"slo", "as for epsim goodput: 'ttft.p99<2s,tpot.p99<50ms'"},
          {"ttft", "p99=2s, mean=1s, or 2s for each request"},
          {"tpot", "the same for the time per output token"},
          {"e2e", "the same for the whole request"},
          {"budget", "upper limit on cost, as in 400usd/h"},
          {"power", "upper limit on power, as in 200kW"},
          {"price", "NODE=31.6usd/h, or a file with one on each line; repeatable", true},
          {"terms", "of prices: on_demand (default), capacity_block, 1y, 3y, ownership"},
          {"kwh",
           "price of electricity, added to your own prices (--price), as in 0.12usd/kWh; listed ones include it"},
          {"pue", "power of the site over that of its nodes; default 1.3"},
          {"seeds", "seeds of the final search for the highest rate; default 3"},
      });
  options.add_options()("quick", po::bool_switch(), "a first answer in a minute or so: fewer designs, shorter runs");
  po::options_description space("search space, values separated by commas");
  add(space,
      {
          {"nodes", "node types; default AWS's with A100 to B300, and its one H100"},
          {"sizes",
           "nodes of an instance, or 1/2, 1/4, 8gpus of one (prefill and decode together); default 1,2,4,8, of a dense "
           "model 1 to 8 GPUs, a node and two; of a rack 4gpus to 64gpus"},
          {"attention-tp",
           "GPUs of an attention DP rank; default 1 and 8, or all of a smaller node; of a dense model all of an "
           "instance"},
          {"ep-size",
           "EP ranks of an instance, or all: one a GPU; default all, and 1 (every expert split over all GPUs) where "
           "attention TP spans an instance within a node"},
          {"engines", "default sglang"},
          {"dtypes", "of weights; default auto: as epsim init"},
          {"modes", "together, apart (prefill and decode); default both, of a dense model together"},
          {"policies", "default contiguous,base,eplb,craft, of a dense model base; craft:8 sets copies"},
          {"vary", "key=a,b of the scenario, as for epsim sweep; repeatable", true},
          {"max-nodes", "upper limit on nodes; default 128"},
      });
  options.add(space);
}

}  // namespace

int capacity_verb(const std::vector<std::string>& words) {
  po::options_description options("options");
  add_capacity_options(options);
  options.add_options()("set", po::value<std::vector<std::string>>(), "key=value of every scenario; repeatable");
  add_output_options(options);
  add_shard_option(options);
  add_json_option(options, "the answer, deployments, prices and candidates, as capacity.json");
  const auto values = parse_words(
      words,
      "epsim capacity --model kimi-k2 --rate 20/s --input-tokens 4096 --output-tokens 500 --ttft p99=2s "
      "--tpot p99=50ms\n"
      "epsim capacity FILE.yaml [options]\n\n"
      "Finds what to rent. For each node type it finds the fewest nodes that serve the demand within the "
      "SLO, over instance\nsizes, layouts, prefill and decode together or apart, and policies; then it prices "
      "them. candidates.csv lists every\ndesign with the reason for its rejection. The folder keeps finished "
      "runs: the same command resumes after a kill, and\nnew prices or limits need no new runs. Exit code 3: "
      "no deployment meets the SLO and the limits.\n",
      options, {"file"});
  return capacity(values);
}

}  // namespace epsim::app
