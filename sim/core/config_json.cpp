#include "sim/core/config_json.h"

#include <yaml-cpp/yaml.h>

#include <nlohmann/json.hpp>

#include "sim/core/config_size.h"
#include "sim/core/error.h"

namespace epsim {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const YAML::Node& node) {
  if (node.IsMap()) {
    Json out = Json::object();
    for (const auto& entry : node) {
      out[entry.first.as<std::string>()] = json_of(entry.second);
    }
    return out;
  }
  if (node.IsSequence()) {
    Json out = Json::array();
    for (const auto& item : node) {
      out.push_back(json_of(item));
    }
    return out;
  }
  return node.IsScalar() ? Json(node.Scalar()) : Json(nullptr);
}

}  // namespace

Json yaml_as_json(const std::string& yaml, const std::string& name) {
  try {
    check_yaml_size(yaml, name);
    return json_of(YAML::Load(yaml));
  } catch (const YAML::Exception& e) {
    throw InputError({name, 1 + e.mark.line, ""}, "this is not YAML: " + e.msg + ".");
  }
}

}  // namespace epsim
