#include "models/network/recorded_rows.h"

#include <algorithm>

namespace epsim {
namespace {

constexpr double kNotCounted = -1;

}  // namespace

void RecordedRows::add_layer(CopySets sets) {
  first_.push_back(first_.back() + sets.size());
  sets_.push_back(std::move(sets));
}

// Where the row's figures are kept; empty where they are not.
std::span<double> RecordedRows::kept(int l, const RecordedTokens& tokens) {
  auto source = std::ranges::find(sources_, tokens.source, &Source::id);
  if (source == sources_.end()) {
    source = sources_.insert(source, Source{tokens.source, {}});
  }
  const auto row = static_cast<std::size_t>(tokens.row);
  if (source->rows.size() <= row) {
    source->rows.resize(row + 1);
  }
  std::vector<double>& figures = source->rows[row];
  if (figures.empty() && kept_ + first_.back() <= kMostKept) {
    kept_ += first_.back();
    figures.assign(first_.back(), kNotCounted);
  }
  return figures.empty() ? std::span<double>() : std::span(figures).subspan(first_[l], first_[l + 1] - first_[l]);
}

std::span<const double> RecordedRows::hits(int l, const StepLoads& loads) {
  std::span<double> out = kept(l, loads.recorded);
  if (!out.empty() && out.front() != kNotCounted) {
    return out;
  }
  if (out.empty()) {
    scratch_.resize(sets_[l].size());
    out = scratch_;
  }
  count_.count(sets_[l], loads.recorded.experts, loads.layers, loads.recorded.top_k, l, out);
  return out;
}

}  // namespace epsim
