#include "traces/expert_loads/mixed_load_source.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/domain/affinity.h"

namespace epsim {
namespace {

// What one part brings to a step, and draws for it.
struct Drawn {
  const ExpertLoadSource* loads;
  double share;                               // of 1
  std::vector<std::int64_t> tokens, decodes;  // by rank
  StepLoads rows;
};

// `whole` tokens in the parts' shares: systematic sampling, so that a part's expectation is its share even of one
// token.
void split(std::int64_t whole, double offset, std::vector<Drawn>& parts, std::vector<std::int64_t> Drawn::*to) {
  double sum = 0;
  std::int64_t given = 0;
  for (Drawn& part : parts) {
    sum += part.share;
    const bool last = &part == &parts.back();
    const auto up_to = static_cast<std::int64_t>(std::floor(static_cast<double>(whole) * sum + offset));
    const std::int64_t end = last ? whole : std::clamp(up_to, given, whole);
    (part.*to).push_back(end - given);
    given = end;
  }
}

// Of row `r` of `rows` in all; a rank without tokens has the shares themselves.
double weight_of(const Drawn& part, std::span<const std::int64_t> tokens, std::size_t r, std::size_t rows) {
  const auto sum = [&](std::span<const std::int64_t> n) {
    return rows == 1 ? std::accumulate(n.begin(), n.end(), std::int64_t{0}) : n[r];
  };
  const std::int64_t all = sum(tokens);
  return all > 0 ? static_cast<double>(sum(part.tokens)) / static_cast<double>(all) : part.share;
}

void add_rows(const Drawn& part, std::span<const std::int64_t> tokens, StepLoads& out) {
  for (int r = 0; r < out.sources; ++r) {
    const auto weight =
        static_cast<float>(weight_of(part, tokens, static_cast<std::size_t>(r), static_cast<std::size_t>(out.sources)));
    for (int l = 0; l < out.layers; ++l) {
      const std::span<const float> from = part.rows.row(l, part.rows.sources == 1 ? 0 : r);
      const std::span<float> to = out.row(l, r);
      std::transform(from.begin(), from.end(), to.begin(), to.begin(),
                     [weight](float x, float sum) { return sum + weight * x; });
    }
  }
}

}  // namespace

double share_at(const ShareCurve& curve, Ticks time) {
  const auto next =
      std::upper_bound(curve.begin(), curve.end(), time, [](Ticks t, const SharePoint& p) { return t < p.time; });
  const SharePoint& before = *(next - 1);
  if (next == curve.end() || next->share == before.share) {
    return before.share;
  }
  const double along = to_seconds(time - before.time).count() / to_seconds(next->time - before.time).count();
  return before.share + along * (next->share - before.share);
}

void MixedLoadSource::draw_mixed(const StepAt& at, std::span<const std::int64_t> tokens,
                                 std::span<const std::int64_t> decodes, StepLoads& out) const {
  std::vector<Drawn> parts;
  double sum = 0;
  for (const Part& part : parts_) {
    if (const double share = share_at(part.shares, at.start); share > 0) {
      parts.push_back({part.loads.get(), share, {}, {}, {}});
      sum += share;
    }
  }
  if (parts.size() == 1) {
    return parts.front().loads->draw_mixed(at, tokens, decodes, out);
  }
  for (Drawn& part : parts) {
    part.share /= sum;
  }
  for (std::size_t r = 0; r < tokens.size(); ++r) {
    RandomStream random(seed_, "mixture.split", static_cast<std::uint64_t>(at.number), r);
    const std::int64_t single = decodes.empty() ? 0 : decodes[r];
    split(single, random.uniform(), parts, &Drawn::decodes);
    split(tokens[r] - single, random.uniform(), parts, &Drawn::tokens);
  }
  int rows = 1;
  bool counted = true;
  for (Drawn& part : parts) {
    std::transform(part.tokens.begin(), part.tokens.end(), part.decodes.begin(), part.tokens.begin(), std::plus<>());
    part.loads->draw_mixed(at, part.tokens, part.decodes, part.rows);
    rows = std::max(rows, part.rows.sources);
    counted = counted && part.rows.counted;
  }
  out.resize(layers(), rows, experts());
  out.counted = counted;
  std::fill(out.per_token.begin(), out.per_token.end(), 0.0F);
  for (const Drawn& part : parts) {
    add_rows(part, tokens, out);
  }
}

namespace {

std::shared_ptr<const Affinity> affinity_of(const std::vector<LoadWindow>& windows,
                                            const std::vector<double>& weights) {
  const double largest = *std::max_element(weights.begin(), weights.end());
  auto out = std::make_shared<Affinity>(windows.front().layers(), windows.front().experts());
  for (std::size_t w = 0; w < windows.size(); ++w) {
    if (weights[w] == 0) {
      continue;
    }
    if (windows[w].affinity() == nullptr || windows[w].affinity()->tokens().tokens() == 0) {
      return nullptr;
    }
    const TokenSample& sample = windows[w].affinity()->tokens();
    const auto tokens = static_cast<std::size_t>(static_cast<double>(sample.tokens()) * weights[w] / largest);
    out->add_tokens(std::span(sample.experts).first(tokens * sample.ids_per_token()), sample.top_k);
  }
  return out;
}

}  // namespace

LoadWindow mean_of(const std::vector<LoadWindow>& windows, const std::vector<double>& weights) {
  LoadWindow out(windows.front().layers(), windows.front().experts());
  for (std::size_t w = 0; w < windows.size(); ++w) {
    for (int l = 0; l < out.layers(); ++l) {
      const double weight = weights[w] / windows[w].total(l);
      const std::span<const double> from = windows[w].layer(l);
      std::transform(from.begin(), from.end(), out.layer(l).begin(), out.layer(l).begin(),
                     [weight](double load, double sum) { return sum + load * weight; });
    }
  }
  out.set_affinity(affinity_of(windows, weights));
  return out;
}

}  // namespace epsim
