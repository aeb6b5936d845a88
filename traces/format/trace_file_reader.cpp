#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/core/check.h"
#include "sim/core/refuse.h"
#include "traces/format/trace_file.h"

namespace epsim {

namespace {

constexpr std::uint64_t kMaxColumn = std::uint64_t{1} << 27;  // rows of a column that is read whole

int number(const Hdf5File& file, const std::string& name) {
  const std::vector<std::int64_t> values = file.numbers(name);
  refuse_if(values.size() != 1 || values[0] < 0 || values[0] > std::numeric_limits<int>::max(), {file.name(), 0, name},
            "this attribute must be one whole number from 0 to 2147483647.");
  return static_cast<int>(values[0]);
}

void check_format(const Hdf5File& file) {
  refuse_if(file.text("format") != "epsim-trace", {file.name(), 0, "format"},
            "this HDF5 file is no trace: the attribute is not 'epsim-trace'.");
  const int version = number(file, "format_version");
  refuse_if(version < 1 || version > kTraceFormatVersion, {file.name(), 0, "format_version"},
            fmt::format("the file has format {}; this program reads formats up to {}. Use a newer program.", version,
                        kTraceFormatVersion));
}

constexpr std::uint64_t kPieceBytes = std::uint64_t{1} << 18;

// "begin" was never called for a file of requests alone.
bool has_routing(const Hdf5File& file) { return file.has("/loads") || file.has("/tokens"); }

Hdf5Dataset column_of(const Hdf5File& file, const std::string& name) {
  Hdf5Dataset set = file.dataset(name, 1);
  if (set.rows() > kMaxColumn) {
    set.fail("the column is longer than 2^27 rows.");
  }
  return set;
}

std::vector<std::int64_t> column(const Hdf5File& file, const std::string& name) {
  const Hdf5Dataset set = column_of(file, name);
  std::vector<std::int64_t> out(set.rows());
  set.read<std::int64_t>(0, set.rows(), out);
  return out;
}

// Reads as the stored type, some rows at a time so that the raw values stay in cache, and converts.
template <class From, class To>
void read_as(const Hdf5Dataset& set, std::uint64_t first, std::uint64_t count, std::span<To> out) {
  const std::uint64_t width = set.row_size();
  const std::uint64_t at_once = std::max<std::uint64_t>(1, std::min(count, kPieceBytes / (width * sizeof(From))));
  std::vector<From> raw(at_once * width);
  for (std::uint64_t done = 0; done < count; done += at_once) {
    const std::uint64_t rows = std::min(at_once, count - done);
    set.read<From>(first + done, rows, std::span(raw).first(rows * width));
    std::transform(raw.begin(), raw.begin() + rows * width, out.begin() + done * width,
                   [](From x) { return static_cast<To>(x); });
  }
}

void check_choice(const Hdf5Dataset& set, std::span<const std::uint16_t> ids, int experts, std::int64_t token) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= experts) {
      set.fail(fmt::format("token {}: expert {} of a model with {} experts.", token, ids[i], experts));
    }
    if (std::find(ids.begin(), ids.begin() + i, ids[i]) != ids.begin() + i) {
      set.fail(fmt::format("token {}: expert {} occurs twice in one layer's choice.", token, ids[i]));
    }
  }
}

}  // namespace

TraceFile::TraceFile(const std::filesystem::path& file) : file_(Hdf5File::open(file)) {
  check_format(file_);
  if (!has_routing(file_)) {
    return;
  }
  info_.model = file_.text("model");
  info_.source = file_.text("source");
  info_.licence = file_.text("licence");
  info_.recipe = file_.text("recipe");
  info_.model_layers = number(file_, "model_layers");
  info_.experts = number(file_, "experts");
  info_.top_k = number(file_, "top_k");
  info_.shared_experts = number(file_, "shared_experts");
  for (const std::int64_t n : file_.numbers("layer_numbers")) {
    info_.layer_numbers.push_back(static_cast<int>(std::clamp<std::int64_t>(n, -1, 1 << 20)));
  }
  info_.validate(file_.name());
  open_loads();
  open_tokens();
}

