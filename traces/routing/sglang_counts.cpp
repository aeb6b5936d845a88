#include "traces/routing/sglang_counts.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "traces/json_stream.h"

namespace epsim {

namespace {

constexpr std::size_t kMaxReason = 200;  // the parser quotes what it read, however long
constexpr const char* kShape = "'logical_count' must be a table [layer][expert] or [step][layer][expert].";

// Takes the parser's events: finds the key "logical_count" of the outermost object and sums its rows into the window.
// Other keys are passed over, whatever they hold.
class CountsHandler {
 public:
  CountsHandler(ByteInput& input, const MoeSpec& model)
      : input_(input), model_(model), window_(model.moe_layers(), model.experts), numbers_(model.moe_layer_numbers()) {}

  bool key(std::string& name) {
    if (depth_ == 1) {
      wanted_ = name == "logical_count";
      input_check(!(wanted_ && seen_), "the key 'logical_count' stands twice.");
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
    const std::string what = e.what();
    const std::size_t colon = what.find(": ");
    input_.fail(fmt::format("this is not valid JSON, or it is cut off, at byte {}: {}.", position,
                            what.substr(colon == std::string::npos ? 0 : colon + 2, kMaxReason)));
  }

  LoadWindow finish() {
    input_check(seen_ && steps_ > 0, "there is no table of counts under the key 'logical_count'.");
    for (int l = 0; l < window_.layers(); ++l) {
      input_check(window_.total(l) > 0, fmt::format("model layer {} is a MoE layer of {}, yet all its counts are zero.",
                                                    numbers_[static_cast<std::size_t>(l)], model_.name));
    }
    return std::move(window_);
  }

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
    input_check(column_ < model_.experts,
                fmt::format("a row holds more than the {} experts of {}.", model_.experts, model_.name));
    input_check(
        std::isfinite(value) && value >= 0,
        fmt::format("layer row {}, expert {}: the count {} is not a finite number >= 0.", row_, column_, value));
    counts_.push_back(value);
    ++column_;
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
    input_check(column_ == model_.experts,
                fmt::format("layer row {} has {} experts; {} has {}.", row_, column_, model_.name, model_.experts));
    ++row_;
    column_ = 0;
    input_check(row_ <= model_.layers,
                fmt::format("there are more layer rows than the {} layers of {}.", model_.layers, model_.name));
  }
  void close_step();

  ByteInput& input_;
  const MoeSpec& model_;
  LoadWindow window_;
  std::vector<int> numbers_;
  std::vector<double> counts_;  // of the current step
  int depth_ = 0, row_depth_ = 0, row_ = 0, column_ = 0;
  std::int64_t steps_ = 0;
  bool wanted_ = false, seen_ = false;
};

// Maps the rows of a step to MoE layers.
void CountsHandler::close_step() {
  const bool all_layers = row_ == model_.layers;
  input_check(all_layers || row_ == window_.layers(),
              fmt::format("there are {} layer rows; {} has {} layers, {} of them MoE.", row_, model_.name,
                          model_.layers, window_.layers()));
  int moe = 0;
  for (int r = 0; r < row_; ++r) {
    const std::span<const double> row(counts_.data() + static_cast<std::size_t>(r) * model_.experts,
                                      static_cast<std::size_t>(model_.experts));
    const bool is_moe = !all_layers || (moe < window_.layers() && numbers_[static_cast<std::size_t>(moe)] == r);
    for (std::size_t e = 0; e < row.size(); ++e) {
      input_check(is_moe || row[e] == 0,
                  fmt::format("layer row {} has load, yet it is a dense layer of {}.", r, model_.name));
      if (is_moe) {
        window_.layer(moe)[e] += row[e];
      }
    }
    moe += is_moe ? 1 : 0;
  }
  counts_.clear();
  row_ = 0;
  ++steps_;
}

}  // namespace

LoadWindow read_sglang_counts(ByteInput& input, const MoeSpec& model) {
  CountsHandler handler(input, model);
  nlohmann::json::sax_parse(JsonBytes(input), JsonBytes(), &handler);
  return handler.finish();
}

std::string write_sglang_counts(const LoadWindow& window, const MoeSpec& model) {
  const std::vector<int> numbers = model.moe_layer_numbers();
  std::string out = "{\"logical_count\": [";
  std::size_t moe = 0;
  for (int r = 0; r < model.layers; ++r) {
    const bool is_moe = moe < numbers.size() && numbers[moe] == r;
    out += r == 0 ? "[" : ",\n[";
    for (int e = 0; e < model.experts; ++e) {
      const double count = is_moe ? window.layer(static_cast<int>(moe))[static_cast<std::size_t>(e)] : 0.0;
      fmt::format_to(std::back_inserter(out), "{}{:.0f}", e == 0 ? "" : ",", count);
    }
    out += "]";
    moe += is_moe ? 1 : 0;
  }
  return out + "]}\n";
}

LoadWindow make_sglang_counts(ConfigReader& in, const MoeSpec& model, Seed) {
  ByteInput input(in.path("path"));
  return read_sglang_counts(input, model);
}

}  // namespace epsim
