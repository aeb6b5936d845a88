#include "traces/import/recorder_passes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace epsim {

using Kind = TorchPickle::Kind;
using Ref = TorchPickle::Ref;

namespace {

// per_pass: global_physical_count, [layer][physical expert], of this rank's tokens.
class PassCounts {
 public:
  explicit PassCounts(const RecorderPasses& passes) : passes_(passes) {}

  void run(const std::filesystem::path& path, ImportOptions options, TraceSink& sink) {
    std::vector<bool> has(static_cast<std::size_t>(passes_.layers()), false);
    for (const Ref record : passes_.records()) {
      read(record);
      for (std::size_t i = 0; i < row_.size(); ++i) {
        const std::size_t layer = i / static_cast<std::size_t>(passes_.physical());
        has[layer] = has[layer] || row_[i] > 0;
      }
    }
    const std::vector<int> layers = layers_that(has, passes_.file());
    if (options.layer_numbers.empty() && options.model_layers == 0) {
      options.model_layers = static_cast<int>(passes_.layers());
    }
    const TraceInfo info = imported_info(path, "sglang_recorder", options, layers, passes_.experts(), 0);
    sink.begin(info, 1);
    std::vector<std::int64_t> ids, ranks;
    for (const Ref record : passes_.records()) {
      emit(record, info, layers, sink);
      ids.push_back(passes_.number(record, "forward_pass_id"));
      ranks.push_back(passes_.number(record, "rank"));
    }
    Table table;
    table.columns = {{"forward_pass_id", ids}, {"rank", ranks}};
    sink.table("load_rows", table);
  }

 private:
  void read(Ref record) {
    const TorchTensor& counts = passes_.tensor(record, "global_physical_count", 2);
    if (counts.shape[0] != passes_.layers() || counts.shape[1] != passes_.physical()) {
      passes_.file().fail("global_physical_count and last_physical_to_logical_map differ in shape.");
    }
    passes_.read(counts, row_);
    for (const double x : row_) {
      if (!std::isfinite(x) || x < 0) {
        passes_.file().fail(fmt::format("global_physical_count: {} is no count.", x));
      }
    }
  }
  void emit(Ref record, const TraceInfo& info, const std::vector<int>& layers, TraceSink& sink) {
    read(record);
    std::vector<double> out(layers.size() * static_cast<std::size_t>(info.experts), 0.0);
    for (std::size_t l = 0; l < layers.size(); ++l) {
      for (std::int64_t p = 0; p < passes_.physical(); ++p) {
        const auto from = static_cast<std::size_t>(layers[l] * passes_.physical() + p);
        out[l * static_cast<std::size_t>(info.experts) + static_cast<std::size_t>(passes_.logical(layers[l], p))] +=
            row_[from];
      }
    }
    const std::int64_t tokens =
        std::llround(std::accumulate(out.begin(), out.begin() + info.experts, 0.0) / info.top_k);
    sink.loads({out, {&tokens, 1}});
  }

  const RecorderPasses& passes_;
  std::vector<double> row_;
};

}  // namespace

RecorderPasses::RecorderPasses(TorchFile& file) : file_(file), pickle_(file.pickle()) {
  const Ref records = *pickle_.find(pickle_.root(), "records");
  if (pickle_.kind(records) != Kind::kList || pickle_.items(records).empty()) {
    file_.fail("its records are no list, or empty: nothing was recorded.");
  }
  records_ = pickle_.items(records);
  const TorchTensor& map = tensor(pickle_.root(), "last_physical_to_logical_map", 2);
  layers_ = map.shape[0];
  physical_ = map.shape[1];
  if (layers_ < 1 || layers_ > 4096 || physical_ < 1 || physical_ > 65536) {
    file_.fail(
        fmt::format("last_physical_to_logical_map has {} layers of {} physical experts; 1 to 4096 of 1 to "
                    "65536 are read.",
                    layers_, physical_));
  }
  read(map, logical_);
  for (const double e : logical_) {
    if (!(e >= 0 && e < static_cast<double>(physical_))) {
      file_.fail(fmt::format("last_physical_to_logical_map: {} is no expert.", e));
    }
  }
  experts_ = static_cast<int>(*std::max_element(logical_.begin(), logical_.end())) + 1;
}

const TorchTensor& RecorderPasses::tensor(Ref dictionary, const char* key, std::size_t dims) const {
  const Ref* found = pickle_.find(dictionary, key);
  if (found == nullptr || pickle_.kind(*found) != Kind::kTensor || pickle_.tensor(*found).shape.size() != dims) {
    file_.fail(fmt::format("there is no tensor {} of {} dimensions where one is needed.", key, dims));
  }
  return pickle_.tensor(*found);
}

void RecorderPasses::read(const TorchTensor& t, std::vector<double>& out) const {
  file_.read(t,
             {.first = t.offset,
              .rows = t.shape[0],
              .row_stride = t.stride[0],
              .columns = t.shape[1],
              .column_stride = t.stride[1]},
             out);
}

std::int64_t RecorderPasses::number(Ref record, const char* key) const {
  const Ref* found = pickle_.find(record, key);
  if (found == nullptr || pickle_.kind(*found) != Kind::kInt) {
    file_.fail(fmt::format("a record has no whole number {}.", key));
  }
  return pickle_.integer(*found);
}

std::vector<std::int64_t> RecorderPasses::numbers(Ref record, const char* key) const {
  const Ref* found = pickle_.find(record, key);
  std::vector<std::int64_t> out;
  if (found == nullptr || pickle_.kind(*found) == Kind::kNone) {
    return out;
  }
  if (pickle_.kind(*found) != Kind::kList) {
    file_.fail(fmt::format("{} of a record is no list.", key));
  }
  for (const Ref item : pickle_.items(*found)) {
    if (pickle_.kind(item) != Kind::kInt || pickle_.integer(item) < 0 || pickle_.integer(item) > INT32_MAX) {
      file_.fail(fmt::format("{} of a record has something else than whole numbers from 0 to 2^31 - 1.", key));
    }
    out.push_back(pickle_.integer(item));
  }
  return out;
}

std::vector<int> layers_that(const std::vector<bool>& has, const TorchFile& file) {
  std::vector<int> out;
  for (std::size_t l = 0; l < has.size(); ++l) {
    if (has[l]) {
      out.push_back(static_cast<int>(l));
    }
  }
  if (out.empty()) {
    file.fail("all counts are zero: nothing was recorded.");
  }
  return out;
}

void import_pass_counts(const std::filesystem::path& file, const RecorderPasses& passes, ImportOptions options,
                        TraceSink& sink) {
  PassCounts(passes).run(file, std::move(options), sink);
}

}  // namespace epsim
