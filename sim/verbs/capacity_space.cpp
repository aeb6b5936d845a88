#include "sim/verbs/capacity_space.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "models/catalogue/catalogue.h"
#include "sim/scenario/new_scenario.h"
#include "sim/verbs/sweep_axes.h"

namespace epsim {
namespace {

constexpr const char* kSold = "p4de.24xlarge,p5.4xlarge,p5.48xlarge,p5en.48xlarge,p6-b200.48xlarge";

struct InstanceSize {
  int nodes = 1, per_node = 1;
};

// "4" nodes, or "1/2" of one.
InstanceSize read_size(const std::string& text) {
  const bool part = text.starts_with("1/");
  const std::string digits = part ? text.substr(2) : text;
  const bool number = !digits.empty() && digits.size() <= 4 && digits.find_first_not_of("0123456789") == digits.npos;
  const int whole = number ? std::stoi(digits) : 0;
  if (whole < 1) {
    throw InputError({"", 0, "sizes"},
                     fmt::format("'{}' is neither a number of nodes nor a part of one, as in 4 and 1/2.", text));
  }
  return part ? InstanceSize{1, whole} : InstanceSize{whole, 1};
}

// A dense model's instance has 1, 2, 4 or 8 GPUs, a node or two.
std::string usual_sizes(const CapacityQuestion& question, const NodeSpec& node, bool quick) {
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

std::vector<InstanceSize> sizes_of(CapacityGiven& given, const CapacityQuestion& question, const NodeSpec& node,
                                   bool quick, bool apart, std::set<std::string>& used) {
  std::vector<InstanceSize> out;
  for (const std::string& text : given.list("sizes", usual_sizes(question, node, quick))) {
    const InstanceSize size = read_size(text);
    const bool alone = node.nics == 0 && (size.nodes > 1 || apart);  // such nodes reach no others
    if (!alone && node.gpus % size.per_node == 0 && !(apart && size.per_node > 1)) {
      out.push_back(size);
      used.insert(text);
    }
  }
  return out;
}

// A size that somebody asks for must fit some node.
void check_sizes(CapacityGiven& given, const std::set<std::string>& used) {
  for (const std::string& text : given.names("sizes") ? given.list("sizes", "") : std::vector<std::string>{}) {
    if (!used.contains(text)) {
      throw InputError(
          {"", 0, "sizes"},
          fmt::format("'{}' goes into none of the nodes: a part has to divide a node's GPUs and has prefill and "
                      "decode together; nodes without a network make instances of one node.",
                      text));
    }
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

// A design with each combination of the values that are varied.
class Layouts {
 public:
  Layouts(CapacityGiven& given, std::vector<CapacityDesign>& out) : out_(out) {
    for (const std::string& text : given.repeated("vary")) {
      axes_.push_back(parse_axis(text));
    }
  }
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
  const auto add = [&](CapacityDesign design, const NodeSpec& node, bool apart) {
    for (const InstanceSize size : sizes_of(given, question, node, quick, apart, used)) {
      design.nodes = size.nodes;
      design.per_node = size.per_node;
      design.gpus = size.nodes * node.gpus / size.per_node;
      for (const int tp : attention_tps(given, question, node, design.gpus)) {
        design.attention_tp = tp;
        for (const InstanceRole role : {InstanceRole::kWhole, InstanceRole::kPrefill, InstanceRole::kDecode}) {
          design.role = role;
          if (apart == (role != InstanceRole::kWhole)) {
            layouts.add(design);
          }
        }
      }
    }
  };
  for (const std::string& named : given.list("nodes", kSold)) {
    const NodeSpec node = find_node(named).spec;
    for (const std::string& engine : given.list("engines", "sglang")) {
      for (const std::string& asked : given.list("dtypes", "auto")) {
        const std::string dtype = asked != "auto" ? asked : with_dtype({engine, question.model, named, "", 1}).dtype;
        for (const std::string& mode : modes) {
          if (mode != "together" && mode != "apart") {
            throw InputError({"", 0, "modes"}, unknown_name("mode", mode, {"together", "apart"}));
          }
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
}

}  // namespace epsim
