#include "sim/scenario/compared_policies.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "policies/registry.h"
#include "sim/core/error.h"

namespace epsim {
namespace {

constexpr PolicyVariant kVariants[] = {{"first_plan"},
                                       {"kv_free", true},
                                       {"even", false, true},
                                       {"even_kv_free", true, true},
                                       {"dispatch_kv_free", true},
                                       {"home_kv_free", true, true, true}};

// Experts in order, and placement alone.
std::vector<std::string> references() {
  std::vector<std::string> out = diagnosed_policies();
  out.resize(2);
  return out;
}

}  // namespace

std::optional<std::pair<std::string, PolicyVariant>> as_variant(const std::string& label) {
  const std::size_t colon = label.rfind(':');
  const auto* found = std::find_if(std::begin(kVariants), std::end(kVariants), [&](const PolicyVariant& variant) {
    return colon != std::string::npos && label.substr(colon + 1) == variant.name;
  });
  return found != std::end(kVariants) ? std::optional(std::pair(label.substr(0, colon), *found)) : std::nullopt;
}

PolicyChoice vary(PolicyChoice policy, const PolicyVariant& variant) {
  policy.label += fmt::format(":{}", variant.name);
  policy.rebalance = nullptr;
  policy.copies_take_kv = policy.copies_take_kv && !variant.kv_free;
  if (variant.even) {
    policy.replica_choice = nullptr;
  }
  if (variant.home) {
    policy.per_step = nullptr;
    policy.step_run = {};
  }
  return policy;
}

std::vector<std::string> split_variants(const PolicyChoice& policy) {
  std::vector<std::string> out;
  const auto add = [&](const char* variant) { out.push_back(fmt::format("{}:{}", policy.label, variant)); };
  if (policy.per_step != nullptr) {
    add("dispatch_kv_free");
    if (policy.planned_by != policy.label) {
      add("home_kv_free");
    }
    return out;
  }
  if (policy.rebalance != nullptr) {
    add("first_plan");
  }
  add("kv_free");
  if (policy.replica_choice != nullptr) {
    add("even");
    add("even_kv_free");
  }
  return out;
}

std::vector<std::string> missing_references(const std::vector<std::string>& labels) {
  std::vector<std::string> out = references();
  std::erase_if(out,
                [&](const std::string& name) { return std::find(labels.begin(), labels.end(), name) != labels.end(); });
  return out;
}

bool is_reference(const std::string& label) {
  const std::vector<std::string> all = references();
  return std::find(all.begin(), all.end(), label) != all.end();
}

std::vector<std::string> out_of_reach(const std::vector<PolicyChoice>& policies) {
  std::vector<std::string> out;
  for (const PolicyChoice& policy : policies) {
    if (policy.ceiling != Ceiling::kNone || !policy.copies_take_kv) {
      out.push_back(policy.label);
    }
  }
  return out;
}

std::string note_on(const std::vector<std::string>& added) {
  return added.empty() ? ""
                       : fmt::format("{} added, to tell placement from copies; --only-listed leaves {} out",
                                     fmt::join(added, " and "), added.size() == 1 ? "it" : "them");
}

References references_for(const ReadLabels& read, const std::vector<std::string>& labels) {
  References out{missing_references(labels), ""};
  if (out.labels.empty()) {
    return out;
  }
  const auto has_system = [](const PolicyChoice& policy) { return policy.system != nullptr; };
  std::vector<std::string> all = labels;
  all.insert(all.end(), out.labels.begin(), out.labels.end());
  try {  // as a rule one read is enough
    const std::vector<PolicyChoice> policies = read(all).policies;
    const bool apart = std::any_of(policies.begin(), std::prev(policies.end(), std::ssize(out.labels)), has_system);
    return apart ? References{} : References{out.labels, note_on(out.labels)};
  } catch (const InputError&) {  // below: of what
  }
  const std::vector<PolicyChoice> policies = read(labels).policies;
  if (std::any_of(policies.begin(), policies.end(), has_system)) {
    return {};
  }
  std::vector<std::string> refused;
  std::string reason;
  std::erase_if(out.labels, [&](const std::string& label) {
    try {
      read({label});
      return false;
    } catch (const InputError& e) {
      refused.push_back(label);
      reason = e.what();
      return true;
    }
  });
  out.note = note_on(out.labels);
  if (!refused.empty()) {
    out.note +=
        fmt::format("{}{} cannot be run here: {}", out.note.empty() ? "" : "; ", fmt::join(refused, " and "), reason);
  }
  return out;
}

}  // namespace epsim