void TraceFile::open_loads() {
  if (!file_.has("/loads/counts")) {
    return;
  }
  counts_ = file_.dataset("/loads/counts", 4);
  row_tokens_ = file_.dataset("/loads/tokens", 2);
  const std::vector<std::uint64_t>& shape = counts_->shape();
  if (shape[1] != static_cast<std::uint64_t>(info_.layers()) || shape[3] != static_cast<std::uint64_t>(info_.experts) ||
      shape[2] < 1) {
    counts_->fail(fmt::format("the shape [{}][{}][{}][{}] is not [row][{} layers][source][{} experts].", shape[0],
                              shape[1], shape[2], shape[3], info_.layers(), info_.experts));
  }
  if (row_tokens_->shape() != std::vector<std::uint64_t>{shape[0], shape[2]}) {
    row_tokens_->fail("the shape is not [row][source] of /loads/counts.");
  }
  sources_ = static_cast<int>(shape[2]);
}

void TraceFile::open_tokens() {
  if (!file_.has("/tokens/experts")) {
    return;
  }
  experts_ = file_.dataset("/tokens/experts", 3);
  sequence_ = file_.dataset("/tokens/sequence", 1);
  position_ = file_.dataset("/tokens/position", 1);
  const std::vector<std::uint64_t>& shape = experts_->shape();
  if (shape[1] != static_cast<std::uint64_t>(info_.layers()) || shape[2] != static_cast<std::uint64_t>(info_.top_k)) {
    experts_->fail(fmt::format("the shape [{}][{}][{}] is not [token][{} layers][top-{}].", shape[0], shape[1],
                               shape[2], info_.layers(), info_.top_k));
  }
  if (sequence_->rows() != shape[0] || position_->rows() != shape[0]) {
    sequence_->fail("/tokens/sequence and /tokens/position need one value per token.");
  }
  if (file_.has("/tokens/weights")) {
    weights_ = file_.dataset("/tokens/weights", 3);
    if (weights_->shape() != shape) {
      weights_->fail("the shape is not that of /tokens/experts.");
    }
  }
}

std::size_t TraceFile::load_row_size() const { return counts_ ? static_cast<std::size_t>(counts_->row_size()) : 0; }

template <class T>
void TraceFile::read_loads(std::int64_t first, std::int64_t count, std::span<T> counts,
                           std::span<std::int64_t> tokens) const {
  EPSIM_CHECK(counts_.has_value(), "the file has load rows");
  const auto from = static_cast<std::uint64_t>(first), n = static_cast<std::uint64_t>(count);
  row_tokens_->read<std::int64_t>(from, n, tokens);
  if (std::any_of(tokens.begin(), tokens.end(), [](std::int64_t t) { return t < 0; })) {
    row_tokens_->fail(fmt::format("a negative number of tokens among rows {} to {}.", first, first + count));
  }
  if (counts_->type() == Hdf5Type::kU32) {
    read_as<std::uint32_t>(*counts_, from, n, counts);
    return;
  }
  if (counts_->type() == Hdf5Type::kU64) {
    read_as<std::uint64_t>(*counts_, from, n, counts);
    return;
  }
  read_as<double>(*counts_, from, n, counts);
  if (!std::all_of(counts.begin(), counts.end(), [](T x) { return std::isfinite(x) && x >= 0; })) {
    counts_->fail(fmt::format("a count that is negative or not finite among rows {} to {}.", first, first + count));
  }
}
template void TraceFile::read_loads(std::int64_t, std::int64_t, std::span<float>, std::span<std::int64_t>) const;
template void TraceFile::read_loads(std::int64_t, std::int64_t, std::span<double>, std::span<std::int64_t>) const;

void TraceFile::read_tokens(std::int64_t first, std::int64_t count, Tokens& out) const {
  EPSIM_CHECK(experts_.has_value(), "the file has tokens");
  const auto from = static_cast<std::uint64_t>(first), n = static_cast<std::uint64_t>(count);
  const std::size_t row = static_cast<std::size_t>(experts_->row_size());
  out.experts.resize(n * row);
  out.sequence.resize(n);
  out.position.resize(n);
  out.weights.resize(weights_ ? n * row : 0);
  if (experts_->type() == Hdf5Type::kU8) {
    read_as<std::uint8_t, std::uint16_t>(*experts_, from, n, out.experts);
  } else {
    experts_->read<std::uint16_t>(from, n, out.experts);
  }
  sequence_->read<std::int32_t>(from, n, out.sequence);
  position_->read<std::int32_t>(from, n, out.position);
  if (weights_) {
    weights_->read<float>(from, n, out.weights);
  }
  const auto k = static_cast<std::size_t>(info_.top_k);
  for (std::size_t at = 0; at < out.experts.size(); at += k) {
    check_choice(*experts_, {out.experts.data() + at, k}, info_.experts, first + static_cast<std::int64_t>(at / row));
  }
}

