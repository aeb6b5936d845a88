#include "sim/scenario/scenario_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <sstream>

#include "policies/rebalance/rules.h"
#include "policies/registry.h"
#include "sim/scenario/model_sections.h"
#include "sim/scenario/network_options.h"
#include "sim/scenario/protocol.h"
#include "sim/scenario/read_deployment.h"
#include "sim/scenario/read_policies.h"
#include "sim/scenario/root_keys.h"
#include "sim/scenario/scenario.h"
#include "sim/scheduler/engines.h"
#include "traces/expert_loads/load_sources.h"
#include "traces/requests/lengths.h"
#include "traces/requests/read_requests.h"

namespace epsim {
namespace {

constexpr SameKeys kSameKeys[] = {{"plan_loads", "loads"},
                                  {"loads.windows[]", "loads"},
                                  {"loads.mix[]", "loads"},
                                  {"deployment.decode", "deployment.prefill"},
                                  {"deployment.prefill.serving", "serving"},
                                  {"deployment.prefill.dispatch", "dispatch"},
                                  {"requests.lengths.output", "requests.lengths.input"},
                                  {"requests.lengths.empirical", "requests"},
                                  {"policies.*.parallelism", "parallelism"},
                                  {"policies.*.memory", "memory"},
                                  {"policies.*.dispatch", "dispatch"},
                                  {"policies.*.serving", "serving"},
                                  {"policies.*.execution", "execution"},
                                  {"policy", "policies.*"}};

std::vector<std::string> words(std::string_view text) {
  std::istringstream in{std::string(text)};
  return {std::istream_iterator<std::string>(in), {}};
}

// The section that the table describes in place of one with the same keys.
std::string described_as(std::string section) {
  for (bool again = true; again;) {
    again = false;
    for (const SameKeys& same : kSameKeys) {
      if (section == same.section) {
        section = same.as;
        again = true;
      }
    }
  }
  return section;
}

bool below(const std::string& path, std::string_view section) {
  return path.starts_with(section) && path.size() > section.size() &&
         (path[section.size()] == '.' || path[section.size()] == '[');
}

using Rows = std::multimap<std::string_view, const ScenarioKey*>;

const Rows& rows_by_path() {
  static const Rows rows = [] {
    Rows out;
    for (const ScenarioKey& key : scenario_keys()) {
      out.emplace(key.path, &key);
    }
    return out;
  }();
  return rows;
}

// The row of a path for a variant: one that names the variant before one for all.
const ScenarioKey* row_of(const std::string& path, std::string_view variant) {
  const ScenarioKey* any = nullptr;
  const auto [first, last] = rows_by_path().equal_range(path);
  for (auto at = first; at != last; ++at) {
    if (at->second->variants.empty()) {
      any = at->second;
    } else if (has_variant(*at->second, variant)) {
      return at->second;
    }
  }
  return any;
}

std::vector<SectionKeys> section_keys() {
  std::vector<SectionKeys> out = {{"", "", kRootKeys},
                                  {"deployment", "", deployment_keys()},
                                  {"deployment.prefill", "", pool_keys()},
                                  {"execution", "", execution_keys()},
                                  {"faults[]", "", fault_keys()},
                                  {"memory", "", memory_keys()},
                                  {"model", "", model_keys()},
                                  {"parallelism", "", parallelism_keys()},
                                  {"protocol", "", protocol_keys()},
                                  {"policies.*", "", policy_entry_keys()},
                                  {"policies.*.replica_choice", "", replica_choice_keys()},
                                  {"policies.*.rebalance", "", rebalance_keys()}};
  add_entries("policies.*", std::span(&plugin_policy(), 1), out);
  add_entries("policies.*", placement_policies(), out);
  add_entries("policies.*", ceilings(), out);
  add_entries("policies.*", step_policies(), out);
  for (const StepPolicyEntry& entry : step_policies()) {
    for (const std::span<const Key> keys : step_policy_run_keys(entry)) {
      out.push_back({"policies.*", entry.name, keys});
    }
    out.push_back({"policies.*", entry.name, experts_in_order().keys});
  }
  add_entries("policies.*.replica_choice", replica_choices(), out);
  add_entries("policies.*.rebalance", rebalance_rules(), out);
  for (const auto& more : {network_keys(), serving_keys(), request_keys(), lengths_keys(), load_keys()}) {
    out.insert(out.end(), more.begin(), more.end());
  }
  return out;
}

std::string fallback_text(const Key& key) {
  switch (key.fallback.kind) {
    case key::Fallback::Kind::kRequired:
      return "required";
    case key::Fallback::Kind::kNone:
      return "none";
    case key::Fallback::Kind::kWorkedOut:
      return fmt::format("({})", key.fallback.words);
    case key::Fallback::Kind::kValue:
      break;
  }
  return default_text(key);
}

bool alike(const ScenarioKey& a, const ScenarioKey& b) {
  return a.type == b.type && a.range == b.range && a.fallback == b.fallback && a.choices == b.choices &&
         a.sentence == b.sentence;
}

// Kinds that have the same key share a row. A key that the kind has already is its own, and stands for the other.
// Whether the row is a new one.
bool add_row(ScenarioKey row, std::vector<ScenarioKey>& out) {
  const auto same = [&](const ScenarioKey& other) { return other.path == row.path && !other.variants.empty(); };
  for (const ScenarioKey& other : out) {
    if (!row.variants.empty() && same(other) && has_variant(other, row.variants)) {
      return false;
    }
  }
  for (ScenarioKey& other : out) {
    if (!row.variants.empty() && same(other) && alike(other, row)) {
      other.variants += " " + row.variants;
      return false;
    }
  }
  out.push_back(std::move(row));
  return true;
}

// The rows of the section, or of the items of that list.
void add_section(const std::string& path, std::vector<ScenarioKey>& out) {
  for (const SectionKeys& section : section_keys()) {
    if (section.section != path && section.section != path + "[]") {
      continue;
    }
    for (const Key& key : section.keys) {
      const std::string name = fmt::format("{}{}{}", section.section, path.empty() ? "" : ".", key.name);
      const bool fresh =
          add_row({name, std::string(section.variant), key.value.type, key.value.range, fallback_text(key),
                   key.value.choices == nullptr ? std::vector<std::string>{} : key.value.choices(), key.value.open,
                   std::string(key.value.listed_by), std::string(key.sentence), &key},
                  out);
      if (fresh && (key.value.type == ValueType::kSection || key.value.type == ValueType::kSections)) {
        add_section(name, out);
      }
    }
  }
}

class Check {
 public:
  explicit Check(const ConfigReader& root) { look(root, "", ""); }
  ScenarioCheck result;

