#include "sim/verbs/capacity_space.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "models/catalogue/catalogue.h"
#include "models/catalogue/model_catalogue.h"
#include "sim/core/mapped.h"
#include "sim/core/refuse.h"
#include "sim/study/capacity_scenario.h"
#include "sim/verbs/sweep_axes.h"

namespace epsim {
namespace {

constexpr const char* kSold = "p4de.24xlarge,p5.4xlarge,p5.48xlarge,p5en.48xlarge,p6-b200.48xlarge,p6-b300.48xlarge";

struct InstanceSize {
  int nodes = 1, parts = 1, gpus = 0;  // gpus: of the one node, 0: its part
};

// "4" nodes, "1/2" of one, or "8gpus" of one.
InstanceSize read_size(const std::string& text) {
  constexpr std::string_view kGpus = "gpus";
  const bool part = text.starts_with("1/"), gpus = text.ends_with(kGpus);
  const std::string digits = part ? text.substr(2) : gpus ? text.substr(0, text.size() - kGpus.size()) : text;
  const bool number = !digits.empty() && digits.size() <= 4 && digits.find_first_not_of("0123456789") == digits.npos;
  const int whole = number ? std::stoi(digits) : 0;
  refuse_if(whole < 1, "sizes",
            fmt::format("'{}' is neither a number of nodes nor a part of one, as in 4, 1/2 and 8gpus.", text));
  return part ? InstanceSize{1, whole} : gpus ? InstanceSize{1, 1, whole} : InstanceSize{whole};
}

// A dense model's instance has 1, 2, 4 or 8 GPUs, a node or two. One on a rack has a power of two of its GPUs: a rack's 72
// divide neither heads nor experts.
std::string usual_sizes(const CapacityQuestion& question, const NodeEntry& entry, bool quick) {
  const NodeSpec& node = entry.spec;
  if (node.gpus_per_host < node.gpus) {
    return question.dense ? "4gpus,8gpus" : quick ? "8gpus,16gpus,32gpus" : "4gpus,8gpus,16gpus,32gpus,64gpus";
  }
  if (!question.dense) {
    return quick ? "1,2,4" : "1,2,4,8";
  }
  std::string out;
  for (const int gpus : {1, 2, 4, 8}) {
    if (gpus < node.gpus && node.gpus % gpus == 0) {
      out += fmt::format("1/{},", node.gpus / gpus);
    }
  }
  return out + (node.nics > 0 ? "1,2" : "1");
}

// What `base` becomes with each size that its node can have.
std::vector<CapacityDesign> sizes_of(CapacityGiven& given, const CapacityQuestion& question, const CapacityDesign& base,
                                     const NodeEntry& entry, bool quick, bool apart, std::set<std::string>& used) {
  const NodeSpec& node = entry.spec;
  std::vector<CapacityDesign> out;
  for (const std::string& text : given.list("sizes", usual_sizes(question, entry, quick))) {
    const InstanceSize size = read_size(text);
    CapacityDesign design = base;
    design.nodes = size.nodes;
    design.gpus = size.gpus > 0 ? size.gpus : size.nodes * node.gpus / size.parts;
    design.per_node = size.gpus > 0 ? node.gpus / size.gpus : size.parts;
    design.size = design.gpus == node.gpus ? "1" : text;
    const bool alone = node.nics == 0 && (size.nodes > 1 || apart);  // such nodes reach no others
    if (!alone && node.gpus % size.parts == 0 && design.per_node > 0 && !(apart && design.part())) {
      out.push_back(std::move(design));
      used.insert(text);
    }
  }
  return out;
}

// A size that somebody asks for must fit some node.
void check_sizes(CapacityGiven& given, const std::set<std::string>& used) {
  for (const std::string& text : given.names("sizes") ? given.list("sizes", "") : std::vector<std::string>{}) {
    refuse_if(
        !used.contains(text), "sizes",
        fmt::format("'{}' goes into none of the nodes: a part divides a node's GPUs or is at most as many, and has "
                    "prefill and decode together; nodes without a network make instances of one node.",
                    text));
  }
}

// Likewise a number of EP ranks.
void check_ep_sizes(CapacityGiven& given, const CapacityQuestion& question) {
  CapacityDesign split;
  split.ep_size = 1;
  const bool in_order = !policies_of(split, question.policies).empty();
  for (const std::string& text : given.names("ep-size") ? given.list("ep-size", "") : std::vector<std::string>{}) {
    const auto has = [&](const CapacityDesign& d) { return text == std::to_string(d.ep_ranks()); };
    const bool none = std::ranges::none_of(question.layouts, has) || (text == "1" && !in_order);
    refuse_if(text != "all" && none, "ep_size",
              fmt::format(
                  "no layout has '{}': it has to divide an instance's GPUs, a dense model has no EP ranks, and 1 needs "
                  "contiguous among the policies, as nothing is placed.",
                  text));
  }
}

// Those that divide an instance's GPUs in a node. A dense model's instance is one DP rank.
std::vector<int> attention_tps(CapacityGiven& given, const CapacityQuestion& question, const NodeSpec& node, int gpus) {
  const int together = question.dense ? gpus : std::min(gpus, node.gpus);
  const std::string usual = question.dense  ? std::to_string(gpus)
                            : together == 1 ? "1"
                                            : fmt::format("1,{}", std::min(8, together));
  std::vector<int> out = given.whole_numbers("attention-tp", usual);
  std::erase_if(out, [&](int tp) { return tp > together || together % tp != 0 || (question.dense && tp != gpus); });
  return out;
}

// EP ranks, 0: one a GPU. By default also one, the engines' own default, where a node's GPUs or less are one DP rank.
std::vector<int> ep_sizes(CapacityGiven& given, const CapacityQuestion& question, const CapacityDesign& d) {
  const bool usual = !question.dense && d.nodes == 1 && d.gpus > 1 && d.attention_tp == d.gpus;
  std::vector<int> out;
  for (const std::string& text : given.list("ep-size", usual ? "all,1" : "all")) {
    const bool number = text != "all" && text.size() <= 4 && text.find_first_not_of("0123456789") == text.npos;
    refuse_if(text != "all" && (!number || std::stoi(text) < 1), "ep_size",
              fmt::format("'{}' is neither a number of EP ranks nor all.", text));
    const int size = number && std::stoi(text) != d.gpus ? std::stoi(text) : 0;
    if ((size == 0 || (!question.dense && d.gpus % size == 0)) && std::ranges::find(out, size) == out.end()) {
      out.push_back(size);
    }
  }
  return out;
}

// What is asked for, and of the usual layouts those that the engine starts with.
bool worth_trying(CapacityGiven& given, const CapacityQuestion& question, const CapacityDesign& d) {
  if (engine_named(d.engine).one_or_all_tp && d.attention_tp != 1 && d.attention_tp != d.gpus) {
    return false;
  }
  const bool has_policy = !policies_of(d, question.policies).empty();
  if (!has_policy || d.places_experts() || given.names("ep-size")) {
    return has_policy;
  }
  MoeSpec model = find_model(question.model);
  model.dtype = WeightType::kFp8;
  const Parallelism split{.gpus = d.gpus, .attention_tp = d.attention_tp, .moe_tp = d.gpus};
  return d.dtype != name_of(WeightType::kFp8) || !engine_named(d.engine).whole_blocks || !split.splits_blocks(model);
}

// A design with each combination of the values that are varied.
class Layouts {
 public:
  Layouts(CapacityGiven& given, std::vector<CapacityDesign>& out)
      : out_(out), axes_(mapped(given.repeated("vary"), parse_axis)) {}
  void add(const CapacityDesign& base) {
    for (std::size_t i = 0; i < combinations(axes_); ++i) {
      CapacityDesign& design = out_.emplace_back(base);
      const std::vector<std::string> values = values_at(axes_, i);
      for (std::size_t a = 0; a < axes_.size(); ++a) {
        design.settings.push_back(axes_[a].key + "=" + values[a]);
      }
    }
  }

