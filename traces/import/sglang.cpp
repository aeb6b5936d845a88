#include <fmt/format.h>

#include <algorithm>

#include "traces/format/logical_count.h"
#include "traces/import/formats.h"

namespace epsim {

namespace {

// Finds out which rows are MoE layers from the first step, then passes steps on.
class Steps {
 public:
  Steps(const std::filesystem::path& file, const ImportOptions& options, ByteInput& input, TraceSink& sink)
      : file_(file), options_(options), input_(input), sink_(sink) {}

  void row(int r, std::span<const double> counts) {
    if (r == 0 && !begun_) {
      experts_ = counts.size();
    }
    require(counts.size() == experts_,
            fmt::format("layer row {} has {} experts, the first row {}.", r, counts.size(), experts_));
    require(!begun_ || r < rows_, "a step has more layer rows than the first one.");
    const bool empty = std::all_of(counts.begin(), counts.end(), [](double x) { return x == 0; });
    if (!begun_ && !empty) {
      moe_.push_back(r);
    }
    const bool is_moe = std::binary_search(moe_.begin(), moe_.end(), r);
    require(is_moe || empty, fmt::format("layer row {} has load here, but none in the first step.", r));
    if (is_moe) {
      step_.insert(step_.end(), counts.begin(), counts.end());
    }
  }
  void step(int rows) {
    if (!begun_) {
      begin(rows);
    }
    require(rows == rows_, fmt::format("a step has {} layer rows, the first one {}.", rows, rows_));
    const std::int64_t tokens = tokens_of(std::span(step_).first(experts_), top_k_);
    sink_.loads({step_, {&tokens, 1}});
    step_.clear();
  }

 private:
  void require(bool holds, const std::string& problem) const {
    if (!holds) {
      input_.fail(problem);
    }
  }
  void begin(int rows) {
    require(!moe_.empty(), "all counts of the first step are zero.");
    ImportOptions options = options_;
    options.model_layers = std::max(options.model_layers, options.layer_numbers.empty() ? rows : 0);
    const TraceInfo info = imported_info(file_, "sglang", options, moe_, static_cast<int>(experts_), 0);
    require(info.experts == static_cast<int>(experts_),
            fmt::format("its rows have {} experts, not {}.", experts_, info.experts));
    top_k_ = info.top_k;
    rows_ = rows;
    begun_ = true;
    sink_.begin(info, 1);
  }

  const std::filesystem::path& file_;
  const ImportOptions& options_;
  ByteInput& input_;
  TraceSink& sink_;
  std::vector<int> moe_;
  std::vector<double> step_;
  std::size_t experts_ = 0;
  int rows_ = 0, top_k_ = 1;
  bool begun_ = false;
};

}  // namespace

bool recognises_sglang(const std::filesystem::path&, std::string_view head) {
  return head.find('{') < head.find_first_not_of(" \t\r\n{") &&
         head.find("\"logical_count\"") != std::string_view::npos;
}

void import_sglang(const std::filesystem::path& file, const ImportOptions& options, TraceSink& sink) {
  ByteInput input(file);
  Steps steps(file, options, input, sink);
  parse_logical_count(input, {[&](int r, std::span<const double> counts) { steps.row(r, counts); },
                              [&](int rows) { steps.step(rows); }});
}

}  // namespace epsim