 private:
  // The keys that a section may have, by what it says of its kind.
  static std::vector<std::string> known_keys(const std::string& section, std::string_view variant) {
    std::vector<std::string> out;
    for (const ScenarioKey& key : scenario_keys()) {
      const std::size_t dot = key.path.rfind('.');
      const std::string parent = dot == std::string::npos ? "" : key.path.substr(0, dot);
      const std::string name = key.path.substr(dot == std::string::npos ? 0 : dot + 1);
      if (parent == section && row_of(key.path, variant) == &key) {
        out.push_back(name);
      }
    }
    return out;
  }

  // What decides which keys a section has. std::nullopt: nobody knows, so that its reader has to say.
  static std::optional<std::string> variant_of(ConfigReader& in, const std::string& section, const std::string& label) {
    for (const char* which : {"kind", "engine", "rule"}) {
      const ScenarioKey* row = row_of(section.empty() ? which : section + "." + which, "");
      if (row == nullptr) {
        continue;
      }
      std::string value(row->fallback == "required" || row->fallback.starts_with("(") ? "" : row->fallback);
      if (section == "policies.*") {
        value = in.has("plugin") ? "plugin" : label;
      }
      if (in.problem_of(which, ValueType::kText, Bound::kAny)) {
        return std::nullopt;
      }
      value = in.maybe<std::string>(which).value_or(value);
      const std::vector<std::string>& all = row->choices;
      const bool plugin = value == plugin_policy().name && section == "policies.*";
      return plugin || std::find(all.begin(), all.end(), value) == all.end() ? std::nullopt : std::optional(value);
    }
    return "";
  }

  void look(ConfigReader in, const std::string& section, const std::string& label) {
    const std::optional<std::string> variant = variant_of(in, section, label);
    if (!variant) {
      return;
    }
    std::vector<std::string> strangers;
    for (const std::string& key : in.keys()) {
      const std::string path =
          section == "policies" ? "policies.*" : table_path(section.empty() ? key : section + "." + key);
      if (const ScenarioKey* row = row_of(path, *variant); row != nullptr || path == "policies.*") {
        look_at(in, key, path, row);
      } else {
        strangers.push_back(key);
      }
    }
    for (const std::string& key : known_keys(section, *variant)) {
      const ScenarioKey* row = row_of(section.empty() ? key : section + "." + key, *variant);
      if (row->fallback != "required" || in.has(key)) {
        continue;
      }
      const std::optional<std::string> meant = misspelling(key, strangers);
      result.errors.emplace_back(in.place(key), in.missing(key, strangers));
      std::erase(strangers, meant.value_or(""));  // told with the key that is missing
    }
    for (const std::string& key : strangers) {
      result.unknown.push_back(in.unknown_key(key, known_keys(section, *variant)));
    }
  }

