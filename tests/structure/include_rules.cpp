#include "tests/structure/include_rules.h"

#include <algorithm>
#include <optional>
#include <sstream>

namespace epsim::test {
namespace {

bool is_under(std::string_view path, std::string_view folder) {
  return path.size() > folder.size() && path.starts_with(folder) && path[folder.size()] == '/';
}

struct Include {
  std::string target;
  bool quoted = false;
};

// `#include "a"` or `#include <a>`, wherever the blanks are.
std::optional<Include> parse_include(const std::string& line) {
  const auto skip_blanks = [&](std::size_t at) { return std::min(line.find_first_not_of(" \t", at), line.size()); };
  std::size_t at = skip_blanks(0);
  if (line.compare(at, 1, "#") != 0) {
    return std::nullopt;
  }
  at = skip_blanks(at + 1);
  if (line.compare(at, 7, "include") != 0) {
    return std::nullopt;
  }
  at = skip_blanks(at + 7);
  const char open = at < line.size() ? line[at] : ' ';
  const std::size_t close = open == '"' ? line.find('"', at + 1) : open == '<' ? line.find('>', at) : std::string::npos;
  if (close == std::string::npos) {
    return std::nullopt;
  }
  return Include{line.substr(at + 1, close - at - 1), open == '"'};
}

std::string list(const IncludeRule& rule) {
  std::string out(rule.folder);
  for (const std::string_view allowed : rule.may_include) {
    out += ", " + std::string(allowed);
  }
  return out;
}

const IncludeRule* rule_of(const std::string& path) {
  for (const IncludeRule& rule : include_rules()) {
    if (is_under(path, rule.folder)) {
      return &rule;
    }
  }
  return nullptr;
}

bool is_ours(const std::string& target) {
  for (const char* top : {"sim", "models", "policies", "traces", "calibration", "tests", "experiments", "bindings"}) {
    if (is_under(target, top)) {
      return true;
    }
  }
  return false;
}

bool is_unlayered(const std::string& path) {
  for (const std::string_view folder : unlayered_folders()) {
    if (is_under(path, folder)) {
      return true;
    }
  }
  return false;
}

bool allowed_by(const IncludeRule& rule, const std::string& target) {
  if (is_under(target, rule.folder)) {
    return true;
  }
  for (const std::string_view allowed : rule.may_include) {
    if (target == allowed || is_under(target, allowed)) {
      return true;
    }
  }
  return false;
}

// What is wrong with one include of `path`; nullopt when nothing is.
std::optional<std::string> problem_of(const std::string& path, const Include& include,
                                      const std::function<bool(const std::string&)>& exists) {
  const std::string& target = include.target;
  const IncludeRule* rule = rule_of(path);
  if (!include.quoted) {
    if (is_ours(target)) {
      return "<" + target + "> is a header of this repository; write it in quotes.";
    }
    if (target.starts_with("yaml-cpp/") && rule != nullptr && !path.starts_with("sim/core/config")) {
      return "<" + target + "> stays hidden in sim/core/config*; read settings through ConfigReader.";
    }
    return std::nullopt;
  }
  if (target.find("..") != std::string::npos || !is_ours(target) || !exists(target)) {
    return "\"" + target + "\" is no file from the repository's root; includes are written from there.";
  }
  if (rule == nullptr) {
    return is_unlayered(path) ? std::nullopt
                              : std::optional<std::string>("this folder has no layer; enter it in include_rules().");
  }
  if (!allowed_by(*rule, target)) {
    return "\"" + target + "\" is not below this layer; files here may include " + list(*rule) + ".";
  }
  return std::nullopt;
}

}  // namespace

const std::vector<IncludeRule>& include_rules() {
  static const std::vector<IncludeRule> rules = {
      {"sim/core", {}},
      {"sim/domain", {"sim/core"}},
      {"sim/engine", {"sim/core", "sim/domain"}},
      {"traces/format", {"sim/core", "sim/domain"}},
      {"traces/requests", {"sim/core", "sim/domain", "traces/format"}},
      {"traces/routing_model", {"sim/core", "sim/domain", "traces/format"}},
      {"traces/expert_loads", {"sim/core", "sim/domain", "traces/format", "traces/routing_model"}},
      {"traces/import", {"sim/core", "traces/format"}},
      {"traces/export", {"sim/core", "traces/format"}},
      {"traces/commands",
       {"sim/core", "sim/domain", "traces/format", "traces/routing_model", "traces/import", "traces/export"}},
      {"models/profile", {"sim/core", "sim/domain"}},
      {"models/catalogue", {"sim/core", "sim/domain", "models/profile"}},
      {"models/memory", {"sim/core", "sim/domain"}},
      {"models/compute", {"sim/core", "sim/domain", "models/profile", "models/catalogue"}},
      {"models/network", {"sim/core", "sim/domain", "models/catalogue"}},
      {"models/step",
       {"sim/core", "sim/domain", "models/catalogue", "models/memory", "models/compute", "models/network"}},
      {"policies", {"sim/core", "sim/domain"}},
      {"sim/scheduler", {"sim/core", "sim/domain", "models/memory/memory_model.h"}},
      {"sim/scenario", {"sim/core", "sim/domain", "traces", "models", "policies", "sim/scheduler"}},
      {"sim/step", {"sim/core", "sim/domain", "sim/engine", "models", "policies", "sim/scenario"}},
      {"sim/cluster",
       {"sim/core", "sim/domain", "sim/engine", "models", "policies", "sim/scenario", "sim/scheduler", "sim/step"}},
      {"sim/study", {"sim/core", "sim/domain", "models", "sim/scheduler", "sim/scenario", "sim/cluster"}},
      {"calibration",
       {"sim/core", "sim/domain", "models/profile", "models/catalogue/hardware_profile.h",
        "models/catalogue/model_catalogue.h", "models/catalogue/profiles.h", "traces/format/hdf5_file.h",
        "traces/format/csv.h", "traces/format/text_input.h", "traces/expert_loads/load_sources.h"}},
      {"sim/report",
       {"sim/core", "sim/domain", "sim/study/goodput_result.h", "sim/study/diagnosis_result.h",
        "sim/study/capacity_cost.h", "sim/cluster/run_result.h", "sim/scenario/scenario.h",
        "sim/scenario/compared_policies.h", "models/catalogue/catalogue.h"}},
      {"sim/reproduce",
       {"sim/core", "sim/domain", "traces", "models", "policies", "sim/scenario", "sim/step", "sim/cluster",
        "sim/study", "sim/report"}},
      {"sim/verbs",
       {"sim/core", "sim/domain", "traces", "models", "policies", "sim/scheduler", "sim/scenario", "sim/step",
        "sim/cluster", "sim/study", "sim/report"}},
  };
  return rules;
}

const std::vector<std::string_view>& unlayered_folders() {
  static const std::vector<std::string_view> folders = {"sim/app", "sim/python", "experiments", "tests", "bindings"};
  return folders;
}

std::vector<std::string> include_violations(const std::string& path, const std::string& text,
                                            const std::function<bool(const std::string&)>& exists) {
  std::vector<std::string> out;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const std::optional<Include> include = parse_include(line);
    if (!include) {
      continue;
    }
    if (const std::optional<std::string> problem = problem_of(path, *include, exists)) {
      out.push_back(path + ":" + std::to_string(number) + ": " + *problem);
    }
  }
  return out;
}

}  // namespace epsim::test
