#include "sim/app/gain_variants.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "policies/registry.h"
#include "sim/app/command_line.h"
#include "sim/cluster/prepare.h"
#include "sim/report/gain_split.h"
#include "sim/scenario/read_scenario.h"

namespace epsim::app {
namespace {

using EntryKeys = std::vector<std::pair<std::string, std::string>>;

// What the scenario says of the policy; its kind stands first.
EntryKeys entry_of(const Config& config, const std::string& label) {
  EntryKeys out{{"kind", label}};
  ConfigReader root = config.root();
  if (root.is_section("policies") && root.section("policies").is_section(label)) {
    for (const auto& [key, value] : root.section("policies").section(label).rest()) {
      if (key == "kind") {
        out.front().second = value;
      } else {
        out.emplace_back(key, value);
      }
    }
  }
  return out;
}

class VariantList {
 public:
  VariantList(const Config& config, const std::vector<std::string>& labels) : config_(config), out_{labels, {}} {}

  void add(const std::string& label) {
    if (std::find(out_.labels.begin(), out_.labels.end(), label) == out_.labels.end()) {
      out_.labels.push_back(label);
    }
  }
  // The policy with some keys of its entry taken away and others set.
  void add_variant(const std::string& policy, const std::string& label, const std::vector<std::string>& without,
                   const EntryKeys& with) {
    EntryKeys keys = entry_of(config_, policy);
    std::erase_if(
        keys, [&](const auto& key) { return std::find(without.begin(), without.end(), key.first) != without.end(); });
    keys.insert(keys.end(), with.begin(), with.end());
    for (const auto& [key, value] : keys) {
      out_.assignments.push_back(fmt::format("policies.{}.{}={}", label, key, value));
    }
    add(label);
  }
  void add_variants_of(const PolicyChoice& policy) {
    const std::pair<std::string, std::string> free{"copies_take_kv", "false"}, even{"replica_choice", "{kind: even}"};
    const std::string& p = policy.label;
    if (policy.per_step != nullptr) {
      add_variant(p, label_of_dispatch_alone(p), {}, {free});
      return;
    }
    if (policy.rebalance != nullptr) {
      add_variant(p, label_without_replanning(p), {"rebalance"}, {});
    }
    add_variant(p, label_without_kv_cost(p), {"rebalance"}, {free});
    if (policy.replica_choice != nullptr) {
      add_variant(p, label_with_even_choice(p), {"rebalance", "replica_choice"}, {even});
      add_variant(p, label_of_copies_alone(p), {"rebalance", "replica_choice"}, {even, free});
    }
  }
  GainVariants take() { return std::move(out_); }

 private:
  const Config& config_;
  GainVariants out_;
};

bool makes_copies(const Scenario& scenario, const PolicyChoice& policy) {
  return policy.ceiling == Ceiling::kNone && policy.prefill == nullptr &&
         (policy.per_step != nullptr || prepare_run(scenario, policy).last().plan.copies() > 0);
}

}  // namespace

void add_split_option(boost::program_options::options_description& options) {
  options.add_options()("split", boost::program_options::bool_switch(),
                        "split each policy's gain into its causes: placement, copies, choice of copy, KV room, planning again; "
                        "runs up to six variants more");
}

GainVariants gain_variants(const boost::program_options::variables_map& values,
                           const std::vector<std::string>& labels) {
  if (!values["split"].as<bool>()) {
    return {labels, {}};
  }
  const Scenario scenario = read_scenario(open_scenario(values), labels);
  std::vector<std::string> asked;
  for (const PolicyChoice& policy : scenario.policies) {
    asked.push_back(policy.label);
  }
  const Config config = open_scenario(values);
  VariantList out(config, asked);
  const std::vector<std::string> plain = diagnosed_policies();
  out.add(plain[0]);
  out.add(plain[1]);
  for (const PolicyChoice& policy : scenario.policies) {
    if (makes_copies(scenario, policy)) {
      out.add_variants_of(policy);
    }
  }
  return out.take();
}

}  // namespace epsim::app
