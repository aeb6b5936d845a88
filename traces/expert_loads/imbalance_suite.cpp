#include "traces/expert_loads/imbalance_suite.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "sim/core/check.h"
#include "traces/expert_loads/load_sources.h"

namespace epsim {

namespace {

// `hot` experts with `factor` times the mean, the others equal; all sum to top-k.
void set_hot(std::span<float> row, std::span<const int> hot, double factor, int top_k) {
  const auto experts = static_cast<double>(row.size());
  const auto count = static_cast<double>(hot.size());
  const double others = count < experts ? (experts - count * factor) / (experts - count) : 0.0;
  std::fill(row.begin(), row.end(), static_cast<float>(others * top_k / experts));
  for (const int e : hot) {
    row[e] = static_cast<float>(factor * top_k / experts);
  }
}

std::vector<int> block(int number, int blocks, int experts) {
  std::vector<int> ids;
  for (int e = number * experts / blocks; e < (number + 1) * experts / blocks; ++e) {
    ids.push_back(e);
  }
  return ids;
}

bool uses_gpus(Imbalance kind) {
  return kind == Imbalance::kHotRank || kind == Imbalance::kSpreadHot || kind == Imbalance::kRotatingHotspot;
}

}  // namespace

void ImbalanceSpec::validate(const MoeSpec& model, const ConfigReader& in) const {
  const int experts = model.experts;
  in.check(!uses_gpus(kind) || (gpus >= 2 && gpus <= experts && experts % gpus == 0), "gpus",
           fmt::format("{} experts do not spread evenly over {} GPUs.", experts, gpus));
  in.check(hot >= 1 && hot < experts, "hot", fmt::format("allowed are 1 to {} hot experts.", experts - 1));
  const int affected = kind == Imbalance::kSpreadHot ? gpus : uses_gpus(kind) ? experts / gpus : hot;
  const bool hot_kind =
      kind != Imbalance::kBalanced && kind != Imbalance::kZeroLoad && kind != Imbalance::kSourceRagged;
  const double most = std::min(static_cast<double>(experts) / model.top_k, static_cast<double>(experts) / affected);
  in.check(
      factor >= 1 && (!hot_kind || factor <= most), "factor",
      fmt::format("allowed are 1 to {:g}: a token takes an expert at most once, and the load is all there is.", most));
  in.check(idle >= 0 && experts - static_cast<int>(idle * experts) >= model.top_k, "idle",
           fmt::format("at least top-k ({}) of the {} experts must take load.", model.top_k, experts));
  in.check(length <= period, "length", "a burst is no longer than its period.");
}

ImbalanceSource::ImbalanceSource(const ImbalanceSpec& spec, int layers, int experts, int top_k, Seed seed)
    : spec_(spec), layers_(layers), experts_(experts), top_k_(top_k) {
  for (int l = 0; l < layers; ++l) {
    RandomStream random(seed, "imbalance.hot", static_cast<std::uint64_t>(l));
    std::vector<int> order(experts);
    std::iota(order.begin(), order.end(), 0);
    random.shuffle(order);
    order_.push_back(std::move(order));
    hot_gpu_.push_back(static_cast<int>(random.below(static_cast<std::uint64_t>(spec.gpus))));
  }
}

std::int64_t ImbalanceSource::cycle() const {
  return spec_.kind == Imbalance::kBurst             ? spec_.period
         : spec_.kind == Imbalance::kRotatingHotspot ? spec_.period * spec_.gpus
                                                     : 1;
}

void ImbalanceSource::fill(int layer, std::int64_t step, std::size_t source, std::size_t sources,
                           std::span<float> row) const {
  const std::span<const int> order = order_[layer];
  const std::span<const int> hot = order.first(spec_.hot);
  const int gpu = hot_gpu_[layer];
  switch (spec_.kind) {
    case Imbalance::kBalanced:
      return set_hot(row, {}, 1, top_k_);
    case Imbalance::kHotExperts:
      return set_hot(row, hot, spec_.factor, top_k_);
    case Imbalance::kHotRank:
      return set_hot(row, block(gpu, spec_.gpus, experts_), spec_.factor, top_k_);
    case Imbalance::kRotatingHotspot: {
      const auto moved = static_cast<int>((gpu + step / spec_.period) % spec_.gpus);
      return set_hot(row, block(moved, spec_.gpus, experts_), spec_.factor, top_k_);
    }
    case Imbalance::kSpreadHot: {
      std::vector<int> ids;  // one place, the same on every GPU
      const int each = experts_ / spec_.gpus;
      for (int g = 0; g < spec_.gpus; ++g) {
        ids.push_back(g * each + order[0] % each);
      }
      return set_hot(row, ids, spec_.factor, top_k_);
    }
    case Imbalance::kSourceRagged: {
      // One source has nobody to differ from; it is balanced. The preference stops where its experts would be taken by
      // every token, or take everything.
      const int blocks = static_cast<int>(std::min(sources, row.size()));
      const std::vector<int> own = block(static_cast<int>(source) % blocks, blocks, experts_);
      const double most = std::min(static_cast<double>(experts_) / top_k_,
                                   static_cast<double>(experts_) / static_cast<double>(own.size()));
      return set_hot(row, own, std::min(spec_.factor, most), top_k_);
    }
    case Imbalance::kZeroLoad: {
      const auto idle = static_cast<std::size_t>(spec_.idle * experts_);
      const auto share = static_cast<float>(top_k_) / static_cast<float>(row.size() - idle);
      std::fill(row.begin(), row.end(), share);
      for (std::size_t i = 0; i < idle; ++i) {  // 1, 3, 5, ..., then 0, 2, ...
        row[2 * i + 1 < row.size() ? 2 * i + 1 : 2 * (i - row.size() / 2)] = 0.0F;
      }
      return;
    }
    case Imbalance::kBurst:
      return set_hot(row, step % spec_.period < spec_.length ? hot : std::span<const int>(), spec_.factor, top_k_);
  }
  EPSIM_CHECK(false, "every kind has its loads");
}

void ImbalanceSource::draw(const StepAt& at, std::span<const std::int64_t> tokens, StepLoads& out) const {
  const bool by_source = spec_.kind == Imbalance::kSourceRagged && tokens.size() > 1;
  const std::size_t sources = by_source ? tokens.size() : 1;
  out.resize(layers_, static_cast<int>(sources), experts_);
  for (int l = 0; l < layers_; ++l) {
    for (std::size_t s = 0; s < sources; ++s) {
      fill(l, at.number, s, sources, out.row(l, static_cast<int>(s)));
    }
  }
}

namespace {

constexpr ImbalanceSpec kUsual{};

constexpr KeyTable kImbalanceKeys({
    {"pattern", key::one_of<Imbalance>(), key::kRequired, "Kind of imbalance."},
    {"tokens", key::whole(Bound::kPositive), key::is(std::int64_t{1} << 20), "Tokens in a planning window."},
    {"sources", key::whole(Bound::kPositive), key::is(8), "DP ranks drawn in a planning window."},
    {"hot", key::whole(Bound::kPositive), key::is(kUsual.hot), "Number of hot experts."},
    {"factor", key::number(), key::is(kUsual.factor), "Load of hot experts or GPUs over the others."},
    {"gpus", key::whole(Bound::kPositive), key::is(kUsual.gpus), "GPUs that the pattern is made for."},
    {"idle", key::number(), key::is(kUsual.idle), "Share of experts without load."},
    {"period", key::whole(Bound::kPositive), key::is(kUsual.period), "Steps from one change to the next."},
    {"length", key::whole(Bound::kPositive), key::is(kUsual.length), "Steps of a burst."},
});

ImbalanceSpec read_imbalance(ConfigReader& in, const MoeSpec& model) {
  ImbalanceSpec spec;
  spec.kind = in.read<Imbalance>(kImbalanceKeys["pattern"]);
  const Imbalance kind = spec.kind;
  if (kind == Imbalance::kHotExperts || kind == Imbalance::kBurst) {
    spec.hot = in.read<int>(kImbalanceKeys["hot"]);
  }
  if (kind != Imbalance::kBalanced && kind != Imbalance::kZeroLoad) {
    spec.factor = in.read<double>(kImbalanceKeys["factor"]);
  }
  if (uses_gpus(kind)) {
    spec.gpus = in.read<int>(kImbalanceKeys["gpus"]);
  }
  if (kind == Imbalance::kZeroLoad) {
    spec.idle = in.read<double>(kImbalanceKeys["idle"]);
  }
  if (kind == Imbalance::kRotatingHotspot || kind == Imbalance::kBurst) {
    spec.period = in.read<std::int64_t>(kImbalanceKeys["period"]);
  }
  if (kind == Imbalance::kBurst) {
    spec.length = in.read<std::int64_t>(kImbalanceKeys["length"]);
  }
  spec.hot = std::min(spec.hot, model.experts - 1);
  spec.validate(model, in);
  return spec;
}

// The mean over a cycle, of all sources together.
LoadWindow make_imbalance_window(ConfigReader& in, const MoeSpec& model, Seed seed) {
  const ImbalanceSource source(read_imbalance(in, model), model.moe_layers(), model.experts, model.top_k, seed);
  const auto tokens = in.read<std::int64_t>(kImbalanceKeys["tokens"]);
  const auto sources = in.read<int>(kImbalanceKeys["sources"]);
  const std::vector<std::int64_t> each(sources, 1);
  LoadWindow window(model.moe_layers(), model.experts);
  StepLoads loads;
  for (std::int64_t step = 0; step < source.cycle(); ++step) {
    source.draw(step, each, loads);
    const double weight = static_cast<double>(tokens) / (static_cast<double>(source.cycle()) * loads.sources);
    for (int l = 0; l < loads.layers; ++l) {
      for (int s = 0; s < loads.sources; ++s) {
        const std::span<const float> row = loads.row(l, s);
        for (std::size_t e = 0; e < row.size(); ++e) {
          window.layer(l)[e] += static_cast<double>(row[e]) * weight;
        }
      }
    }
  }
  return window;
}

std::unique_ptr<ExpertLoadSource> make_imbalance_source(ConfigReader& in, const MoeSpec& model, Seed seed) {
  return std::make_unique<ImbalanceSource>(read_imbalance(in, model), model.moe_layers(), model.experts, model.top_k,
                                           seed);
}

}  // namespace

extern const LoadReader kImbalanceLoads{"imbalance",
                                        "the suite W0 to W7: loads whose imbalance is known by construction",
                                        kImbalanceKeys, make_imbalance_window, make_imbalance_source};

}  // namespace epsim
