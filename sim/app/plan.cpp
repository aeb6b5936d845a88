// `epsim plan`: a policy alone, from a file of loads to a file of slots.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>

#include "policies/plan_formats.h"
#include "sim/app/command_line.h"
#include "sim/app/plan_explain.h"
#include "sim/app/plan_report.h"
#include "sim/app/plan_request.h"
#include "sim/core/files.h"

namespace epsim::app {

namespace po = boost::program_options;
namespace fs = std::filesystem;

namespace {

constexpr const char* kOwnFormat = "epsim";

// JSON is YAML, so the reader of scenarios reads requests too; but a file that says it is JSON must be JSON, with the
// line of its mistake.
void check_json(const std::string& text, const std::string& name) {
  try {
    [[maybe_unused]] const nlohmann::json parsed = nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& e) {
    const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(e.byte, text.size()));
    const int line = 1 + static_cast<int>(std::count(text.begin(), end, '\n'));
    throw InputError({name, line, ""}, "this is not valid JSON; a request is one JSON object.");
  }
}

Config open_request(const po::variables_map& values) {
  if (values.count("request") == 0) {
    throw InputError({}, "name the request, as in: epsim plan request.json -o plan.json");
  }
  const std::string name = values["request"].as<std::string>();
  if (name == "-") {
    const std::string text{std::istreambuf_iterator<char>(std::cin), {}};
    return Config::from_text(text, "standard input");
  }
  if (!name.ends_with(".yaml") && !name.ends_with(".yml")) {
    check_json(read_file(name), name);
  }
  return Config::from_file(name);
}

void check_target(const std::string& target, bool overwrite) {
  std::error_code ignored;
  const fs::path file(target);
  if (target == "-" || target.empty()) {
    return;
  }
  if (fs::is_directory(file, ignored)) {
    throw InputError({target, 0, ""}, "this is a folder; name a file for the plan.");
  }
  if (fs::exists(file, ignored) && !fs::is_regular_file(file, ignored)) {
    throw InputError({target, 0, ""}, "this is a device or a pipe, which a plan would replace; name a file.");
  }
  if (fs::exists(file, ignored) && !overwrite) {
    throw InputError({target, 0, ""}, "the file exists; name another, or add --overwrite to replace it.");
  }
  if (file.has_parent_path() && !fs::is_directory(file.parent_path(), ignored)) {
    throw InputError({target, 0, ""}, "there is no such folder to write the plan into.");
  }
}

// Which layers of the model the request's layers are; without a model they are taken to be all.
ModelLayers model_layers(const PlanRequest& request) {
  if (request.model) {
    return {request.model->moe_layer_numbers(), request.model->layers};
  }
  ModelLayers out{std::vector<int>(static_cast<std::size_t>(request.load.layers())), request.load.layers()};
  std::iota(out.numbers.begin(), out.numbers.end(), 0);
  return out;
}

std::string checked_format(const std::string& format) {
  std::vector<std::string> known = engine_formats();
  known.insert(known.begin(), kOwnFormat);
  if (std::find(known.begin(), known.end(), format) == known.end()) {
    throw InputError({"", 0, "--format"}, unknown_name("format", format, known));
  }
  return format;
}

int plan_request(const po::variables_map& values) {
  const std::string target = values.count("output") > 0 ? values["output"].as<std::string>() : "";
  const std::string format = checked_format(values["format"].as<std::string>());
  const bool explain = values["explain"].as<bool>();
  if (target.empty() && !explain) {
    throw InputError({}, "name the file for the plan, as in -o plan.json, or -o - for the terminal");
  }
  check_target(target, values["overwrite"].as<bool>());
  const PlanRequest request = read_plan_request(open_request(values));
  const PlacementPlan plan = make_plan(request);
  const PlanFigures figures = plan_figures(plan, request);
  const std::string text =
      format == kOwnFormat ? plan_json(plan, request, figures) : export_plan(plan, model_layers(request), format);
  // Where the plan goes to the terminal, what is told about it goes to the error stream.
  std::ostream& told = target == "-" ? std::cerr : std::cout;
  if (explain) {
    told << explain_plan(plan, request, figures) << "\n";
  }
  if (target == "-") {
    std::cout << text;
    return 0;
  }
  if (!target.empty()) {
    write_file_atomically(target, text);
  }
  told << plan_summary(plan, request, figures) << (target.empty() ? "" : "plan: " + target + "\n");
  return 0;
}

}  // namespace

int plan_verb(const std::vector<std::string>& words) {
  po::options_description options("options");
  options.add_options()("output,o", po::value<std::string>(), "file for the plan; - is the terminal")(
      "overwrite", po::bool_switch(), "replace the file if it exists")(
      "format", po::value<std::string>()->default_value(kOwnFormat),
      "epsim, or the file of an engine: sglang, trtllm, vllm, vllm-ascend")(
      "explain", po::bool_switch(), "show layer by layer why; without -o, nothing else");
  const auto values = parse_words(
      words,
      "epsim plan REQUEST.json -o PLAN.json [options]\n\n"
      "Runs a placement policy alone. REQUEST: policy, options, weights [layer][expert] or a trace, num_gpus, "
      "num_nodes,\n"
      "num_groups, num_replicas or replication_factor, model or expert_bytes, previous. policies/plan_formats.md\n"
      "describes every key of both files.\n",
      options, {"request"});
  return values ? plan_request(*values) : 0;
}

}  // namespace epsim::app
