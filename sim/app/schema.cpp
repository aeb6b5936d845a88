// The JSON Schema of scenario files. Keys that a section's kind decides are all allowed: the program says which belong
// together. Nothing is required, since `extends` may provide it.
#include <fmt/format.h>

#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "sim/app/command_line.h"
#include "sim/app/keys.h"
#include "sim/core/quantity.h"
#include "sim/scenario/scenario_keys.h"

namespace epsim::app {
namespace {

using Json = nlohmann::ordered_json;

Json number(const char* type, const ScenarioKey& key) {
  Json out{{"type", type}};
  const auto whole_or_not = [](double value) {
    return value == std::floor(value) ? Json(std::int64_t(value)) : Json(value);
  };
  if (std::isfinite(key.range.least)) {
    out[key.range.above ? "exclusiveMinimum" : "minimum"] = whole_or_not(key.range.least);
  }
  if (std::isfinite(key.range.most)) {
    out[key.range.below ? "exclusiveMaximum" : "maximum"] = key.range.most;
  }
  return out;
}

Json list_of(Json items) { return {{"type", "array"}, {"items", std::move(items)}}; }

Json quantity(ValueType type) {
  std::string units;
  for (const std::string& unit : units_of(type)) {
    units += fmt::format("{}{}", units.empty() ? "" : "|", unit);
  }
  return {{"type", "string"}, {"pattern", fmt::format("^[+-]?[0-9.]+([eE][+-]?[0-9]+)? *({})$", units)}};
}

Json text(const ScenarioKey& key) {
  if (key.choices.empty()) {
    return {{"type", {"string", "number", "boolean"}}};
  }
  const Json names{{"enum", key.choices}};
  return key.open ? Json{{"anyOf", {names, {{"type", "string"}}}}} : names;  // a file, a label
}

Json value_of(const ScenarioKey& key) {
  switch (key.type) {
    case ValueType::kBool:
      return {{"type", "boolean"}};
    case ValueType::kWhole:
      return number("integer", key);
    case ValueType::kNumber:
      return number("number", key);
    case ValueType::kText:
      return text(key);
    case ValueType::kPath:
      return {{"type", "string"}};
    case ValueType::kNumbers:
      return list_of(number("number", key));
    case ValueType::kNumberOrList:
      return {{"anyOf", {number("number", key), list_of(number("number", key))}}};
    case ValueType::kWholes:
      return list_of(number("integer", key));
    case ValueType::kTexts:
      return list_of({{"type", "string"}});
    case ValueType::kTable:
      return list_of(list_of(number("number", key)));
    case ValueType::kSection:
      return {{"type", {"object", "null"}}, {"properties", Json::object()}, {"additionalProperties", false}};
    case ValueType::kSections:
      return list_of({{"type", "object"}, {"properties", Json::object()}, {"additionalProperties", false}});
    default:
      return quantity(key.type);
  }
}

std::string description(const ScenarioKey& key) {
  std::string out(key.sentence);
  if (key.fallback != "none") {
    out += key.fallback == "required" ? std::string(" Required.") : fmt::format(" Default: {}.", key.fallback);
  }
  return out + (key.variants.empty() ? "" : fmt::format(" For: {}.", key.variants));
}

// The node of the schema that describes a path's value: JSON pointer.
std::string pointer_to(std::string_view path) {
  std::string out;
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t end = std::min(path.find('.', at), path.size());
    std::string name(path.substr(at, end - at));
    const bool item = name.ends_with("[]");
    name = item ? name.substr(0, name.size() - 2) : name;
    out += name == "*" ? "/additionalProperties" : fmt::format("/properties/{}", name);
    out += item ? "/items" : "";
    at = end + 1;
  }
  return out;
}

// Another row of the same path: a value of either kind.
void add_row(Json& at, const ScenarioKey& key) {
  Json row = value_of(key);
  row["description"] = description(key);
  if (at.is_null()) {
    at = std::move(row);
  } else if (at.contains("anyOf") && !at.contains("description")) {
    at["anyOf"].push_back(std::move(row));
  } else {
    at = Json{{"anyOf", {at, std::move(row)}}};
  }
}

}  // namespace

std::string scenario_schema() {
  Json schema{{"$schema", "https://json-schema.org/draft/2020-12/schema"},
              {"title", "epsim scenario"},
              {"type", "object"},
              {"properties", Json::object()},
              {"additionalProperties", false}};
  for (const ScenarioKey& key : scenario_keys()) {
    add_row(schema[Json::json_pointer(pointer_to(key.path))], key);
    if (key.path == "policies") {  // entries are labelled; a plug-in's options are its own
      schema["properties"]["policies"]["additionalProperties"] = {{"type", {"object", "null"}},
                                                                  {"properties", Json::object()}};
    }
  }
  for (const SameKeys& same : same_keys()) {
    Json& at = schema[Json::json_pointer(pointer_to(same.section))];
    const Json reference{{"$ref", fmt::format("#{}", pointer_to(same.as))}};
    at = same.section == "policy" ? Json{{"anyOf", {at, reference}}} : reference;
  }
  return schema.dump(1) + "\n";
}

int schema_verb(const std::vector<std::string>& words) {
  po::options_description options("options");
  add_file_output(options, "the schema's file; default: -, standard output");
  const auto values = parse_words(
      words,
      "epsim schema > epsim.schema.json\n\n"
      "Prints the JSON Schema (draft 2020-12) of scenario files, with which editors complete and check them. In a\n"
      "scenario, the first line `# yaml-language-server: $schema=epsim.schema.json` names it.\n",
      options, {});
  FileOutput(values, "-").write(scenario_schema(), "schema");
  return 0;
}

}  // namespace epsim::app