std::vector<std::string> TraceFile::tables() const {
  std::vector<std::string> out;
  for (const std::string& name : file_.members("/")) {
    if (name != "loads" && name != "tokens" && name != "requests") {
      out.push_back(name);
    }
  }
  return out;
}

Table TraceFile::table(const std::string& name) const {
  std::vector<std::string> titles;
  const std::string order = file_.text(name + "_columns");
  for (std::size_t at = 0; !order.empty() && at <= order.size();) {
    const std::size_t end = std::min(order.find(',', at), order.size());
    titles.push_back(order.substr(at, end - at));
    at = end + 1;
  }
  if (titles.empty()) {  // a file from elsewhere need not state an order
    titles = file_.members("/" + name);
  }
  Table out;
  for (const std::string& title : titles) {
    const std::string path = "/" + name + "/" + title;
    refuse_if(!file_.has(path), {file_.name(), 0, path}, "the file has no such dataset.");
    if (file_.holds_text(path)) {
      out.columns.emplace_back(title, file_.read_texts(path));
    } else {
      out.columns.emplace_back(title, column(file_, path));
    }
  }
  return out;
}

bool TraceFile::has_requests() const { return file_.has("/requests/arrival_ps"); }

RequestTable TraceFile::requests() const {
  const Hdf5Dataset arrival = column_of(file_, "/requests/arrival_ps");
  const Hdf5Dataset input = column_of(file_, "/requests/input_tokens");
  const Hdf5Dataset output = column_of(file_, "/requests/output_tokens");
  RequestTable out;
  out.trace.source = file_.name();
  const std::uint64_t count = arrival.rows();
  refuse_if(input.rows() != count || output.rows() != count, {file_.name(), 0, "/requests"},
            "its columns differ in length.");
  const auto tokens = [](std::int64_t n) {
    return static_cast<std::int32_t>(std::clamp<std::int64_t>(n, 0, std::numeric_limits<std::int32_t>::max()));
  };
  constexpr std::uint64_t kAtOnce = 65536;
  std::vector<std::int64_t> at(kAtOnce), in(kAtOnce), of(kAtOnce);
  bool fine = true;  // validate() says which request is not: none is read after it
  for (std::uint64_t first = 0; first < count && fine; first += kAtOnce) {
    const std::uint64_t n = std::min(kAtOnce, count - first);
    arrival.read<std::int64_t>(first, n, std::span(at).first(n));
    input.read<std::int64_t>(first, n, std::span(in).first(n));
    output.read<std::int64_t>(first, n, std::span(of).first(n));
    for (std::size_t i = 0; i < n; ++i) {
      out.trace.requests.push_back({Ticks{at[i]}, tokens(in[i]), tokens(of[i])});
      fine = fine && at[i] >= 0 && in[i] > 0 && of[i] > 0;
    }
  }
  out.trace.validate();
  if (file_.has("/requests/prefix_start")) {
    out.prefix_start = column(file_, "/requests/prefix_start");
    out.prefix_blocks = column(file_, "/requests/prefix_blocks");
    out.block_tokens = number(file_, "prefix_block_tokens");
    out.answers = !file_.numbers("prefix_answers").empty() && number(file_, "prefix_answers") != 0;
    refuse_if(out.prefix_start.size() != count + 1 || out.prefix_start.front() != 0 ||
                  out.prefix_start.back() != static_cast<std::int64_t>(out.prefix_blocks.size()) ||
                  !std::is_sorted(out.prefix_start.begin(), out.prefix_start.end()),
              {file_.name(), 0, "/requests/prefix_start"}, "these are no offsets into prefix_blocks.");
  }
  return out;
}

void TraceFile::copy_to(TraceSink& sink) const {
  sink.begin(info_, std::max(1, sources_));
  std::vector<double> counts(load_row_size());
  std::vector<std::int64_t> row_tokens(sources_);
  for (std::int64_t r = 0; r < load_rows(); ++r) {
    read_loads<double>(r, 1, counts, row_tokens);
    sink.loads({counts, row_tokens});
  }
  constexpr std::int64_t kTokensAtOnce = 4096;
  Tokens block;
  for (std::int64_t t = 0; t < token_count(); t += kTokensAtOnce) {
    read_tokens(t, std::min(kTokensAtOnce, token_count() - t), block);
    sink.tokens(block.block());
  }
  for (const std::string& name : tables()) {
    sink.table(name, table(name));
  }
}

}  // namespace epsim
