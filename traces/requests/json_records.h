// Flat records from JSON lines or from one JSON document: numbers, words and lists of numbers by name.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/error.h"
#include "traces/format/text_input.h"

namespace epsim {

// A JSON number or, as a NaN, null.
struct JsonNumber {
  double value = 0.0;
  std::int64_t integer = 0;
  bool whole = false;  // `integer` is the number: it was written without a fraction and fits
};

struct JsonField {
  enum class Kind { kNumber, kWord, kNumbers, kOther };
  std::string name;
  Kind kind = Kind::kOther;
  JsonNumber number;
  std::string word;
  std::vector<JsonNumber> numbers;
};

// The wanted fields of one object. The first_of functions look for the first of `names` that the record has.
class JsonRecord {
 public:
  InputPlace place;  // the file and the line where the object ends
  std::vector<JsonField> fields;

  const JsonField* find(std::string_view name) const;
  const JsonField* first_of(const std::vector<std::string_view>& names) const;
  // A whole number; throws InputError naming the field when it is something else.
  std::int64_t integer(const JsonField& field) const;
  // A finite number.
  double number(const JsonField& field) const;
  // A list of whole numbers, put into `out` (cleared first).
  void integers(const JsonField& field, std::vector<std::int64_t>& out) const;
  [[noreturn]] void fail(const std::string& field, const std::string& problem) const;
};

// Calls `take` for every object of the input, in order. Of its fields only those in `wanted` are kept; all others, and
// whatever is nested in them, are passed over. The record is overwritten by the next one. Throws InputError when the
// input is no JSON, or a document is no object, or a wanted field stands twice in one.
void read_json_records(ByteInput& input, const std::vector<std::string_view>& wanted,
                       const std::function<void(const JsonRecord&)>& take);

}  // namespace epsim
