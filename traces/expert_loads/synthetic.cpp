#include "traces/expert_loads/synthetic.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>

#include "sim/core/check.h"
#include "traces/expert_loads/load_sources.h"
#include "traces/routing_model/routing_law.h"

namespace epsim {

namespace {

constexpr KeyTable kWindowKeys({
    {"tokens", key::whole(Bound::kPositive), key::is(std::int64_t{1} << 23),  // as SGLang's published prefill windows
     "Tokens in the window."},
    {"drift", key::number(at_most(3)), key::is(0.0),  // 3: a factor of 20 either way
     "Sigma of the factor by which each expert's load differs between windows."},
    {"window", key::whole(), key::is(0), "Number of the window; windows differ by `drift`."},
});
constexpr KeyTable kZipfKeys =
    KeyTable({{"exponent", key::number(), key::kRequired, "Exponent of the power law."}}) + kWindowKeys;
constexpr KeyTable kSkewKeys =
    KeyTable({
        {"max_over_mean", key::numbers(), key::kNone, "Hottest expert over the mean, one value per MoE layer."},
        {"range", key::numbers(), key::kNone, "[lowest, highest] of hottest over mean, spread over the layers."},
        {"low", key::number(), key::by("required without range and max_over_mean"),
         "Hottest over mean of most layers."},
        {"high", key::number(), key::by("required with low"), "Hottest over mean of the other layers."},
        {"high_share", key::number(kShare), key::by("required with low"), "Share of layers that have `high`."},
    }) +
    kWindowKeys;

std::vector<int> permutation(int size, RandomStream stream) {
  std::vector<int> order(size);
  std::iota(order.begin(), order.end(), 0);
  stream.shuffle(order);
  return order;
}

// The keys that all kinds share.
struct Window {
  double tokens, drift;
  std::uint64_t number;
};

Window read_window(ConfigReader& in) {
  const auto tokens = static_cast<double>(in.read<std::int64_t>(kWindowKeys["tokens"]));
  const double drift = in.read<double>(kWindowKeys["drift"]);
  return {tokens, drift, static_cast<std::uint64_t>(in.read<int>(kWindowKeys["window"]))};
}

// Moves a layer's loads as the window's number has it. No expert is left with more than every token.
void drift(std::span<double> loads, const Window& window, int layer, Seed seed) {
  const double tokens = window.tokens;
  RandomStream stream(seed, "routing.drift", window.number, static_cast<std::uint64_t>(layer));
  const double total = std::accumulate(loads.begin(), loads.end(), 0.0);
  for (double& x : loads) {
    x *= std::exp(window.drift * stream.normal());
  }
  cap_row(loads, tokens, total);
}

// A window whose layer l has `shares(l)` (hottest first), dealt to experts in an order drawn for that layer.
LoadWindow deal(const MoeSpec& model, const Window& window, Seed seed,
                const std::function<std::vector<double>(std::size_t)>& shares) {
  LoadWindow out(model.moe_layers(), model.experts);
  for (int l = 0; l < out.layers(); ++l) {
    const std::vector<double> ranked = shares(static_cast<std::size_t>(l));
    const std::vector<int> expert =
        permutation(model.experts, RandomStream(seed, "routing.hot_experts", static_cast<std::uint64_t>(l)));
    for (std::size_t r = 0; r < ranked.size(); ++r) {
      out.layer(l)[expert[r]] = ranked[r] * window.tokens * model.top_k;
    }
    if (window.drift > 0) {
      drift(out.layer(l), window, l, seed);
    }
  }
  return out;
}

// The highest max / mean that routing allows: every token chooses the hottest expert.
double steepest(const MoeSpec& model) { return static_cast<double>(model.experts) / model.top_k; }

void check_skew(const ConfigReader& in, const std::string& key, const MoeSpec& model, double max_over_mean) {
  in.check(max_over_mean >= 1 && max_over_mean <= steepest(model), key,
           fmt::format("{} is no max / mean of {}: it is at least 1 and at most {:g} (experts / top-k).", max_over_mean,
                       model.name, steepest(model)));
}

std::vector<double> spread_skews(ConfigReader& in, const std::vector<double>& range, const MoeSpec& model, Seed seed) {
  in.check(range.size() == 2 && range[0] <= range[1], "range", "this is [lowest, highest] max / mean.");
  check_skew(in, "range", model, range[0]);
  check_skew(in, "range", model, range[1]);
  std::vector<double> skews(model.moe_layers(), range[0]);
  const std::vector<int> order = permutation(model.moe_layers(), RandomStream(seed, "routing.layer_skews"));
  for (std::size_t i = 1; i < skews.size(); ++i) {
    const double along = static_cast<double>(i) / static_cast<double>(skews.size() - 1);
    skews[order[i]] = range[0] * std::pow(range[1] / range[0], along);
  }
  return skews;
}

std::vector<double> layer_skews(ConfigReader& in, const MoeSpec& model, Seed seed) {
  const std::size_t layers = static_cast<std::size_t>(model.moe_layers());
  if (const auto listed = in.maybe<std::vector<double>>(kSkewKeys["max_over_mean"])) {
    in.check(listed->size() == layers, "max_over_mean",
             fmt::format("{} values for the {} MoE layers of {}.", listed->size(), layers, model.name));
    for (const double skew : *listed) {
      check_skew(in, "max_over_mean", model, skew);
    }
    return *listed;
  }
  if (const auto range = in.maybe<std::vector<double>>(kSkewKeys["range"])) {
    return spread_skews(in, *range, model, seed);
  }
  const double low = in.read<double>(kSkewKeys["low"]), high = in.read<double>(kSkewKeys["high"]);
  const double share = in.read<double>(kSkewKeys["high_share"]);
  check_skew(in, "low", model, low);
  check_skew(in, "high", model, high);
  in.check(low <= high, "low", "low may not exceed high.");
  std::vector<double> skews(layers, low);
  const std::vector<int> order = permutation(static_cast<int>(layers), RandomStream(seed, "routing.high_layers"));
  const auto count = static_cast<std::size_t>(std::lround(share * static_cast<double>(layers)));
  for (std::size_t i = 0; i < count; ++i) {
    skews[order[i]] = high;
  }
  return skews;
}

}  // namespace

std::vector<double> power_law_shares(int experts, double exponent) {
  std::vector<double> shares(experts);
  for (std::size_t r = 0; r < shares.size(); ++r) {
    shares[r] = std::pow(static_cast<double>(r + 1), -exponent);
  }
  const double sum = std::accumulate(shares.rbegin(), shares.rend(), 0.0);  // small ones first
  for (double& s : shares) {
    s /= sum;
  }
  return shares;
}

double power_law_exponent(int experts, double max_over_mean) {
  EPSIM_CHECK(max_over_mean >= 1 && max_over_mean <= experts, "no power law has that max / mean");
  if (max_over_mean == 1) {
    return 0;
  }
  // The hottest share grows with the exponent, from 1 / experts to 1 (at 64, 2^-64 is below double's resolution): a
  // top-1 model may send every token to one expert.
  double low = 0, high = 64;
  for (int i = 0; i < 200 && low < high; ++i) {
    const double middle = 0.5 * (low + high);
    const bool between = low < middle && middle < high;
    (power_law_shares(experts, middle)[0] * experts < max_over_mean ? low : high) = middle;
    if (!between) {  // of doubles
      break;
    }
  }
  return 0.5 * (low + high);
}

namespace {

LoadWindow make_uniform_loads(ConfigReader& in, const MoeSpec& model, Seed seed) {
  return deal(model, read_window(in), seed, [&](std::size_t) { return power_law_shares(model.experts, 0); });
}

LoadWindow make_zipf_loads(ConfigReader& in, const MoeSpec& model, Seed seed) {
  const double exponent = in.read<double>(kZipfKeys["exponent"]);
  const std::vector<double> shares = power_law_shares(model.experts, exponent);
  in.check(
      shares[0] * model.top_k <= 1, "exponent",
      fmt::format("so steep a law gives the hottest expert {:.3g} assignments per token, and at most 1 is possible; "
                  "at most {:.4f} is allowed for {}.",
                  shares[0] * model.top_k, power_law_exponent(model.experts, steepest(model)), model.name));
  return deal(model, read_window(in), seed, [&](std::size_t) { return std::vector(shares); });
}

LoadWindow make_skew_loads(ConfigReader& in, const MoeSpec& model, Seed seed) {
  const std::vector<double> skews = layer_skews(in, model, seed);
  std::map<double, std::vector<double>> by_skew;  // few layers differ, and an exponent takes thousands of powers
  for (const double skew : skews) {
    if (!by_skew.contains(skew)) {
      by_skew[skew] = power_law_shares(model.experts, power_law_exponent(model.experts, skew));
    }
  }
  return deal(model, read_window(in), seed, [&](std::size_t l) { return by_skew.at(skews[l]); });
}

}  // namespace

extern const LoadReader kUniformLoads{"uniform", "every expert takes the same load", kWindowKeys, make_uniform_loads};
extern const LoadReader kZipfLoads{"zipf", "load falls with a power of the expert's rank, hot experts differ by layer",
                                   kZipfKeys, make_zipf_loads};
extern const LoadReader kSkewLoads{"skew", "per-layer hottest-expert load over the mean, as stated", kSkewKeys,
                                   make_skew_loads};

}  // namespace epsim
