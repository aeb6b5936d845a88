// `epsim capacity`: what to rent for a demand and an SLO, how to run it, what it costs.
#include <fmt/format.h>
#include <tbb/global_control.h>

#include <chrono>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "sim/app/capacity_launch.h"
#include "sim/app/capacity_request.h"
#include "sim/app/command_line.h"
#include "sim/app/inputs.h"
#include "sim/app/results_folder.h"
#include "sim/core/files.h"
#include "sim/report/capacity_report.h"
#include "sim/report/folder_report.h"
#include "sim/report/format.h"
#include "sim/study/job_runner.h"

namespace epsim::app {

namespace po = boost::program_options;
namespace fs = std::filesystem;

namespace {

constexpr StoreKind kCapacityStore{"capacity study", "study.json", "answers"};
constexpr int kCapacityFormat = 1;  // of study.json
constexpr int kInfeasible = 3;

void print_answer(const std::string& progress, const CapacityDesign& design, int instances, const CapacityAnswer& a) {
  if (a.refused.empty()) {
    const std::string load = a.point.requests == 0
                                 ? "requests alone"
                                 : fmt::format("{} instance{} at {:.4g}/s, {} requests", instances,
                                               instances == 1 ? "" : "s", a.point.offered, a.point.requests);
    std::cerr << progress << fmt::format("{}: {}: TTFT p99 {} ms, TPOT p99 {} ms, {}\n", printable(name_of(design)), load,
                             rounded(a.point.ttft_s.p99 * 1e3), rounded(a.point.tpot_s.p99 * 1e3),
                             a.point.slo.holds ? "holds" : "fails");
  }
}

// Tells how far a search is: the ledger's share that is settled, about how long the rest takes, the best so far.
class SearchProgress {
 public:
  explicit SearchProgress(const CapacityRequest& request)
      : request_(request), designs_(request.question.layouts.size() * request.question.policies.size()) {}

  void settled() { ++settled_; }
  void found(const std::vector<CapacityPool>& pools) {
    CapacityOption option;
    option.pools = pools;
    option.spare = request_.question.spare;
    const auto price = price_of(option.node(), request_.prices);
    const double cost = price ? option.nodes() * price->usd_per_hour : 0;
    if (price && (best_ == 0 || cost < best_)) {
      best_ = cost;
      best_text_ = fmt::format("; best so far {} x {}, {} usd/h", option.nodes(), option.node(), rounded(cost));
    }
  }
  std::string text() const {
    const double share = static_cast<double>(settled_) / static_cast<double>(designs_);
    const std::chrono::duration<double> gone = std::chrono::steady_clock::now() - begun_;
    const std::string left =
        settled_ == 0 ? "" : fmt::format(", about {:.0f} s left", gone.count() * (1 - share) / share);
    return fmt::format("[{} of {} designs{}{}] ", settled_, designs_, left, best_text_);
  }

