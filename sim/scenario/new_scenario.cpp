#include "sim/scenario/new_scenario.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "models/catalogue/catalogue.h"
#include "models/catalogue/data_files.h"
#include "models/catalogue/model_catalogue.h"
#include "models/profile/model_ops.h"
#include "sim/scenario/model_sections.h"
#include "sim/scenario/read_scenario.h"
#include "sim/scenario/root_keys.h"
#include "sim/scheduler/engines.h"

namespace epsim {
namespace {

// A catalogue's name as it is, since names of nodes hold dots; a file's without its folder and ending; a config.json is
// called like its folder.
std::string plain_name(const std::string& named) {
  const std::filesystem::path path(named);
  if (path.filename() == "config.json") {
    return std::filesystem::absolute(path).parent_path().filename().string();
  }
  const bool file = path.extension() == ".yaml" || path.extension() == ".yml" || path.extension() == ".json";
  return (file ? path.stem() : path.filename()).string();
}

// What an instance is: DP ranks of `tp` GPUs; of a dense model one rank of `gpus`, which are all.
std::string parallelism_text(bool dense, int gpus, int tp) {
  return dense ? fmt::format(
                     "parallelism:\n"
                     "  attention_tp: {}  # all GPUs of an instance; smaller ones: cluster.gpus_per_node\n\n",
                     gpus)
         : tp > 1 ? fmt::format(
                        "parallelism:\n  attention_tp: {}  # GPUs of an attention DP rank\n{}\n", tp,
                        tp < gpus
                            ? ""
                            : "  # Each GPU has whole experts, as with --enable-expert-parallel or --ep-size. Without\n"
                              "  # these an engine splits every expert over all GPUs: ep_size 1.\n")
                  : "parallelism:\n"
                    "  attention_tp: 1  # GPUs of an attention DP rank: 1 = DP attention, as large deployments run\n"
                    "  shared_experts: replicated\n  dense_ffn: replicated\n  embedding: replicated\n\n";
}

std::string dtype_text(const NewScenario& r, bool dense) {
  const std::string types = dense ? "bf16, fp8, fp4" : "bf16, fp8, fp4, mxfp4, int4";
  return r.dtype.empty() ? ""
                         : fmt::format("  dtype: {}  # of the weights: {}\n", r.dtype, types) +
                               (r.dtype_note.empty() ? "" : fmt::format("  # {}\n", r.dtype_note));
}

int used_of(const NewScenario& r, const NodeSpec& node) { return r.gpus_per_node > 0 ? r.gpus_per_node : node.gpus; }

std::string loads_text(const MoeSpec& model) {
  const Skew skew = init_skew(model);
  const std::string range = fmt::format("  low: {:.3g}\n  high: {:.3g}\n  high_share: 0.3\n", skew.low, skew.high);
  return "loads:  # what the run is scored on; a recording of yours: {kind: trace_file, path: ...}, from epsim trace "
         "import\n"
         "  kind: skew  # synthetic: the hottest expert of a layer has low to high times the mean\n" +
         range +
         "\nplan_loads:  # what policies plan from: another window, as two of DeepSeek-R1's differ (SGLang's "
         "counts)\n" +
         "  kind: skew\n" + range + "  drift: 0.126\n\n" + "policy: base  # of epsim run; epsim list policies\n";
}

}  // namespace

std::string scenario_document(const NewScenario& r, const std::string& serving, const std::string& dispatch) {
  const bool apart = r.prefill > 0, dense = find_model(r.model).dense();
  const int nodes = apart ? r.prefill + r.decode : r.nodes, of_one = apart ? r.prefill : nodes;
  std::string out = fmt::format(
      "# {0} on {1} x {2}, served by {3}. Written by epsim init; nothing in it is measured on your cluster.\n"
      "#   epsim validate FILE\n"
      "{9}"
      "#   epsim goodput FILE --policies {10} --slo 'ttft.p99<2s,tpot.p99<50ms'\n"
      "# What to change first: requests (your rate and lengths){11}.\n"
      "name: {0}-{8}\nseed: 1\n\n"
      "cluster:\n"
      "  node: {2}  # epsim list hardware; or the path of a file of your own\n"
      "  nodes: {4}{5}\n{12}\n"
      "model:\n"
      "  architecture: {7}  # epsim list models; or the path of a Hugging Face config.json\n"
      "{6}\n",
      plain_name(r.model), nodes, r.node, r.engine, of_one, apart ? "  # of a prefill instance" : "",
      dtype_text(r, dense), r.model, plain_name(r.node),
      dense ? "" : "#   epsim compare FILE --policies contiguous,base,eplb\n", dense ? "base" : "base,eplb",
      dense ? "" : ", then loads (a recording of your experts)",
      r.gpus_per_node > 0 ? fmt::format("  gpus_per_node: {}  # used of each node\n", r.gpus_per_node) : "");
  out += parallelism_text(dense, dense ? used_of(r, find_node(r.node).spec) * of_one : 0, r.attention_tp);
  std::vector<std::string> given = r.serving;  // of what decodes, too
  const auto key_of = [](std::string_view line) { return line.substr(0, line.find(':')); };
  for (const std::string_view line : engine_named(r.engine).recipe) {
    if (std::ranges::find(r.serving, key_of(line), key_of) == r.serving.end()) {
      given.emplace_back(line);
    }
  }
  const std::vector<std::string>& of_all = apart ? r.serving : given;
  out += fmt::format("serving:\n  engine: {}  # epsim list engines\n{}{}{}\n", r.engine, of_all.empty() ? "" : "  ",
                     fmt::join(of_all, "\n  "), (of_all.empty() ? "" : "\n") + (apart ? "" : serving));
  out += "dispatch:  # epsim list transports\n" + (dispatch.empty() ? "  {}\n" : dispatch) + "\n";
  if (apart) {
    out += fmt::format(
        "deployment:  # settings of each pool's engine: as in serving: {{mem_fraction_static: 0.8}}; a run's "
        "resolved.yaml "
        "has all\n  prefill: {{instances: 1, nodes: {}, serving: {{{}}}}}\n"
        "  decode: {{instances: 1, nodes: {}, serving: {{{}}}}}\n\n",
        r.prefill, fmt::join(r.serving, ", "), r.decode, fmt::join(given, ", "));
  }
  out += fmt::format(
      "requests:  # epsim list readers; or a recorded trace: {{kind: azure_csv, path: ...}}\n"
      "  kind: poisson\n  rate: {}/s  # epsim goodput finds the highest that is served\n  count: 500\n"
      "  input_tokens: 2000\n  output_tokens: 500\n\n",
      nodes);
  return out + (dense ? "" : loads_text(find_model(r.model)));
}

const EngineProfile& engine_named(const std::string& name) {
  const Config named = Config::from_text(fmt::format("serving: {{engine: {}}}", name), "");
  ConfigReader serving = named.root().section(kRootKeys["serving"]);
  return read_engine_profile(serving);
}

// Rounded down, so that the text is within the limit.
Skew init_skew(const MoeSpec& model, double times) {
  const double most = std::floor(100.0 * model.experts / model.top_k) / 100;
  return {std::min(most, 1 + 0.5 * times), std::min(most, 1 + 3 * times)};
}

Scenario read_document(const std::string& text) { return read_scenario(Config::from_text(text, ""), {}); }

NewScenario with_dtype(NewScenario r, bool placed) {
  if (!r.dtype.empty()) {
    return r;
  }
  MoeSpec model = find_model(r.model);
  const bool unsaid = model.dtype == WeightType::kBf16 && !looks_like_path(r.model);
  model.dtype = unsaid ? WeightType::kFp8 : model.dtype;
  NodeEntry node = find_node(r.node);
  const EngineProfile& engine = engine_named(r.engine);
  node.compute.use_kernels_of(std::string(engine.kernels));
  const bool splits = placed && used_of(r, node.spec) * std::max({r.nodes, r.prefill, r.decode}) > 1;
  const bool other = model.dtype == WeightType::kMxfp4 && splits && turns_into_bf16(engine, node.spec.gpu);
  const bool has = !other && has_kernels(node.compute.fitted.get(), node.spec.gpu, model);
  r.dtype = name_of(has ? model.dtype : WeightType::kBf16);
  if (has && unsaid) {
    r.dtype_note = "fp8 by default: the catalogue does not say the checkpoint's type; choose bf16 where yours is bf16.";
  } else if (!has && !unsaid) {
    r.dtype_note = fmt::format(
        "bf16, not the model's own {}: {}.", name_of(model.dtype),
        other ? std::string(engine.mxfp4_by_ep)
              : fmt::format("no {} kernels of the {} were measured", name_of(model.dtype), node.spec.gpu.name));
  }
  return r;
}

}  // namespace epsim
