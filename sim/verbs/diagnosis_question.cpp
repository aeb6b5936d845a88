#include "sim/verbs/diagnosis_question.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "models/catalogue/model_catalogue.h"
#include "policies/registry.h"
#include "sim/cluster/prepare.h"
#include "sim/core/config.h"
#include "sim/core/error.h"
#include "sim/core/files.h"
#include "sim/core/refuse.h"
#include "sim/core/text.h"
#include "sim/scenario/new_scenario.h"
#include "sim/scenario/read_scenario.h"
#include "sim/study/diagnosis.h"
#include "traces/expert_loads/window_load_source.h"

namespace epsim {
namespace {

constexpr int kMostWindows = 8, kMostSeeds = 100;
constexpr int kFewestNodes = 2, kMostNodes = 64;  // without a scenario

// What stands in place of the scenario's own loads until those are replaced by the counts.
constexpr const char* kNoLoads[] = {"loads={kind: uniform}", "plan_loads={kind: uniform}"};
// Of a deployment that nothing is said of: 2000 tokens in and 500 out on average.
constexpr const char* kUsualRequests =
    "requests={kind: poisson, rate: 1/s, count: 500, lengths: {input: {kind: uniform, min: 1000, max: 3000}, output: "
    "{kind: uniform, min: 250, max: 750}}}";

// Policies as the engine runs them, where the file names no kind.
void take_engines_own(Config& config) {
  const Config read = config.clone();
  const std::string engine = read_scenario(read, diagnosed_policies()).serving.engine;
  for (const auto& [name, entry] : diagnosed_defaults(engine)) {
    ConfigReader root = read.root();
    const ConfigReader written = root.section("policies").section(name);
    const std::array others{"kind", "plugin", "prefill", "decode"};
    if (std::none_of(others.begin(), others.end(), [&](const char* key) { return written.has(key); })) {
      config.extend(Config::from_text(fmt::format("policies: {{{}: {}}}", name, entry), ""));
    }
  }
}

// The file, or `usual` where there is none, under each seed from its own on. It is read anew for each.
std::vector<Scenario> scenarios(const DiagnosisRequest& request, const NewScenario* usual) {
  refuse_if(request.seeds < 1 || request.seeds > kMostSeeds, "seeds",
            fmt::format("{} seeds; 1 to {} are allowed.", request.seeds, kMostSeeds));
  std::vector<Scenario> out;
  for (int s = 0; s < request.seeds; ++s) {
    Config config = usual == nullptr ? Config::from_file(shipped_file(request.scenario))
                                     : Config::from_text(scenario_document(with_dtype(*usual)), "");
    if (usual != nullptr) {
      config.set(kUsualRequests);
    }
    config.set(request.overrides);
    for (const char* assignment : kNoLoads) {
      config.set(assignment);
    }
    if (s > 0) {
      config.set(fmt::format("seed={}", static_cast<std::int64_t>(out.front().seed) + s));
    }
    take_engines_own(config);
    out.push_back(read_scenario(config, diagnosed_policies()));
  }
  return out;
}

// Ids of experts do not say how many there are: then the model does.
RecordedCounts read_recording(const DiagnosisRequest& request, const std::string& file) {
  try {
    return read_counts(file, request.format, kMostWindows);
  } catch (const InputError& e) {
    if (e.place.key != "experts") {
      throw;
    }
    refuse_if(request.model.empty() && request.scenario.empty(), {file, 0, ""},
              "this format does not say how many experts a layer has; name the model with --model, or give "
              "--scenario.");
    const int experts =
        request.model.empty() ? scenarios(request, nullptr).front().model.experts : find_model(request.model).experts;
    return read_counts(file, request.format, kMostWindows, experts);
  }
}

bool same_window(const LoadWindow& a, const LoadWindow& b) {
  int l = 0;
  while (l < a.layers() && std::ranges::equal(a.layer(l), b.layer(l))) {
    ++l;
  }
  return l == a.layers();
}

// Of recordings of one shape.
bool same_counts(const RecordedCounts& a, const RecordedCounts& b) {
  return std::ranges::equal(a.windows, b.windows, same_window);
}

// The same counts again say nothing of how long a plan holds. Returns how many there were.
std::size_t drop_repeats(std::vector<LoadWindow>& windows) {
  std::vector<LoadWindow> kept;
  for (LoadWindow& window : windows) {
    if (std::ranges::none_of(kept, [&](const LoadWindow& earlier) { return same_window(window, earlier); })) {
      kept.push_back(std::move(window));
    }
  }
  const std::size_t repeats = windows.size() - kept.size();
  windows = std::move(kept);
  return repeats;
}

// The windows of the recordings; the title says how they are used.
DiagnosisQuestion read_windows(const DiagnosisRequest& request) {
  DiagnosisQuestion out;
  out.counts = read_recording(request, request.counts);
  if (!request.later.empty()) {
    const RecordedCounts more = read_recording(request, request.later);
    refuse_if(more.layers() != out.counts.layers() || more.experts != out.counts.experts, {request.later_name(), 0, ""},
              fmt::format("this file has {} of {} experts, {} has {} of {}.", count_of(more.layers(), "layer"),
                          more.experts, request.counts_name(), out.counts.layers(), out.counts.experts));
    refuse_if(same_counts(out.counts, more), {request.later_name(), 0, ""},
              fmt::format("these are the counts of {} again, and a plan looks better than it is on what it was "
                          "made from; name a later recording, or none.",
                          request.counts_name()));
    out.planned = out.counts.windows.size();
    out.counts.windows.insert(out.counts.windows.end(), more.windows.begin(), more.windows.end());
    out.title = fmt::format("planned from {}, scored on {}", request.counts_name(), request.later_name());
    return out;
  }
  const std::size_t repeats = drop_repeats(out.counts.windows), windows = out.counts.windows.size();
  out.planned = windows == 1 ? 1 : windows / 2;
  out.title = request.counts_name() +
              (windows == 1 ? ", one window" : fmt::format(", planned from {} of {} windows", out.planned, windows)) +
              (repeats > 0 ? fmt::format(" ({} that repeat earlier counts left out)", repeats) : "");
  return out;
}

// On the fewest nodes that hold the model with copies, unless the user says how many. Returns the deployment in words.
std::string take_usual_scenarios(const DiagnosisRequest& request, DiagnosisQuestion& out) {
  const ModelOfCounts model =
      request.model.empty() ? model_of_counts(out.counts, request.counts_name()) : ModelOfCounts{request.model, {}};
  check_counts(out.counts, find_model(model.name), request.counts_name());
  NewScenario wanted{"sglang", model.name, request.node, ""};
  for (wanted.nodes = request.nodes.value_or(kFewestNodes);; wanted.nodes *= 2) {
    try {
      out.by_seed = scenarios(request, &wanted);
      for (const PolicyChoice& policy : out.by_seed.front().policies) {
        prepare_run(out.by_seed.front(), policy);
      }
      return fmt::format(
          "{} on {} x {} under SGLang{}", out.by_seed.front().model.name, wanted.nodes, wanted.node,
          model.all.size() > 1 ? fmt::format(" (the counts fit {} as well: --model)", model.all[1]) : "");
    } catch (const DoesNotFit&) {
      if (request.nodes || wanted.nodes * 2 > kMostNodes) {
        throw;
      }
    }
  }
}

// What the scenario says itself.
void refuse_beside_scenario(const DiagnosisRequest& request) {
  const char* key = !request.model.empty()                    ? "model"
                    : request.node != DiagnosisRequest{}.node ? "node"
                    : request.nodes                           ? "nodes"
                                                              : nullptr;
  if (!request.scenario.empty() && key != nullptr) {
    throw InputError({"", 0, key}, "the scenario says that; give one of the two, or change the scenario with --set.");
  }
}

}  // namespace

DiagnosisQuestion read_question(const DiagnosisRequest& request) {
  refuse_beside_scenario(request);
  if (request.nodes && *request.nodes < 1) {
    throw InputError({"", 0, "nodes"}, fmt::format("{} nodes: a deployment has at least one.", *request.nodes));
  }
  DiagnosisQuestion out = read_windows(request);
  std::string deployment;
  if (request.scenario.empty()) {
    deployment = take_usual_scenarios(request, out);
  } else {
    out.by_seed = scenarios(request, nullptr);
    const Scenario& first = out.by_seed.front();
    deployment = fmt::format("{}: {} on {} GPUs", first.name, first.model.name, all_gpus(first));
    check_counts(out.counts, first.model, request.counts_name());
  }
  out.title = deployment + "\n" + out.title;
  const LoadWindow scored = scored_window(out.counts.windows, out.planned);
  for (Scenario& s : out.by_seed) {
    s.loads = std::make_shared<WindowLoadSource>(scored, s.model.top_k, 1.0, s.seed);
  }
  return out;
}

}  // namespace epsim