 private:
  const CapacityRequest& request_;
  std::size_t designs_, settled_ = 0;
  double best_ = 0;  // usd/h
  std::string best_text_;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

void write_text_file(const fs::path& file, const std::string& text) {
  std::ofstream out(file, std::ios::binary);
  out << text;
  if (!out.flush()) {
    throw RunFailed(fmt::format("{} cannot be written.", file.string()));
  }
}

// What an earlier answer in the folder left for its deployment.
std::vector<fs::path> hand_over_files(const fs::path& folder) {
  std::vector<fs::path> out;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name == "recommended.yaml" || name == "launch.sh" || name == "leaderworkerset.yaml" ||
        name.starts_with("experts-")) {
      out.push_back(entry.path());
    }
  }
  return out;
}

void write_capacity(const fs::path& folder, const CapacityPlan& plan, const CapacityQuestion& question) {
  for (const fs::path& file : hand_over_files(folder)) {
    fs::remove(file);
  }
  for (const ResultTable& table : {candidates_table(plan), deployments_table(plan), prices_table(plan), what_ifs_table(plan)}) {
    write_text_file(folder / (table.name + ".csv"), table_csv(table));
  }
  write_text_file(folder / "capacity.json", capacity_json(plan, EPSIM_VERSION));
  if (plan.feasible) {
    const CapacityOption& chosen = plan.study.options[plan.order.front()];
    write_text_file(folder / "recommended.yaml", scenario_of(question, chosen));
    for (const auto& [name, content] : launch_files(question, chosen)) {
      write_text_file(folder / name, content);
    }
  }
}

int capacity(const po::variables_map& values) {
  interrupted();  // from here on, Ctrl-C is ours
  const JsonOutput json(values);
  const CapacityRequest request = read_capacity_request(values);
  nlohmann::ordered_json manifest = manifest_head(kCapacityFormat);
  manifest["question"] = capacity_request_json(request);
  const std::string text = document_text(manifest);
  const ResultsFolder results(values, request.name,
                              [&](const fs::path& earlier) { return holds_study(earlier, kCapacityStore, text); });
  const JobStore store(results.path(), kCapacityStore, text, values["overwrite"].as<bool>());
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, workers_of(values));
  CapacityControl control{&interrupted(), &store};
  SearchProgress progress(request);
  if (!values["quiet"].as<bool>()) {
    control.on_answer = [&](const CapacityDesign& design, int instances, const CapacityAnswer& answer) {
      print_answer(progress.text(), design, instances, answer);
    };
    control.on_settled = [&] { progress.settled(); };
    control.on_found = [&](const std::vector<CapacityPool>& pools) { progress.found(pools); };
  }
  CapacityPlan plan;
  plan.model = request.question.model;
  plan.demand = request.demand;
  plan.asked_rate = request.asked_rate;
  plan.rate = request.question.rate;
  plan.most_usd_per_hour = request.most_usd_per_hour;
  plan.most_watts = request.most_watts;
  plan.slo = request.question.options.slo;
  plan.prices = request.prices;
  try {
    plan.study = search_capacity(request.question, control);
    check_cheapest(plan, request.question, control);
  } catch (const StudyInterrupted&) {
    std::cout << fmt::format("interrupted: finished runs are kept in {}; the same command goes on from there\n",
                             results.path().string());
    return kInterrupted;
  }
  write_capacity(store.path(), plan, request.question);
  write_text_file(store.path() / "report.html", report_of(store.path(), EPSIM_VERSION));
  results.publish();
  std::cout << fmt::format("capacity: {} for {}, SLO {}\n\n", plan.model, plan.demand, name_of(plan.slo))
            << capacity_text(plan)
            << fmt::format("\n{} designs, {} runs\nresults: {}\n", plan.study.rows.size(), plan.study.runs,
                           results.path().string());
  json.print(read_file((store.path() / "capacity.json").string()));
  return plan.feasible ? 0 : kInfeasible;
}

}  // namespace

int capacity_verb(const std::vector<std::string>& words) {
  po::options_description options("options");
  add_capacity_options(options);
  options.add_options()("set", po::value<std::vector<std::string>>(), "key=value of every scenario; repeatable");
  add_output_options(options);
  add_json_option(options, "the answer, deployments, prices and candidates, as capacity.json");
  const auto values =
      parse_words(words,
                  "epsim capacity --model kimi-k2 --rate 20/s --input-tokens 4096 --output-tokens 500 --ttft p99=2s "
                  "--tpot p99=50ms\n"
                  "epsim capacity FILE.yaml [options]\n\n"
                  "Finds what to rent: for each kind of node the fewest nodes that serve the demand within the SLO, "
                  "over sizes and\n"
                  "layouts of instances, prefill and decode together or apart, and policies; then what they cost. "
                  "Every design that\n"
                  "was rejected is in candidates.csv, with the reason. Finished runs are kept: the same command goes "
                  "on after a kill,\n"
                  "and answers anew for other prices without running. Exit code 3: nothing in the search space does.\n",
                  options, {"file"});
  return values ? capacity(*values) : 0;
}

}  // namespace epsim::app
