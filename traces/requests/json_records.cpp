#include "traces/requests/json_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "traces/requests/json_documents.h"

namespace epsim {

namespace {

constexpr std::size_t kMaxListItems = 10'000'000;  // 240 MB; a load generator's run has thousands of requests

// nlohmann's event interface. Depths: 1 = the list of documents, 2 = a record, 3 = a wanted list or something passed
// over.
class RecordEvents : public nlohmann::json_sax<nlohmann::json> {
 public:
  RecordEvents(const ByteInput& input, const JsonDocuments& bytes, const std::vector<std::string_view>& wanted,
               const std::function<void(const JsonRecord&)>& take)
      : bytes_(bytes), wanted_(wanted), take_(take) {
    record_.place.file = input.name();
  }

  bool null() override { return value({std::numeric_limits<double>::quiet_NaN(), 0, false}); }
  bool boolean(bool) override { return other(); }
  bool number_integer(number_integer_t v) override { return value({static_cast<double>(v), v, true}); }
  bool number_unsigned(number_unsigned_t v) override {
    const bool fits = v <= static_cast<number_unsigned_t>(std::numeric_limits<std::int64_t>::max());
    return value({static_cast<double>(v), fits ? static_cast<std::int64_t>(v) : 0, fits});
  }
  bool number_float(number_float_t v, const string_t&) override { return value({v, 0, false}); }
  bool string(string_t& word) override {
    if (depth_ == 2 && field_ != nullptr) {
      field_->kind = JsonField::Kind::kWord;
      field_->word = word;
      return true;
    }
    return other();
  }
  bool binary(binary_t&) override { return other(); }
  bool start_object(std::size_t) override {
    if (depth_ == 1) {
      record_.fields.clear();
      field_ = nullptr;
    } else {
      other();
    }
    ++depth_;
    return true;
  }
  bool key(string_t& name) override {
    if (depth_ == 2) {
      open_field(name);
    }
    return true;
  }
  bool end_object() override {
    if (--depth_ == 1) {
      record_.place.line = bytes_.line();
      take_(record_);
    }
    return true;
  }
  bool start_array(std::size_t) override {
    if (depth_ == 1) {
      fail("each document must be a JSON object.");
    }
    if (depth_ == 2 && field_ != nullptr) {
      field_->kind = JsonField::Kind::kNumbers;
    } else if (depth_ > 2) {
      other();
    }
    ++depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& e) override {
    // The parser's own words end with what it met; its position counts bytes of the joined documents, so it is cut.
    const std::string words = e.what();
    const std::size_t start = words.find("syntax error");
    fail(fmt::format("this is no JSON: {}.", printable(start == std::string::npos ? words : words.substr(start))));
  }

 private:
  static std::string printable(std::string text) {
    text.resize(std::min<std::size_t>(text.size(), 160));
    std::replace_if(
        text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
    return text;
  }
  [[noreturn]] void fail(const std::string& problem) const {
    throw InputError({record_.place.file, bytes_.line(), ""}, problem);
  }
  void open_field(const std::string& name) {
    field_ = nullptr;
    if (std::find(wanted_.begin(), wanted_.end(), name) == wanted_.end()) {
      return;
    }
    if (record_.find(name) != nullptr) {
      fail(fmt::format("`{}` stands twice in one object.", name));
    }
    record_.fields.push_back({name, JsonField::Kind::kOther, {}, "", {}});
    field_ = &record_.fields.back();
  }
  bool value(const JsonNumber& number) {
    if (depth_ == 1) {
      fail("each document must be a JSON object.");
    }
    if (field_ == nullptr) {
      return true;
    }
    if (depth_ == 2) {
      field_->kind = JsonField::Kind::kNumber;
      field_->number = number;
    } else if (depth_ == 3 && field_->kind == JsonField::Kind::kNumbers) {
      if (field_->numbers.size() >= kMaxListItems) {
        fail(fmt::format("`{}` holds more than {} numbers.", field_->name, kMaxListItems));
      }
      field_->numbers.push_back(number);
    }
    return true;
  }
  // Anything that is neither a number nor a word where it counts.
  bool other() {
    if (depth_ == 1) {
      fail("each document must be a JSON object.");
    }
    if (field_ != nullptr) {
      field_->kind = JsonField::Kind::kOther;
    }
    return true;
  }

  const JsonDocuments& bytes_;
  const std::vector<std::string_view>& wanted_;
  const std::function<void(const JsonRecord&)>& take_;
  JsonRecord record_;
  JsonField* field_ = nullptr;  // the wanted field that is being read
  std::int64_t depth_ = 0;
};

}  // namespace

const JsonField* JsonRecord::find(std::string_view name) const {
  const auto at = std::find_if(fields.begin(), fields.end(), [&](const JsonField& f) { return f.name == name; });
  return at == fields.end() ? nullptr : &*at;
}

const JsonField* JsonRecord::first_of(const std::vector<std::string_view>& names) const {
  for (const std::string_view name : names) {
    if (const JsonField* field = find(name)) {
      return field;
    }
  }
  return nullptr;
}

void JsonRecord::fail(const std::string& field, const std::string& problem) const {
  throw InputError({place.file, place.line, field}, problem);
}

std::int64_t JsonRecord::integer(const JsonField& field) const {
  if (field.kind != JsonField::Kind::kNumber || !field.number.whole) {
    fail(field.name, "this must be a whole number within 64 bits.");
  }
  return field.number.integer;
}

double JsonRecord::number(const JsonField& field) const {
  if (field.kind != JsonField::Kind::kNumber || !std::isfinite(field.number.value)) {
    fail(field.name, "this must be a finite number.");
  }
  return field.number.value;
}

void JsonRecord::integers(const JsonField& field, std::vector<std::int64_t>& out) const {
  out.clear();
  if (field.kind != JsonField::Kind::kNumbers) {
    fail(field.name, "this must be a list of whole numbers.");
  }
  for (const JsonNumber& n : field.numbers) {
    if (!n.whole) {
      fail(field.name, fmt::format("item {} of the list is not a whole number within 64 bits.", out.size() + 1));
    }
    out.push_back(n.integer);
  }
}

void read_json_records(ByteInput& input, const std::vector<std::string_view>& wanted,
                       const std::function<void(const JsonRecord&)>& take) {
  JsonDocuments bytes(input);
  RecordEvents events(input, bytes, wanted, take);
  nlohmann::json::sax_parse(bytes.begin(), bytes.end(), &events);
}

}  // namespace epsim
