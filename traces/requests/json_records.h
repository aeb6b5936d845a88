// Records from JSON lines, or from one JSON document over many lines: objects with numbers, words and lists.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/error.h"
#include "traces/format/text_input.h"

namespace epsim {

// The wanted fields of one object. Getters throw InputError, which names the field, when it is missing or of another
// kind. Python writes NaN and Infinity, which are not JSON; they are read as null.
class JsonRecord {
 public:
  InputPlace place;  // the file and the line where the object ends
  nlohmann::json fields;

  // The field; null where the record lacks it.
  const nlohmann::json& at(std::string_view name) const;
  bool has(std::string_view name) const { return fields.contains(name); }
  // The first of `names` that the record has; empty when it has none.
  std::string first_of(const std::vector<std::string_view>& names) const;
  std::int64_t integer(const std::string& name) const;
  double number(const std::string& name) const;  // finite
  std::vector<std::int64_t> integers(const std::string& name) const;
  std::vector<double> numbers(const std::string& name) const;  // null is NaN
  [[noreturn]] void fail(const std::string& field, const std::string& problem) const;
};

// Calls `take` for every object of the input, in order, with its fields in `wanted` (all where that is empty). Memory
// is bounded by the largest document. Throws InputError when the input is not JSON, a document is not an object,
// exceeds limits::kResultBytes or limits::kDepth, or has a wanted field twice.
void read_json_records(ByteInput& input, const std::vector<std::string_view>& wanted,
                       const std::function<void(const JsonRecord&)>& take);

}  // namespace epsim
