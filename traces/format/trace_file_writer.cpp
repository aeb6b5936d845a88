#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/core/check.h"
#include "sim/core/error.h"
#include "sim/core/refuse.h"
#include "traces/format/trace_file.h"

namespace epsim {

namespace {

constexpr std::size_t kPendingValues = std::size_t{1} << 17;  // a mebibyte of doubles

template <class T>
void append_as(Hdf5Dataset& set, const std::vector<double>& values) {
  const std::vector<T> converted(values.begin(), values.end());
  set.append<T>(converted);
}

// The smallest type that holds all values as they are.
Hdf5Type needed_type(const std::vector<double>& values) {
  double most = 0;
  for (const double x : values) {
    if (x != std::floor(x)) {
      return Hdf5Type::kF64;
    }
    most = std::max(most, x);
  }
  return most < 0x1p32 ? Hdf5Type::kU32 : Hdf5Type::kU64;
}

void write_table(Hdf5File& file, const std::string& name, const Table& table) {
  std::string order;
  for (const auto& [title, column] : table.columns) {
    const std::string path = fmt::format("/{}/{}", name, title);
    if (const auto* numbers = std::get_if<std::vector<std::int64_t>>(&column)) {
      file.create_dataset(path, Hdf5Type::kI64, {}).append<std::int64_t>(*numbers);
    } else {
      file.write_texts(path, std::get<std::vector<std::string>>(column));
    }
    order += (order.empty() ? "" : ",") + title;
  }
  file.set_text(name + "_columns", order);
}

}  // namespace

TraceFileWriter::TraceFileWriter(const std::filesystem::path& file)
    : name_(file.string()), whole_(file), file_(Hdf5File::create(whole_.path())) {}

void TraceFileWriter::begin(const TraceInfo& info, int sources) {
  EPSIM_CHECK(info_.experts == 0, "a trace begins once");
  info.validate(name_);
  info_ = info;
  sources_ = sources;
  file_.set_text("model", info.model);
  file_.set_text("source", info.source);
  file_.set_text("licence", info.licence);
  file_.set_text("recipe", info.recipe);
  const auto number = [&](const char* name, std::int64_t value) { file_.set_numbers(name, {&value, 1}); };
  number("model_layers", info.model_layers);
  number("experts", info.experts);
  number("top_k", info.top_k);
  number("shared_experts", info.shared_experts);
  const std::vector<std::int64_t> numbers(info.layer_numbers.begin(), info.layer_numbers.end());
  file_.set_numbers("layer_numbers", numbers);
}

void TraceFileWriter::loads(const LoadRow& row) {
  const std::size_t width = static_cast<std::size_t>(info_.layers()) * sources_ * info_.experts;
  EPSIM_CHECK(row.counts.size() == width && row.tokens.size() == static_cast<std::size_t>(sources_),
              "a load row has the shape that begin() stated");
  for (const double x : row.counts) {
    if (!(std::isfinite(x) && x >= 0 && x < 0x1p63)) {
      throw InputError({name_, 0, "/loads/counts"}, fmt::format("{} is no count.", x));
    }
  }
  pending_.insert(pending_.end(), row.counts.begin(), row.counts.end());
  pending_tokens_.insert(pending_tokens_.end(), row.tokens.begin(), row.tokens.end());
  if (pending_.size() >= kPendingValues) {
    flush_loads();
  }
}

void TraceFileWriter::flush_loads() {
  if (pending_.empty()) {
    return;
  }
  const Hdf5Type needed = needed_type(pending_);
  if (!counts_) {
    const auto size = [](int n) { return static_cast<std::uint64_t>(n); };
    count_type_ = needed;
    counts_ =
        file_.create_dataset("/loads/counts", needed, {size(info_.layers()), size(sources_), size(info_.experts)});
    row_tokens_ = file_.create_dataset("/loads/tokens", Hdf5Type::kI64, {size(sources_)});
  }
  // The types stand in the order of what they hold.
  refuse_if(count_type_ != Hdf5Type::kF64 && needed > count_type_, {name_, 0, "/loads/counts"},
            "a later row holds fractions, or counts of 2^32 and more, which the first rows did not.");
  switch (count_type_) {
    case Hdf5Type::kU32:
      append_as<std::uint32_t>(*counts_, pending_);
      break;
    case Hdf5Type::kU64:
      append_as<std::uint64_t>(*counts_, pending_);
      break;
    default:
      counts_->append<double>(pending_);
  }
  row_tokens_->append<std::int64_t>(pending_tokens_);
  pending_.clear();
  pending_tokens_.clear();
}

void TraceFileWriter::tokens(const TokenBlock& block) {
  if (!experts_) {
    const auto size = [](int n) { return static_cast<std::uint64_t>(n); };
    const std::vector<std::uint64_t> shape{size(info_.layers()), size(info_.top_k)};
    experts_ = file_.create_dataset("/tokens/experts", info_.experts <= 256 ? Hdf5Type::kU8 : Hdf5Type::kU16, shape);
    sequence_ = file_.create_dataset("/tokens/sequence", Hdf5Type::kI32, {});
    position_ = file_.create_dataset("/tokens/position", Hdf5Type::kI32, {});
    if (!block.weights.empty()) {
      weights_ = file_.create_dataset("/tokens/weights", Hdf5Type::kF32, shape);
    }
  }
  EPSIM_CHECK(block.experts.size() == block.tokens() * experts_->row_size() &&
                  block.position.size() == block.tokens() && block.weights.empty() == !weights_.has_value(),
              "a block of tokens has the shape of the first one");
  if (info_.experts <= 256) {
    const std::vector<std::uint8_t> narrow(block.experts.begin(), block.experts.end());
    experts_->append<std::uint8_t>(narrow);
  } else {
    experts_->append<std::uint16_t>(block.experts);
  }
  if (weights_) {
    weights_->append<float>(block.weights);
  }
  sequence_->append<std::int32_t>(block.sequence);
  position_->append<std::int32_t>(block.position);
}

void TraceFileWriter::table(const std::string& name, const Table& table) { write_table(file_, name, table); }

void TraceFileWriter::requests(const RequestTable& requests) {
  std::vector<std::int64_t> arrival, input, output;
  for (const Request& r : requests.trace.requests) {
    arrival.push_back(r.arrival.count());
    input.push_back(r.input_tokens);
    output.push_back(r.output_tokens);
  }
  const auto column = [&](const char* name, const std::vector<std::int64_t>& values) {
    file_.create_dataset(std::string("/requests/") + name, Hdf5Type::kI64, {}).append<std::int64_t>(values);
  };
  column("arrival_ps", arrival);
  column("input_tokens", input);
  column("output_tokens", output);
  if (!requests.prefix_start.empty()) {
    column("prefix_start", requests.prefix_start);
    column("prefix_blocks", requests.prefix_blocks);
    const std::int64_t block = requests.block_tokens;
    file_.set_numbers("prefix_block_tokens", {&block, 1});
    if (requests.answers) {
      constexpr std::int64_t kYes = 1;
      file_.set_numbers("prefix_answers", {&kYes, 1});
    }
  }
  file_.set_text("requests_source", requests.trace.source);
}

void TraceFileWriter::commit() {
  flush_loads();
  file_.set_text("format", "epsim-trace");
  file_.set_text("units", "counts: routed assignments (tokens x top-k)");
  file_.set_numbers("format_version", {&kTraceFormatVersion, 1});
  counts_.reset();
  row_tokens_.reset();
  experts_.reset();
  weights_.reset();
  sequence_.reset();
  position_.reset();
  file_.close();
  whole_.commit();
}

}  // namespace epsim