 private:
  std::vector<CapacityDesign>& out_;
  std::vector<SweepAxis> axes_;
};

}  // namespace

void read_space(CapacityGiven& given, CapacityQuestion& question, bool quick) {
  Layouts layouts(given, question.layouts);
  std::set<std::string> used;  // sizes
  const std::vector<std::string> modes = given.list("modes", question.dense ? "together" : "together,apart");
  const auto add_roles = [&](CapacityDesign design, int ep_size, bool apart) {
    design.ep_size = ep_size;
    if (design.dtype == "auto") {
      design.dtype = usual_scenario(question, design).dtype;
    }
    if (!worth_trying(given, question, design)) {
      return;
    }
    for (const InstanceRole role : {InstanceRole::kWhole, InstanceRole::kPrefill, InstanceRole::kDecode}) {
      design.role = role;
      if (apart == (role != InstanceRole::kWhole)) {
        layouts.add(design);
      }
    }
  };
  const auto add = [&](const CapacityDesign& base, const NodeEntry& node, bool apart) {
    for (CapacityDesign& design : sizes_of(given, question, base, node, quick, apart, used)) {
      for (const int tp : attention_tps(given, question, node.spec, design.gpus)) {
        design.attention_tp = tp;
        for (const int ep : ep_sizes(given, question, design)) {
          add_roles(design, ep, apart);
        }
      }
    }
  };
  for (const std::string& named : given.list("nodes", kSold)) {
    const NodeEntry node = of_option("nodes", [&] { return find_node(named); });
    for (const std::string& engine : given.list("engines", "sglang")) {
      for (const std::string& dtype : given.list("dtypes", "auto")) {
        for (const std::string& mode : modes) {
          refuse_if(mode != "together" && mode != "apart", "modes", unknown_name("mode", mode, {"together", "apart"}));
          CapacityDesign design;
          design.node = named;
          design.engine = engine;
          design.dtype = dtype;
          add(design, node, mode == "apart");
        }
      }
    }
  }
  check_sizes(given, used);
  check_ep_sizes(given, question);
}

}  // namespace epsim
