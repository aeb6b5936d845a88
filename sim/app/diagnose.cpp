// `epsim diagnose`: should EPLB be on, told from a file of expert counts. docs/diagnose.md.
#include <tbb/global_control.h>

#include <iostream>

#include "sim/app/command_line.h"
#include "sim/app/seeds.h"
#include "sim/app/trace_verbs.h"
#include "sim/core/files.h"
#include "sim/core/refuse.h"
#include "sim/report/diagnosis_report.h"
#include "sim/study/diagnosis.h"
#include "sim/study/job_runner.h"
#include "sim/verbs/diagnosis_question.h"

namespace epsim::app {

namespace {

constexpr int kOn = 10, kOff = 11, kUnsure = 12;  // exit codes

DiagnosisRequest request_of(const po::variables_map& values) {
  const auto text = [&](const char* name) {
    return values.count(name) > 0 ? values[name].as<std::string>() : std::string();
  };
  const auto file = [&](const char* name) { return shipped_file(text(name)).string(); };
  DiagnosisRequest out{file_argument(values, "counts", "the recording to plan from"),
                       file("later"),
                       text("format"),
                       text("scenario"),
                       file("model"),
                       file("node"),
                       {},
                       assignments_of(values),
                       values["seeds"].as<int>()};
  out.counts_title = text("counts");
  out.later_title = text("later");
  if (values.count("nodes") > 0) {
    out.nodes = values["nodes"].as<int>();
  }
  if (values.count("seed") > 0) {
    out.overrides.push_back("seed=" + text("seed"));
  }
  return out;
}

int exit_code(BalanceAnswer answer) {
  return answer == BalanceAnswer::kOn ? kOn : answer == BalanceAnswer::kOff ? kOff : kUnsure;
}

int give_answer(const po::variables_map& values) {
  interrupted();  // from here on, Ctrl-C is ours
  const double worth = values["worth"].as<double>() / 100;
  refuse_if(!(worth >= 0 && worth < 1), "worth", "a gain in per cent from 0 to 100, as in 2.5.");
  const JsonOutput json(values);
  DiagnosisQuestion question = read_question(request_of(values));
  print_warnings(question.by_seed.front());
  RunControl control;
  control.stop = &interrupted();
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, workers_of(values));
  try {
    const Diagnosis found = diagnose(std::move(question.by_seed), question.counts.windows, question.planned, control);
    const BalanceVerdict verdict = verdict_of(found, worth);
    std::cout << question.title << "\n\n" << diagnosis_lines(found, verdict);
    json.print(diagnosis_json(found, verdict));
    return exit_code(verdict.answer);
  } catch (const StudyInterrupted&) {
    return kInterrupted;
  }
}

}  // namespace

int diagnose_verb(const std::vector<std::string>& words) {
  po::options_description options("options");
  options.add_options()("scenario", po::value<std::string>(),
                        "the deployment; its loads are replaced by the counts. Default: SGLang on the fewest nodes of "
                        "--node that hold the model, two at least")(
      "model", po::value<std::string>(),
      "without a scenario: epsim list models, or a Hugging Face config.json; default: "
      "detected from the shape of the counts")("node", po::value<std::string>()->default_value("DGX-H200"),
                                               "without a scenario: epsim list hardware")(
      "nodes", po::value<int>(), "without a scenario: number of nodes")(
      "format", po::value<std::string>()->default_value("auto"),
      "of the recordings: auto, or one that `epsim trace import --help` lists")(
      "worth", po::value<double>()->default_value(2.5, "2.5"), "gain in % below which nothing is worth turning on")(
      "threads", po::value<int>()->default_value(0), "threads for independent runs; 0 = all cores");
  add_seeds_option(options, 3);
  add_scenario_options(options);
  add_json_option(options, "the answer, its gains with intervals, skew, stability and cost");
  const auto values = parse_words(
      words,
      "epsim diagnose COUNTS [LATER] [--scenario S.yaml] [options]\n\n"
      "Five lines from recorded expert counts: how skewed they are, how long a plan lasts, what placement, copies and\n"
      "perfect balance would bring, what EPLB would cost, and whether to turn it on. COUNTS is a recording that "
      "`epsim\n"
      "trace import` reads; policies plan from it (of several steps: the first half) and are scored on LATER (the "
      "second\n"
      "half). Exit codes: 10 on, 11 off, 12 unsure; others as for every verb.\n",
      options, {"counts", "later"});
  return give_answer(values);
}

}  // namespace epsim::app
