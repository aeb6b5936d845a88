#include "traces/format/logical_count.h"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>

#include "traces/format/text_input.h"

namespace epsim {

namespace {

// Input iterator over the bytes. Refuses a value that goes on for more than kMaxToken bytes, so that a file of nothing
// but digits, blanks or letters cannot fill the memory.
class JsonBytes {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;
  static constexpr std::int64_t kMaxToken = 1 << 16;

  JsonBytes() = default;  // the end
  explicit JsonBytes(ByteInput& input) : input_(&input) { ++*this; }

  char operator*() const { return current_; }
  JsonBytes& operator++() {
    const int c = input_->next();
    if (c == ByteInput::kEnd) {
      input_ = nullptr;
      return *this;
    }
    current_ = static_cast<char>(c);
    run_ = separates(current_) ? 0 : run_ + 1;
    if (run_ > kMaxToken) {
      input_->fail("a single value takes more than 65536 bytes; this is not a file of the expected kind.");
    }
    return *this;
  }
  void operator++(int) { ++*this; }
  friend bool operator==(const JsonBytes& a, const JsonBytes& b) { return a.input_ == b.input_; }

 private:
  static bool separates(char c) { return c == ',' || c == '[' || c == ']' || c == '{' || c == '}' || c == ':'; }
  ByteInput* input_ = nullptr;
  char current_ = 0;
  std::int64_t run_ = 0;
};

constexpr std::size_t kMaxReason = 200;  // the parser quotes what it read, however long
constexpr std::size_t kMaxColumns = 65536;
constexpr int kMaxRows = 4096;
constexpr const char* kShape = "'logical_count' must be a table [layer][expert] or [step][layer][expert].";

// Takes the parser's events: finds the key "logical_count" of the outermost object and passes its rows on.
class CountsHandler {
 public:
  CountsHandler(ByteInput& input, const LogicalCountEvents& events) : input_(input), events_(events) {}

  bool key(std::string& name) {
    if (depth_ == 1) {
      wanted_ = name == "logical_count";
      input_check(!(wanted_ && seen_), "the key 'logical_count' occurs twice.");
      seen_ = seen_ || wanted_;
    }
    return true;
  }
  bool start_object(std::size_t) { return open(false); }
  bool end_object() {
    --depth_;
    return true;
  }
  bool start_array(std::size_t) { return open(true); }
  bool end_array() {
    if (wanted_) {
      close_array();
    }
    --depth_;
    return true;
  }
  bool number_integer(std::int64_t value) { return number(static_cast<double>(value)); }
  bool number_unsigned(std::uint64_t value) { return number(static_cast<double>(value)); }
  bool number_float(double value, const std::string&) { return number(value); }
  bool null() { return other(); }
  bool boolean(bool) { return other(); }
  bool string(std::string&) { return other(); }
  bool binary(std::vector<std::uint8_t>&) { return other(); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception& e) {
    constexpr int kNumberOverflow = 406;
    const std::string what = e.what();
    const std::size_t colon = what.find(": ");
    input_.fail(e.id == kNumberOverflow
                    ? fmt::format("the number at byte {} is beyond what 64 bits hold: at most 1.8e308.", position)
                    : fmt::format("this is not valid JSON, or it is cut off, at byte {}: {}.", position,
                                  what.substr(colon == std::string::npos ? 0 : colon + 2, kMaxReason)));
  }

  void finish() const { input_check(steps_ > 0, "there is no table of counts under the key 'logical_count'."); }

 private:
  void input_check(bool holds, const std::string& problem) const {
    if (!holds) {
      input_.fail(problem);
    }
  }
  // Nested deeper than any table of counts: refused, so that brackets without end cost no memory.
  bool open(bool array) {
    ++depth_;
    input_check(depth_ <= 64, "the JSON is nested deeper than 64 levels.");
    input_check(depth_ > 1 || !array, "the outermost value must be an object with the key 'logical_count'.");
    input_check(!wanted_ || (array && depth_ <= (row_depth_ == 0 ? 4 : row_depth_)), kShape);
    return true;
  }
  bool other() {
    input_check(!wanted_, "'logical_count' holds something that is not a number.");
    return true;
  }
  bool number(double value) {
    if (!wanted_) {
      return true;
    }
    if (row_depth_ == 0) {
      row_depth_ = depth_;  // the object, then one level per dimension
    }
    input_check(depth_ == row_depth_ && depth_ >= 3, kShape);
    input_check(counts_.size() < kMaxColumns, "a row holds more than 65536 values.");
    input_check(std::isfinite(value) && value >= 0, fmt::format("layer row {}, expert {}: the count {} is not a finite "
                                                                "number >= 0.",
                                                                row_, counts_.size(), value));
    counts_.push_back(value);
    return true;
  }
  void close_array() {
    input_check(row_depth_ != 0 || depth_ < 3, "'logical_count' holds an empty row.");
    if (depth_ == row_depth_) {
      close_row();
    } else if (depth_ == row_depth_ - 1) {
      close_step();
    }
    wanted_ = depth_ > 2;  // at 2 the whole table ends
  }
  void close_row() {
    input_check(!counts_.empty(), "'logical_count' holds an empty row.");
    input_check(row_ < kMaxRows, "a step has more than 4096 layer rows.");
    events_.row(row_++, counts_);
    counts_.clear();
  }
  void close_step() {
    input_check(row_ > 0, "'logical_count' holds a step without rows.");
    events_.step(row_);
    row_ = 0;
    ++steps_;
  }

  ByteInput& input_;
  const LogicalCountEvents& events_;
  std::vector<double> counts_;  // of the current row
  int depth_ = 0, row_depth_ = 0, row_ = 0;
  std::int64_t steps_ = 0;
  bool wanted_ = false, seen_ = false;
};

}  // namespace

void parse_logical_count(ByteInput& input, const LogicalCountEvents& events) {
  CountsHandler handler(input, events);
  nlohmann::json::sax_parse(JsonBytes(input), JsonBytes(), &handler);
  handler.finish();
}

}  // namespace epsim
