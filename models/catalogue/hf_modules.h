// Lists of modules, as checkpoints name what they quantise or leave out: which weights of a model a list covers.
//   Names  : "lm_head", "model.layers.0.self_attn.q_proj", a module with all that is in it ("model.layers.3",
//            "self_attn"), with * and ? ("model.layers.1.*"), or "re:" and a regular expression of literals, `.*`, `\d+`,
//            `[0-9]+` and (a|b).
//   Ignores: vision towers, multi-token prediction, embedding, norms, routers: no list of them changes a price.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "sim/domain/moe_spec.h"

namespace epsim {

// A weight of a layer, under each name that it may have.
struct HfModule {
  std::vector<std::string> names;
  WeightsOf part = WeightsOf::kAttention;
};
// All weights of the layers, without those that stay in bf16 in all types. `reach` is each layer's. Of the routed
// experts of a layer the first alone, unless `every_expert`.
std::vector<HfModule> hf_modules(const MoeSpec& model, const std::vector<AttentionReach>& reach, bool every_expert);

class HfModuleList {
 public:
  // Throws std::invalid_argument with the name that it cannot read.
  explicit HfModuleList(const std::vector<std::string>& names);
  bool covers(const HfModule& module) const;
  bool covers_head() const { return head_; }
  bool names_single_experts() const { return single_experts_; }
  // Names that have covered nothing until now and are not of parts that are without weights here.
  std::vector<std::string> unknown(int layers) const;

 private:
  struct Glob {
    std::vector<std::string> variants;
    std::size_t name = 0;
  };
  void add(const std::string& pattern, std::size_t name);
  bool covers(const std::string& module) const;

  std::vector<std::string> names_;
  std::map<std::string, std::size_t, std::less<>> exact_;  // with a layer's number and without wildcards
  std::vector<Glob> globs_;
  bool head_ = false, single_experts_ = false;
  mutable std::set<std::size_t> used_;
};

}  // namespace epsim
