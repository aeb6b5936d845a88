#include <sys/mman.h>
#include <unistd.h>

#include "models/catalogue/hf_config.h"
#include "models/profile/fitted_op.h"
#include "policies/plugin/plugin_answer.h"
#include "sim/app/served_layout.h"
#include "sim/core/check.h"
#include "sim/core/error.h"
#include "sim/scenario/network_options.h"
#include "sim/study/goodput_store.h"
#include "sim/study/job_pack.h"
#include "sim/verbs/plan_request.h"
#include "sim/verbs/sweep_point.h"
#include "tests/fuzz/input_folder.h"
#include "tests/fuzz/targets.h"
#include "traces/routing_model/routing_model.h"

namespace epsim::fuzz {

namespace {

// Of `bytes`, by a reader of documents.
template <class Read>
void attempt_document(const std::string& bytes, Read read) {
  try {
    read(Config::from_text(bytes, "fuzz.yaml"));
  } catch (const InputError&) {
  }
}

// A small plan is made too: what was read must be a request that can be planned, or be refused.
void plan_request(const std::string& bytes) {
  constexpr int kFewGpus = 64;
  constexpr std::size_t kFewLoads = 4096;
  attempt_document(bytes, [](const Config& config) {
    const PlanRequest request = read_plan_request(config);
    const auto loads =
        static_cast<std::size_t>(request.load.layers()) * static_cast<std::size_t>(request.load.experts());
    if (request.shape.gpus <= kFewGpus && loads <= kFewLoads) {
      make_plan(request);
    }
  });
}

void hf_config(const std::string& bytes) {
  try {
    parse_hf_config(bytes, "config.json").validate();
  } catch (const InputError&) {
  }
}

void topology(const std::string& bytes) { attempt_document(bytes, read_topology); }

void fitted_profile(const std::string& bytes) { attempt_document(bytes, read_fitted_profile); }

void routing_model(const std::string& bytes) {
  attempt_document(bytes, [](const Config& config) { read_routing_model(config.root(), "fuzz.yaml"); });
}

void served_points(const std::string& bytes) {
  static const InputFolder folder;
  static const app::ServedLayout layout = [] {
    const std::string text =
        "flags: [model, tp, n]\ngroups: {model: model}\nin_flight: n\nmeasured: {ttft_ms: ttft, tpot_ms: tpot, e2e_s: "
        "e2e}\n"
        "rules:\n  - set: {model.architecture: '{model}', cluster.gpus_per_node: '{tp}'}\n    source: a test\n";
    return app::read_served_layout(folder.write("layout.yaml", text));
  }();
  try {
    app::read_served_points(folder.write("points.csv", bytes), layout);
  } catch (const InputError&) {
  }
}

void result(const std::string& text) {
  stored_goodput_search(text);
  if (const std::optional<SweepPoint> point = stored_point(text)) {
    label_of(*point);
  }
}

// A file of results, as a study's folder keeps it; and the same bytes as one result, which a file's hashes keep damage from.
void results(const std::string& bytes) {
  result(bytes);
  const int file = memfd_create("epsim-fuzz", MFD_CLOEXEC);
  EPSIM_CHECK(write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()), "memory takes the bytes");
  for (const bool skip_damaged : {false, true}) {
    PackScan scan;
    scan_pack(file, scan, skip_damaged, [&](const PackedJob& job) {
      if (const std::optional<std::string> text = read_packed(file, job)) {
        EPSIM_CHECK(text_hash(*text) == job.hash, "a result that is read is whole");
        result(*text);
      }
    });
    EPSIM_CHECK(scan.end <= bytes.size(), "no more is read than there is");
  }
  close(file);
}

void plugin_answer(const std::string& bytes) {
  constexpr int kLayers = 2, kExperts = 4, kGpus = 2;
  PluginAnswer answer(LoadWindow(kLayers, kExperts), ClusterShape{kGpus, kGpus});
  try {
    answer.put_bytes(bytes);
    answer.check();
    const PlacementPlan plan = answer.plan("fuzz");
    EPSIM_CHECK(plan.layers.size() == kLayers, "a plan has every layer");
  } catch (const PluginProblem&) {
  }
}

constexpr Target kDocumentTargets[] = {{"plan_request", plan_request},
                                       {"hf_config", hf_config},
                                       {"topology", topology},
                                       {"fitted_profile", fitted_profile},
                                       {"routing_model", routing_model},
                                       {"served_points", served_points},
                                       {"results", results},
                                       {"plugin_answer", plugin_answer}};

}  // namespace

std::span<const Target> document_targets() { return kDocumentTargets; }

}  // namespace epsim::fuzz
