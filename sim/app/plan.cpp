// `epsim plan`: a policy alone, from a file of loads to a file of slots.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "sim/app/command_line.h"
#include "sim/core/files.h"
#include "sim/core/refuse.h"
#include "sim/verbs/plan_explain.h"
#include "sim/verbs/plan_report.h"
#include "sim/verbs/plan_request.h"

namespace epsim::app {

namespace {

// JSON is YAML, so the reader of scenarios reads requests too; but a file that says it is JSON must be JSON, with the
// line of its mistake.
void check_json(const std::string& text, const std::string& name) {
  try {
    [[maybe_unused]] const nlohmann::json parsed = nlohmann::json::parse(text);
  } catch (const nlohmann::json::out_of_range&) {
    throw InputError({name, 0, ""}, "a number is beyond what 64 bits hold: at most 1.8e308.");
  } catch (const nlohmann::json::parse_error& e) {
    const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(e.byte, text.size()));
    const int line = 1 + static_cast<int>(std::count(text.begin(), end, '\n'));
    throw InputError({name, line, ""}, "this is not valid JSON; a request is one JSON object.");
  }
}

std::string standard_input() {
  const InputPlace place{"standard input", 0, ""};
  std::string text, piece(std::size_t{1} << 16, '\0');
  while (std::cin.read(piece.data(), std::ssize(piece)) || std::cin.gcount() > 0) {
    text.append(piece, 0, static_cast<std::size_t>(std::cin.gcount()));
    check_limit(limits::kDocumentBytes, std::ssize(text), place);
  }
  check_utf8(text, place);
  return text;
}

Config open_request(const po::variables_map& values) {
  if (values["request"].as<std::string>() == "-") {
    return Config::from_text(standard_input(), "standard input");
  }
  const std::string name = shipped_file(values["request"].as<std::string>()).string();
  if (!name.ends_with(".yaml") && !name.ends_with(".yml")) {
    check_json(epsim::read_document(std::filesystem::path(name)), name);
  }
  return Config::from_file(name);
}

// eplb.py plans from such loads, too.
void warn_of_no_load(const LoadWindow& load) {
  for (int l = 0; l < load.layers(); ++l) {
    if (std::ranges::any_of(load.layer(l), [](double x) { return x > 0; })) {
      return;
    }
  }
  std::cerr << "warning: every load is 0, so the plan knows nothing of any expert.\n";
}

int plan_request(const po::variables_map& values) {
  refuse_if(values.count("request") == 0, "", "name the request, as in: epsim plan request.json -o plan.json");
  const std::string format = checked_plan_format(values["format"].as<std::string>());
  const bool explain = values["explain"].as<bool>(), to_file = values.count("output") > 0;
  const JsonOutput json(values);
  const Config config = open_request(values);
  refuse_if(!to_file && !explain && !json.wanted(), "",
            "name the file for the plan, as in -o plan.json, or -o - for standard output");
  const auto target = to_file ? std::make_unique<FileOutput>(values) : nullptr;
  refuse_if(json.wanted() && to_file && target->to_standard_output(), "",
            "both --json and -o - write to standard output; name a file for the plan.");
  const PlanRequest request = read_plan_request(config);
  warn_of_no_load(request.load);
  const PlacementPlan plan = make_plan(request);
  const PlanFigures figures = plan_figures(plan, request);
  if (explain) {
    std::cout << explain_plan(plan, request, figures) << "\n";
  }
  if (!target || !target->to_standard_output()) {
    std::cout << plan_summary(plan, request, figures);
  }
  if (target) {
    target->write(plan_file(plan, request, figures, format), "plan");
    if (!request.model && (format == "sglang" || format == "trtllm")) {
      std::cerr << fmt::format(
          "warning: {} numbers layers as the model does, and the request names no `model`: its {} layers are taken to "
          "be "
          "all. If the model has dense layers too, name it.\n",
          format, plan.layers.size());
    }
  }
  json.print(plan_json(plan, request, figures));
  return 0;
}

}  // namespace

int plan_verb(const std::vector<std::string>& words) {
  po::options_description options("options");
  add_file_output(options, "file for the plan, - for standard output");
  add_json_option(options, "slots, balancedness, memory and moves by layer or GPU, as a plan file");
  options.add_options()("format", po::value<std::string>()->default_value(kOwnPlanFormat),
                        "epsim, or the file of an engine: sglang, trtllm, vllm, vllm-ascend")(
      "explain", po::bool_switch(), "show layer by layer why; then -o may be left out");
  const auto values = parse_words(
      words,
      "epsim plan REQUEST.json -o PLAN.json [options]\n\n"
      "Runs a placement policy alone. REQUEST: policy, options, weights [layer][expert] or a trace, num_gpus, "
      "num_nodes,\n"
      "num_groups, num_replicas or replication_factor, model or expert_bytes, previous. policies/plan_formats.md\n"
      "describes every key of both files.\n",
      options, {"request"});
  return plan_request(values);
}

}  // namespace epsim::app