  void look_at(ConfigReader& in, const std::string& key, const std::string& path, const ScenarioKey* row) {
    if (path == "policies.*.serving" && in.is_section(key) && !in.section(key).has("engine")) {
      return;  // knobs of the scenario's engine: looked at where they stand among its own
    }
    const bool section = row == nullptr || row->type == ValueType::kSection || path == "policies.*";
    if (section || (row != nullptr && row->path == "policy" && in.is_section(key))) {
      if (in.is_section(key)) {
        look(row != nullptr ? in.section(*row->row) : in.section(key), described_as(path), key);
      } else if (in.has(key)) {
        result.errors.emplace_back(in.place(key), *in.problem_of(key, ValueType::kSection, Bound::kAny));
      }
      return;
    }
    if (const auto problem = in.problem_of(key, row->type, row->range)) {
      result.errors.emplace_back(in.place(key), *problem);
      return;
    }
    if (row->type == ValueType::kSections && in.has(key)) {
      for (ConfigReader& item : in.list_of_sections(*row->row)) {
        look(item, described_as(path + "[]"), "");
      }
    } else if (row->type == ValueType::kText && !row->choices.empty() && !row->open && in.has(key)) {
      const std::string value = *in.maybe<std::string>(key);
      const std::vector<std::string>& allowed = row->choices;
      if (std::find(allowed.begin(), allowed.end(), value) == allowed.end()) {
        result.errors.emplace_back(in.place(key), unknown_name("value", value, allowed));
      }
    }
  }
};

}  // namespace

const std::vector<ScenarioKey>& scenario_keys() {
  static const std::vector<ScenarioKey> all = [] {
    std::vector<ScenarioKey> out;
    add_section("", out);
    add_section("policies.*", out);
    return out;
  }();
  return all;
}

bool has_variant(const ScenarioKey& key, std::string_view variant) {
  const std::vector<std::string> all = words(key.variants);
  return all.empty() || std::find(all.begin(), all.end(), variant) != all.end();
}

std::string type_text(const ScenarioKey& key) {
  static constexpr const char* kNames[] = {"true or false",
                                           "whole number",
                                           "number",
                                           "text",
                                           "time",
                                           "bytes",
                                           "byte rate",
                                           "flop rate",
                                           "request rate",
                                           "list of numbers",
                                           "list of whole numbers",
                                           "list of texts",
                                           "list of lists of numbers",
                                           "path",
                                           "section",
                                           "list of sections",
                                           "number or list of numbers"};
  std::string out = kNames[static_cast<std::size_t>(key.type)];
  const bool number = (key.type >= ValueType::kTime && key.type <= ValueType::kWholes) ||
                      key.type == ValueType::kWhole || key.type == ValueType::kNumber ||
                      key.type == ValueType::kNumberOrList;
  const Range& range = key.range;
  const bool low = number && std::isfinite(range.least), high = number && std::isfinite(range.most);
  if (low && high && !range.above && !range.below) {
    return fmt::format("{}, {:.15g} to {:.15g}", out, range.least, range.most);
  }
  out += low ? fmt::format(", {} {:.15g}", range.above ? ">" : ">=", range.least) : "";
  return high ? fmt::format("{}{} {} {:.15g}", out, low ? " and" : ",", range.below ? "<" : "<=", range.most) : out;
}

std::span<const SameKeys> same_keys() { return kSameKeys; }

std::string table_path(const std::string& given) {
  std::string path = given;
  if (path.starts_with("policies.")) {
    const std::size_t end = path.find('.', 9);
    path = "policies.*" + (end == std::string::npos ? "" : path.substr(end));
  }
  for (bool again = true; again;) {
    again = false;
    for (const SameKeys& same : kSameKeys) {
      if (below(path, same.section)) {
        path = std::string(same.as) + path.substr(same.section.size());
        again = true;
      }
    }
  }
  return path;
}

ScenarioCheck check_scenario_keys(const ConfigReader& root) { return Check(root).result; }

}  // namespace epsim
