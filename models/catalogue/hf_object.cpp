#include "models/catalogue/hf_object.h"

#include <fmt/format.h>

#include "sim/core/error.h"

namespace epsim {

void HfObject::fail(const std::string& key, const std::string& problem) const {
  throw InputError({file_, 0, prefix_ + key}, problem);
}

const nlohmann::json& HfObject::need(const std::string& key) const {
  if (!has(key)) {
    fail(key, "this key is required and missing.");
  }
  read_.insert(key);
  return json_.at(key);
}

int HfObject::integer(const std::string& key, int smallest, int largest) const {
  const nlohmann::json& value = need(key);
  if (!value.is_number_integer()) {
    fail(key, fmt::format("is {}, which is not a whole number.", value.dump()));
  }
  if (value < smallest || value > largest) {
    fail(key, fmt::format("is {}, which must be in {}..{}.", value.dump(), smallest, largest));
  }
  return value.get<int>();
}

int HfObject::integer_or_null(const std::string& key, int smallest, int if_null, int largest) const {
  return need(key).is_null() ? if_null : integer(key, smallest, largest);
}

int HfObject::integer_or(const std::string& key, int smallest, int otherwise) const {
  return given(key) ? integer(key, smallest) : otherwise;
}

bool HfObject::boolean(const std::string& key) const {
  const nlohmann::json& value = need(key);
  if (!value.is_boolean()) {
    fail(key, fmt::format("is {}, which is neither true nor false.", value.dump()));
  }
  return value.get<bool>();
}

bool HfObject::boolean_or(const std::string& key, bool otherwise) const {
  return given(key) ? boolean(key) : otherwise;
}

std::string HfObject::word(const std::string& key) const {
  const nlohmann::json& value = need(key);
  if (!value.is_string()) {
    fail(key, fmt::format("is {}, which is not a word in quotes.", value.dump()));
  }
  return value.get<std::string>();
}

std::vector<std::string> HfObject::words(const std::string& key) const {
  const nlohmann::json& value = need(key);
  if (!value.is_array()) {
    fail(key, "must be a list of words in quotes.");
  }
  std::vector<std::string> out;
  for (const nlohmann::json& item : value) {
    if (!item.is_string()) {
      fail(key, fmt::format("holds {}, which is not a word in quotes.", item.dump()));
    }
    out.push_back(item.get<std::string>());
  }
  return out;
}

std::vector<int> HfObject::integers(const std::string& key) const {
  const nlohmann::json& value = need(key);
  std::vector<int> out;
  for (const nlohmann::json& item : value) {
    if (!item.is_number_integer() || item < 0 || item > 1'000'000) {
      fail(key, fmt::format("holds {}, which is not a layer number.", item.dump()));
    }
    out.push_back(item.get<int>());
  }
  return value.is_array() ? out : (fail(key, "must be a list of layer numbers."), out);
}

HfObject HfObject::object(const std::string& key) const {
  const nlohmann::json& value = need(key);
  if (!value.is_object()) {
    fail(key, "must be an object of keys and values.");
  }
  return {value, file_, prefix_ + key + "."};
}

void HfObject::finish(const std::set<std::string_view>& harmless) const {
  std::vector<std::string> unknown;
  for (const auto& [key, value] : json_.items()) {
    if (!value.is_null() && !read_.contains(key) && !harmless.contains(key)) {
      unknown.push_back(key);
    }
  }
  if (!unknown.empty()) {
    fail(unknown.front(),
         fmt::format("unknown key{} '{}': epsim does not know whether {} the weights, the attention or the KV cache of "
                     "this model_type. Remove what changes none of them; otherwise describe the model in a .yaml file "
                     "(models/architectures shows how).",
                     unknown.size() > 1 ? "s" : "", fmt::join(unknown, "', '"),
                     unknown.size() > 1 ? "they change" : "it changes"));
  }
}

}  // namespace epsim
