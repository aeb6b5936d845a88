#include "sim/core/config_json.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <vector>

#include "sim/core/config_size.h"
#include "sim/core/error.h"

namespace epsim {
namespace {

std::string text_of(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += std::string{'\\', c};
    } else {
      out += static_cast<unsigned char>(c) < ' ' ? fmt::format("\\u{:04x}", static_cast<int>(c)) : std::string{c};
    }
  }
  return out + '"';
}

std::string json_of(const YAML::Node& node) {
  std::vector<std::string> parts;
  if (node.IsMap()) {
    for (const auto& entry : node) {
      parts.push_back(text_of(entry.first.as<std::string>()) + ": " + json_of(entry.second));
    }
    return fmt::format("{{{}}}", fmt::join(parts, ", "));
  }
  if (node.IsSequence()) {
    for (const auto& item : node) {
      parts.push_back(json_of(item));
    }
    return fmt::format("[{}]", fmt::join(parts, ", "));
  }
  return node.IsScalar() ? text_of(node.Scalar()) : "null";
}

}  // namespace

std::string yaml_to_json(const std::string& yaml, const std::string& name) {
  try {
    check_yaml_size(yaml, name);
    return json_of(YAML::Load(yaml));
  } catch (const YAML::Exception& e) {
    throw InputError({name, 1 + e.mark.line, ""}, "this is not YAML: " + e.msg + ".");
  }
}

}  // namespace epsim
