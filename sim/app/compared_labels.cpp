#include "sim/app/compared_labels.h"

#include <algorithm>
#include <iostream>
#include <iterator>

#include "sim/app/command_line.h"
#include "sim/cluster/prepare.h"
#include "sim/core/mapped.h"
#include "sim/core/refuse.h"
#include "sim/scenario/compared_policies.h"
#include "sim/scenario/read_scenario.h"

namespace epsim::app {
namespace {

bool makes_copies(const Scenario& scenario, const PolicyChoice& policy) {
  return policy.ceiling == Ceiling::kNone && policy.prefill == nullptr &&
         (policy.per_step != nullptr || prepare_run(scenario, policy).last().plan.copies() > 0);
}

}  // namespace

void add_comparison_options(po::options_description& options) {
  options.add_options()("only-listed", po::bool_switch(),
                        "run the policies listed and no others; otherwise a comparison of several also runs contiguous "
                        "(load balancing off) and base (placement alone, no copies)")(
      "split", po::bool_switch(),
      "split each policy's gain: placement, copies, choice of copy, dispatch, KV room, planning again; runs up to four "
      "variants of each");
}

void check_comparison_options(const po::variables_map& values) {
  refuse_if(values["split"].as<bool>() && values["only-listed"].as<bool>(), "only-listed",
            "--split needs contiguous and base; leave out one of the two options.");
}

ComparedLabels compared_labels(const po::variables_map& values, const std::vector<std::string>& labels) {
  check_comparison_options(values);
  const bool split = values["split"].as<bool>();
  ComparedLabels out{labels, ""};
  if (!split && !values["only-listed"].as<bool>() && labels.size() > 1) {
    References added =
        references_for([&](const auto& read) { return read_scenario(open_scenario(values), read); }, labels);
    out.labels.insert(out.labels.end(), added.labels.begin(), added.labels.end());
    out.note = std::move(added.note);
  }
  if (!split) {
    return out;
  }
  const Scenario scenario = read_scenario(open_scenario(values), labels);
  out.labels = mapped(scenario.policies, &PolicyChoice::label);
  std::ranges::move(missing_references(out.labels), std::back_inserter(out.labels));
  for (const PolicyChoice& policy : scenario.policies) {
    if (makes_copies(scenario, policy)) {
      const std::vector<std::string> variants = split_variants(policy);
      out.labels.insert(out.labels.end(), variants.begin(), variants.end());
    }
  }
  return out;
}

void print_note(const po::variables_map& values, const std::string& note) {
  if (!note.empty() && !values["quiet"].as<bool>()) {
    std::cerr << "epsim: " << note << "\n";
  }
}

}  // namespace epsim::app
