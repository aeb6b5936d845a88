// `epsim reproduce`: a paper's claims beside what the same setups come to here.
#include <fmt/format.h>
#include <tbb/global_control.h>

#include <iostream>

#include "sim/app/command_line.h"
#include "sim/app/shared_study.h"
#include "sim/core/files.h"
#include "sim/core/quantity.h"
#include "sim/core/refuse.h"
#include "sim/reproduce/reproduction.h"
#include "sim/study/job_runner.h"

namespace epsim::app {

namespace fs = std::filesystem;

namespace {

ReproductionRequest request_of(const po::variables_map& values) {
  refuse_if(values.count("paper") == 0, "",
            "name the paper, or a file of claims, as in: epsim reproduce craft --quick");
  ReproductionRequest out{.paper = values["paper"].as<std::string>()};
  if (values.count("only") > 0) {
    out.only = split_list(values["only"].as<std::string>());
  }
  if (values.count("seeds") > 0) {
    out.seeds = values["seeds"].as<int>();
  }
  out.overrides = assignments_of(values);
  out.quick = values["quick"].as<bool>();
  out.sensitivity = values["sensitivity"].as<bool>();
  out.overwrite = values["overwrite"].as<bool>();
  return out;
}

// Tells of each setup that is done.
void print_setup(const std::string& setup, std::size_t done, std::size_t all) {
  std::cerr << fmt::format("{} is done ({} of {} setups)\n", setup, done, all);
}

int reproduce(const po::variables_map& values) {
  const ReproductionRequest request = request_of(values);
  const PaperStudy paper = read_paper_study(claims_file(request.paper));
  interrupted();  // from here on, Ctrl-C is ours
  const JsonOutput json(values);
  const SharedStudy shared(values);
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, workers_of(values));
  const fs::path target = named_folder(values).value_or(fs::path("out") / paper.name);
  const bool quiet = values["quiet"].as<bool>() || shared.quiet();
  return shared.run(target, [&] {
    const Reproduction done =
        reproduce(paper, request, target, {&interrupted(), quiet ? OnSetup() : OnSetup(print_setup), shared.sharing()});
    std::cout << reproduction_text(done)
              << fmt::format("\nresults: {}\nreport:  {} (open it in a browser; it needs no network)\n",
                             target.string(), (target / "report.html").string());
    json.print(read_file(target / "claims.json"));
    return all_hold(done.rows) ? 0 : 1;
  });
}

}  // namespace

int reproduce_verb(const std::vector<std::string>& words) {
  po::options_description options("options");
  options.add_options()("only", po::value<std::string>(), "claims to check, separated by commas, as in C09,C17")(
      "quick", po::bool_switch(), "the setups, and the fewer requests, that the file names for it; one seed")(
      "sensitivity", po::bool_switch(),
      "also change one input at a time, as the file lists, and report the two that move each figure most")(
      "seeds", po::value<int>(), "seeds of requests and routing; default: the file's")(
      "set", po::value<std::vector<std::string>>(), "override a key of every setup, as in --set dispatch.dedup=node");
  add_output_options(options);
  add_shard_option(options);
  add_json_option(options, "the claims with value, tolerance and verdict, as claims.json");
  const auto values = parse_words(words,
                                  "epsim reproduce PAPER|FILE.yaml [options]\n\n"
                                  "Simulates the evaluation of a paper and checks each of its claims against a "
                                  "tolerance.\n"
                                  "PAPER is a folder of experiments/ that has a claims.yaml; its README.md states the "
                                  "assumptions. docs/your-paper.md\n"
                                  "explains how to write your own study. Exit code 1 when a claim that must hold is "
                                  "missed. Each finished search\n"
                                  "is kept at once: after a kill, rerun the same command to continue.\n",
                                  options, {"paper"});
  return reproduce(values);
}

}  // namespace epsim::app
