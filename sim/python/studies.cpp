#include "sim/python/studies.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "models/catalogue/catalogue.h"
#include "models/catalogue/model_catalogue.h"
#include "policies/registry.h"
#include "sim/cluster/run_policy.h"
#include "sim/core/mapped.h"
#include "sim/core/refuse.h"
#include "sim/report/run_info.h"
#include "sim/scenario/compared_policies.h"
#include "sim/scenario/read_scenario.h"
#include "sim/study/goodput.h"
#include "sim/study/job_runner.h"
#include "sim/verbs/goodput_folder.h"

namespace epsim::python {
namespace {

constexpr int kMostSeedsHere = 100;  // as the program's --seeds

void check_seeds(int seeds) {
  refuse_if(seeds < 1 || seeds > kMostSeedsHere, "seeds",
            fmt::format("{} seeds; 1 to {} are allowed.", seeds, kMostSeedsHere));
}

// Adds what tells gains apart (references_for), unless only the given ones are to run. Without the interpreter's lock.
void add_references(const Document& document, bool only_listed, std::vector<PolicyGiven>& given) {
  if (only_listed || given.size() < 2) {
    return;
  }
  std::vector<std::string> labels, functions;
  for (const PolicyGiven& policy : given) {
    labels.push_back(policy.label);
    if (policy.is_python()) {
      functions.push_back(policy.label);
    }
  }
  const ReadLabels read = [&](std::vector<std::string> wanted) {
    std::erase_if(wanted, [&](const std::string& label) {
      return std::find(functions.begin(), functions.end(), label) != functions.end();
    });
    return document.read(wanted);
  };
  const std::vector<std::string> added = references_for(read, labels).labels;
  const py::gil_scoped_acquire lock;
  for (const std::string& label : added) {
    given.push_back({label, py::none(), py::none()});
  }
}

RunControl control_of(const Follow& follow, bool strict) {
  RunControl control;
  control.stop = &follow.stop;
  control.strict_calibration = strict;
  return control;
}

Run run_scenario(const Document& document, int threads, bool strict, const py::object& progress) {
  Run out;
  in_background(threads, progress, [&](const Follow& follow) {
    const std::shared_ptr<const Inputs> inputs = document.inputs();
    const Scenario& scenario = inputs->by_seed.front();
    out.info = inputs->info;
    RunControl control = control_of(follow, strict);
    control.on_progress = [&](const Progress& p) {
      follow.tally.done = p.completed;
      follow.tally.all = p.requests;
    };
    out.result = std::make_shared<const RunResult>(whole_run(run_policy(scenario, scenario.policies.front(), control)));
    out.summary = summarize(*out.result);
    const std::vector<RequestRecord>& records = out.result->requests;
    follow.tally.all = std::ssize(records);
    follow.tally.done = std::count_if(records.begin(), records.end(), [](const RequestRecord& request) {
      return request.state == RequestState::kCompleted;
    });
  });
  return out;
}

// The plans are made one after the other, and what does not fit is refused before any run starts.
std::vector<PreparedRun> prepare_all(const Scenario& scenario, const std::vector<PolicyGiven>& given,
                                     PlanCache& plans) {
  std::vector<PreparedRun> out;
  for (std::size_t p = 0; p < scenario.policies.size(); ++p) {
    // The cache knows a policy by its text in the scenario, and a function has none there.
    out.push_back(prepare_run(scenario, scenario.policies[p], given[p].is_python() ? nullptr : &plans));
  }
  return out;
}

void add_seeds(std::span<const Scenario> by_seed, const std::vector<PolicyGiven>& given, bool strict, PlanCache& plans,
               const Follow& follow, Comparison& compared) {
  const std::size_t policies = given.size();
  std::vector<RunSummary> summaries((by_seed.size() - 1) * policies);
  run_jobs(all_jobs(summaries.size()), {&follow.stop}, [&](std::size_t i, const Abandoned&) {
    const Scenario& scenario = by_seed[1 + i / policies];
    const PreparedRun prepared =
        prepare_run(scenario, scenario.policies[i % policies], given[i % policies].is_python() ? nullptr : &plans);
    summaries[i] =
        summarize(whole_run(run_prepared(scenario, prepared, scenario.requests, control_of(follow, strict))));
    ++follow.tally.done;
  });
  for (std::size_t s = 1; s < by_seed.size(); ++s) {
    compared.seeds.push_back(static_cast<std::uint64_t>(by_seed[s].seed));
    for (std::size_t p = 0; p < policies; ++p) {
      compared.by_policy[p].push_back(std::move(summaries[(s - 1) * policies + p]));
    }
  }
  compared.same_requests = same_requests(by_seed);
}

Compared compare_policies(const Document& document, const py::list& policies, int seeds, bool only_listed, int threads,
                          bool strict, const py::object& progress) {
  check_seeds(seeds);
  std::vector<PolicyGiven> given = policies_given(policies);
  Compared out;
  in_background(threads, progress, [&](const Follow& follow) {
    add_references(document, only_listed, given);
    const Inputs inputs = inputs_with(document, given, seeds);
    const std::vector<Scenario>& by_seed = inputs.by_seed;
    const Scenario& scenario = by_seed.front();
    follow.tally.all = static_cast<std::int64_t>(given.size() * by_seed.size());
    out.info = inputs.info;
    PlanCache plans;
    const std::vector<PreparedRun> prepared = prepare_all(scenario, given, plans);
    std::vector<RunResult> runs(prepared.size());
    run_jobs(all_jobs(prepared.size()), {&follow.stop}, [&](std::size_t i, const Abandoned&) {
      runs[i] = whole_run(run_prepared(scenario, prepared[i], scenario.requests, control_of(follow, strict)));
      ++follow.tally.done;
    });
    const std::vector<RunSummary> summaries = mapped(runs, [&](const RunResult& run) { return summarize(run); });
    out.first_seed = std::make_shared<const std::vector<RunResult>>(std::move(runs));
    out.comparison = one_seed(summaries, static_cast<std::uint64_t>(scenario.seed));
    out.comparison.takes_rate = takes_rate(scenario);
    out.comparison.length_key = length_key(scenario);
    out.comparison.out_of_reach = out_of_reach(scenario.policies);
    if (by_seed.size() > 1) {
      add_seeds(by_seed, given, strict, plans, follow, out.comparison);
    }
  });
  return out;
}

SearchedGoodput search(const Document& document, const py::list& policies, const std::string& slo,
                       const std::vector<double>& rates, double tolerance, int seeds, bool only_listed,
                       const std::string& folder, bool overwrite, int threads, bool strict,
                       const py::object& progress) {
  check_seeds(seeds);
  std::vector<PolicyGiven> given = policies_given(policies);
  const bool any_python =
      std::any_of(given.begin(), given.end(), [](const auto& policy) { return policy.is_python(); });
  refuse_if(!folder.empty() && (any_python || document.has_own_loads()), "folder",
            "searches of a Python function (a policy, or with_loads()) cannot be recognised later, so none are kept: "
            "leave `folder` out, and save() the result.");
  SearchedGoodput out;
  GoodputOptions& options = out.study.options;
  options.rates = rates;
  options.tolerance = tolerance;
  if (!slo.empty()) {
    options.slo = parse_slo(slo);
  }
  in_background(threads, progress, [&](const Follow& follow) {
    add_references(document, only_listed, given);
    const Inputs inputs = inputs_with(document, given, seeds);
    const std::vector<Scenario>& by_seed = inputs.by_seed;
    options = by_protocol(options, by_seed.front());
    validate(options);
    for (const PolicyChoice& policy : by_seed.front().policies) {
      out.study.policies.push_back(policy.label);
    }
    out.study.out_of_reach = out_of_reach(by_seed.front().policies);
    out.study.seeds = seeds;
    out.study.same_requests = same_requests(by_seed);
    out.info = inputs.info;
    PlanCache plans;
    const RunControl control = control_of(follow, strict);
    std::optional<JobStore> store;
    if (!folder.empty()) {
      store.emplace(folder, kGoodputStore, goodput_manifest(by_seed, options, document.assignments()), overwrite);
    }
    out.study.searches = search_all(
        targets_of(by_seed, control, any_python ? nullptr : &plans), options,
        [&](const SearchTarget&, const LoadPoint&) { ++follow.tally.done; }, store ? &*store : nullptr);
    if (store) {
      store->finish();
      write_goodput(store->path(), out.study, out.info);
    }
  });
  return out;
}

template <class Entries>
py::dict listed(const Entries& entries) {
  py::dict out;
  for (const auto& entry : entries) {
    out[py::str(std::string(entry.name))] = std::string(entry.summary);
  }
  return out;
}

py::dict catalogue() {
  py::dict out;
  out["models"] = listed(list_models());
  out["nodes"] = listed(list_nodes());
  out["gpus"] = listed(list_gpus());
  out["placement_policies"] = listed(placement_policies());
  out["step_policies"] = listed(step_policies());
  out["ceilings"] = listed(ceilings());
  out["replica_choices"] = listed(replica_choices());
  return out;
}

}  // namespace

Inputs inputs_with(const Document& document, const std::vector<PolicyGiven>& given, int seeds) {
  Inputs out = *document.inputs(labels_of(given), seeds);
  const py::gil_scoped_acquire lock;
  for (Scenario& scenario : out.by_seed) {
    add_python_policies(scenario, given);
  }
  return out;
}

Run Compared::run(std::size_t policy) const {
  return {{first_seed, &first_seed->at(policy)}, comparison.first_seed(policy), info};
}

std::vector<std::string> Compared::labels() const { return mapped(*first_seed, &RunResult::label); }

void bind_studies(py::module_& m) {
  m.def("run", &run_scenario, py::arg("document"), py::arg("threads"), py::arg("strict"), py::arg("progress"));
  m.def("compare", &compare_policies, py::arg("document"), py::arg("policies"), py::arg("seeds"),
        py::arg("only_listed"), py::arg("threads"), py::arg("strict"), py::arg("progress"));
  m.def("goodput", &search, py::arg("document"), py::arg("policies"), py::arg("slo"), py::arg("rates"),
        py::arg("tolerance"), py::arg("seeds"), py::arg("only_listed"), py::arg("folder"), py::arg("overwrite"),
        py::arg("threads"), py::arg("strict"), py::arg("progress"));
  m.def("catalogue", &catalogue);
}

}  // namespace epsim::python
