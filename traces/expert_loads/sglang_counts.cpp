#include "traces/expert_loads/sglang_counts.h"

#include <fmt/format.h>

#include "traces/expert_loads/load_sources.h"
#include "traces/format/logical_count.h"

namespace epsim {

namespace {

// Sums the rows of each step into the window, mapped to MoE layers.
class WindowOfRows {
 public:
  WindowOfRows(ByteInput& input, const MoeSpec& model)
      : input_(input), model_(model), numbers_(model.moe_layer_numbers()), window_(model.moe_layers(), model.experts) {}

  void row(int r, std::span<const double> counts) {
    require(counts.size() == static_cast<std::size_t>(model_.experts),
            fmt::format("layer row {} has {} experts; {} has {}.", r, counts.size(), model_.name, model_.experts));
    require(r < model_.layers,
            fmt::format("there are more layer rows than the {} layers of {}.", model_.layers, model_.name));
    step_.insert(step_.end(), counts.begin(), counts.end());
  }
  void step(int rows);

  LoadWindow finish() {
    for (int l = 0; l < window_.layers(); ++l) {
      require(window_.total(l) > 0, fmt::format("model layer {} is a MoE layer of {}, yet all its counts are zero.",
                                                numbers_[l], model_.name));
    }
    return std::move(window_);
  }

 private:
  void require(bool holds, const std::string& problem) const {
    if (!holds) {
      input_.fail(problem);
    }
  }

  ByteInput& input_;
  const MoeSpec& model_;
  std::vector<int> numbers_;
  LoadWindow window_;
  std::vector<double> step_;  // rows of the current step
};

void WindowOfRows::step(int rows) {
  const bool all_layers = rows == model_.layers;
  require(all_layers || rows == window_.layers(),
          fmt::format("there are {} layer rows; {} has {} layers, {} of them MoE.", rows, model_.name, model_.layers,
                      window_.layers()));
  int moe = 0;
  for (int r = 0; r < rows; ++r) {
    const std::span<const double> row(step_.data() + static_cast<std::size_t>(r) * model_.experts, model_.experts);
    const bool is_moe = !all_layers || (moe < window_.layers() && numbers_[moe] == r);
    for (std::size_t e = 0; e < row.size(); ++e) {
      require(is_moe || row[e] == 0,
              fmt::format("layer row {} has load, yet it is a dense layer of {}.", r, model_.name));
      if (is_moe) {
        window_.layer(moe)[e] += row[e];
      }
    }
    moe += is_moe ? 1 : 0;
  }
  step_.clear();
}

}  // namespace

LoadWindow read_sglang_counts(ByteInput& input, const MoeSpec& model) {
  WindowOfRows window(input, model);
  parse_logical_count(input, {[&](int r, std::span<const double> counts) { window.row(r, counts); },
                              [&](int rows) { window.step(rows); }});
  return window.finish();
}

namespace {

constexpr KeyTable kCountsKeys({{"path", key::path(), key::kRequired, "The recording."}});

LoadWindow make_sglang_counts(ConfigReader& in, const MoeSpec& model, Seed) {
  ByteInput input(in.path(kCountsKeys["path"]));
  return read_sglang_counts(input, model);
}

}  // namespace

extern const LoadReader kSglangCountsLoads{
    "sglang_counts", "SGLang's expert-load JSON (logical_count by layer and expert)", kCountsKeys, make_sglang_counts};

}  // namespace epsim
