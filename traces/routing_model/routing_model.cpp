#include "traces/routing_model/routing_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/core/mapped.h"
#include "sim/core/refuse.h"
#include "sim/core/text.h"

namespace epsim {

namespace {

constexpr std::int64_t kVersion = 1;
constexpr double kSharesSlack = 1e-3;  // shares are printed rounded

// A scalar that YAML reads back as the same text.
std::string quoted(const std::string& text) { return in_quotes(replaced(text, "\n", " ")); }

// `hottest`, `second`, `tail`: a curve from statements. The experts after the second follow a power law from `tail`
// (load over the mean at rank 3) down, as steep as it takes for the layer to sum up.
std::vector<double> stated_curve(ConfigReader& in, int experts) {
  const double hottest = in.required<double>("hottest"), second = in.required<double>("second");
  const double tail = in.required<double>("tail");
  in.check(hottest >= second && second >= tail && tail >= 1, "hottest",
           "hottest >= second >= tail >= 1 is what a sorted curve needs.");
  const double rest = experts - hottest - second;  // mean loads that the others share
  in.check(experts > 3 && rest > tail, "hottest", "the hottest two leave too little for the other experts.");
  const auto sum = [&](double exponent) {
    double s = 0;
    for (int r = 3; r <= experts; ++r) {
      s += tail * std::pow(r / 3.0, -exponent);
    }
    return s;
  };
  double low = -4, high = 16;  // from rising to all but gone; the sum falls in between
  for (int i = 0; i < 100; ++i) {
    const double middle = 0.5 * (low + high);
    (sum(middle) > rest ? low : high) = middle;
  }
  in.check(low >= 0, "tail", "the tail is too low: the others would have to be hotter than it.");
  return mapped(curve_ranks(experts), [&](int r) {
    return r == 1 ? hottest : r == 2 ? second : tail * std::pow(r / 3.0, -low);
  });
}

LayerRouting read_layer(ConfigReader& in, const RoutingModel& model) {
  LayerRouting layer;
  layer.number = in.required<int>("layer");
  layer.sigma = in.required<double>("sigma");
  if (const auto shares = in.maybe<std::vector<double>>("shares")) {
    layer.shares = *shares;
    in.check(layer.shares.size() == static_cast<std::size_t>(model.experts), "shares", "this is one per expert.");
    const double sum = std::accumulate(layer.shares.begin(), layer.shares.end(), 0.0);
    in.check(std::abs(sum - 1) < kSharesSlack, "shares", fmt::format("these sum to {:.5f}; they must sum to 1.", sum));
  } else if (in.has("hottest")) {
    layer.curve = stated_curve(in, model.experts);
  } else {
    layer.curve = in.required<std::vector<double>>("curve");
  }
  layer.balanced = in.optional("balanced", std::vector<double>{});
  const auto loadings = in.optional("loadings", std::vector<double>{}, Bound::kAny);
  layer.loadings.assign(loadings.begin(), loadings.end());
  return layer;
}

void read_topics(ConfigReader in, RoutingModel& m) {
  m.factors = in.optional("factors", m.factors);
  m.fitted_factors = in.optional("fitted_factors", m.fitted_factors);
  m.fitted_share = in.optional("fitted_share", m.fitted_share);
  m.domain_ratio = in.required<double>("domain_ratio");
  m.stretch_ratio = in.required<double>("stretch_ratio");
  m.sequence_tokens = in.required<double>("sequence_tokens", Bound::kPositive);
  m.sequence_log_sigma = in.optional("sequence_log_sigma", m.sequence_log_sigma);
  m.longest_sequence = in.optional("longest_sequence", m.longest_sequence);
  m.stretch_tokens = in.optional("stretch_tokens", m.stretch_tokens, Bound::kPositive);
  m.domain_sequences = in.optional("domain_sequences", m.domain_sequences, Bound::kPositive);
  m.kinds = in.optional("kinds", m.kinds);
  m.kind_sigma = in.optional("kind_sigma", m.kind_sigma);
  m.kind_share = in.optional("kind_share", m.kind_share);
  m.kind_topics = in.optional("kind_topics", m.kind_topics);
  m.repeat = in.optional("repeat", m.repeat);
  m.overdispersion = in.optional("overdispersion", m.overdispersion);
}

void read_steps(ConfigReader in, RoutingModel& m) {
  m.topic_tokens = in.required<double>("topic_tokens", Bound::kPositive);
  m.topic_steps = in.required<double>("topic_steps", Bound::kPositive);
  m.domain_steps = in.optional("domain_steps", m.domain_steps, Bound::kPositive);
  m.common = in.optional("common", m.common);
}

}  // namespace

RoutingModel read_routing_model(ConfigReader in, const std::string& where) {
  in.check(in.required<std::string>("format") == "epsim-routing-model", "format",
           "a routing model says format: epsim-routing-model.");
  in.check(in.required<std::int64_t>("version") == kVersion, "version", "this program reads version 1.");
  RoutingModel m;
  m.name = in.required<std::string>("name");
  m.model = in.optional("model", std::string());
  m.source = in.required<std::string>("source");
  m.licence = in.optional("licence", std::string());
  m.assumed = in.optional("assumed", std::string());
  m.model_layers = in.optional("model_layers", 0);
  m.experts = in.required<int>("experts", Bound::kPositive);
  m.top_k = in.required<int>("top_k", Bound::kPositive);
  m.expert_groups = in.optional("expert_groups", 1, Bound::kPositive);
  m.top_groups = in.optional("top_groups", 1, Bound::kPositive);
  m.group_correlation = in.optional("group_correlation", 0.0);
  m.pattern_seed = static_cast<std::uint64_t>(in.optional("pattern_seed", std::int64_t{1}));
  m.drift = in.optional("drift", 0.0);
  read_topics(in.required_section("topics"), m);
  read_steps(in.required_section("steps"), m);
  for (ConfigReader layer : in.list_of_sections("layers")) {
    m.layers.push_back(read_layer(layer, m));
  }
  in.finish();
  m.validate(where);
  return m;
}

RoutingModel read_routing_model(const std::filesystem::path& file) {
  return read_routing_model(Config::from_file(file).root(), file.string());
}

namespace {

void validate_layer(const RoutingModel& m, const LayerRouting& layer, const std::string& where) {
  const auto require = [&](bool holds, const char* key, const char* problem) {
    refuse_if(!holds, {where, 0, key}, fmt::format("layer {}: {}", layer.number, problem));
  };
  const auto within = [](const std::vector<double>& values, double low, double high) {
    return std::all_of(values.begin(), values.end(), [&](double x) { return x >= low && x <= high; });
  };
  require(layer.sigma >= 0 && layer.sigma <= 4, "sigma", "allowed are 0 to 4 (a factor of 55 either way).");
  require(layer.shares.empty() != layer.curve.empty(), "shares", "a layer states shares or a curve, and one of them.");
  // One part in a thousand of slack: shares are printed rounded.
  require(within(layer.shares, 0, (1 + kSharesSlack) / m.top_k), "shares",
          "a share is at least 0 and at most 1 / top-k, where every token takes the expert.");
  if (!layer.curve.empty()) {
    const std::vector<int> with_cold = curve_ranks(m.experts, true);
    require(layer.curve.size() == curve_ranks(m.experts).size() ||
                (layer.curve.size() == with_cold.size() && std::is_sorted(with_cold.begin(), with_cold.end())),
            "curve", "one load per rank 1, 2, 4, ..., perhaps 3/4 and 15/16 of the experts, and the last.");
    require(std::is_sorted(layer.curve.rbegin(), layer.curve.rend()) && layer.curve.back() >= 0 && layer.curve[0] >= 1,
            "curve", "loads fall from at least 1 (the mean) to at least 0.");
    require(layer.curve[0] * m.top_k <= m.experts * (1 + kSharesSlack), "curve",
            "the hottest load may not exceed experts / top-k, where every token takes the expert.");
  }
  require(
      layer.balanced.empty() || (layer.balanced.size() == std::size(kBalancedGpus) && within(layer.balanced, 1e-3, 1)),
      "balanced", "this is one balancedness (0 to 1) for each of 8, 16, 32 and 64 GPUs.");
  require(layer.loadings.size() == static_cast<std::size_t>(m.fitted_factors) * m.experts, "loadings",
          "these are experts x fitted_factors numbers.");
}

}  // namespace

void RoutingModel::validate(const std::string& where) const {
  const auto require = [&](bool holds, const char* key, const char* problem) {
    refuse_if(!holds, {where, 0, key}, problem);
  };
  require(experts >= 1 && experts <= 65536, "experts", "allowed are 1 to 65536.");
  require(top_k >= 1 && top_k <= experts, "top_k", "allowed are 1 to the number of experts.");
  require(expert_groups >= 1 && expert_groups <= 256 && experts % expert_groups == 0, "expert_groups",
          "allowed are 1 to 256 groups that divide the experts evenly.");
  require(top_groups >= 1 && top_groups <= expert_groups, "top_groups", "allowed are 1 to expert_groups.");
  require(top_k <= top_groups * (experts / expert_groups), "top_groups", "so few groups do not hold top-k experts.");
  require(group_correlation >= 0 && group_correlation < 1 && (expert_groups > 1 || group_correlation == 0),
          "group_correlation", "this is 0 or more and below 1, and 0 for a router without groups.");
  require(factors >= 1 && fitted_factors >= 0 && factors + fitted_factors <= 64, "factors",
          "allowed are 1 to 64 factors, fitted ones included.");
  require(fitted_share >= 0 && fitted_share <= 1, "fitted_share", "this is a share, from 0 to 1.");
  require(fitted_factors > 0 || fitted_share == 0, "fitted_share", "there are no fitted factors to have that share.");
  require(domain_ratio >= 0 && domain_ratio <= 4 && stretch_ratio >= 0 && stretch_ratio <= 4, "topics",
          "ratios are 0 to 4.");
  require(sequence_tokens >= 1 && sequence_log_sigma >= 0 && sequence_log_sigma <= 4, "sequence_tokens",
          "at least one token; the deviation of the logarithm is 0 to 4.");
  require(kinds >= 0 && kinds <= 256 && kind_sigma >= 0 && kind_sigma <= 4, "kinds",
          "allowed are 0 to 256 kinds and a deviation of 0 to 4.");
  // A kind that decided on everything could leave too few experts to choose from.
  require(kind_share >= 0 && kind_share <= 0.98 && (kinds > 1 || kind_share == 0), "kind_share",
          "this is a share, from 0 to 0.98, and 0 with fewer than two kinds.");
  require(kind_topics >= 1 && kind_topics <= 4, "kind_topics", "allowed are 1 to 4.");
  require(repeat >= 0 && repeat < 1, "repeat", "this is a chance below 1.");
  require(common >= 0 && common <= 1, "common", "this is a share, from 0 to 1.");
  require(drift >= 0 && drift <= 3, "drift", "allowed are 0 to 3 (a factor of 20 either way).");
  require(overdispersion >= 0 && overdispersion <= 1000, "overdispersion", "allowed are 0 to 1000.");
  require(topic_steps >= 1 && domain_steps >= 1 && topic_tokens >= 1, "steps", "these are at least 1.");
  require(!layers.empty() && layers.size() <= 4096, "layers", "allowed are 1 to 4096 MoE layers.");
  for (std::size_t l = 0; l < layers.size(); ++l) {
    require(layers[l].number >= 0 && (l == 0 || layers[l - 1].number < layers[l].number) &&
                (model_layers == 0 || layers[l].number < model_layers),
            "layers", "layer numbers ascend and stay below model_layers.");
    validate_layer(*this, layers[l], where);
  }
}

std::string to_yaml(const RoutingModel& m) {
  std::string out = fmt::format(
      "format: epsim-routing-model\nversion: {}\nname: {}\nmodel: {}\nsource: {}\nlicence: {}\nassumed: {}\n"
      "model_layers: {}\nexperts: {}\ntop_k: {}\nexpert_groups: {}\ntop_groups: {}\ngroup_correlation: {:.6g}\n"
      "pattern_seed: {}\ndrift: {:.6g}\n",
      kVersion, quoted(m.name), quoted(m.model), quoted(m.source), quoted(m.licence), quoted(m.assumed), m.model_layers,
      m.experts, m.top_k, m.expert_groups, m.top_groups, m.group_correlation, m.pattern_seed, m.drift);
  out += fmt::format(
      "topics:\n  factors: {}\n  fitted_factors: {}\n  fitted_share: {:.6g}\n  domain_ratio: {:.6g}\n"
      "  stretch_ratio: {:.6g}\n  sequence_tokens: {:.6g}\n  sequence_log_sigma: {:.6g}\n  longest_sequence: {}\n"
      "  stretch_tokens: {}\n  domain_sequences: {}\n  kinds: {}\n  kind_sigma: {:.6g}\n  kind_share: {:.6g}\n  "
      "kind_topics: {:.6g}\n  repeat: {:.6g}\n  overdispersion: {:.6g}\n",
      m.factors, m.fitted_factors, m.fitted_share, m.domain_ratio, m.stretch_ratio, m.sequence_tokens,
      m.sequence_log_sigma, m.longest_sequence, m.stretch_tokens, m.domain_sequences, m.kinds, m.kind_sigma,
      m.kind_share, m.kind_topics, m.repeat, m.overdispersion);
  out += fmt::format(
      "steps:\n  topic_tokens: {:.6g}\n  topic_steps: {:.6g}\n  domain_steps: {:.6g}\n  common: {:.6g}\nlayers:\n",
      m.topic_tokens, m.topic_steps, m.domain_steps, m.common);
  for (const LayerRouting& layer : m.layers) {
    out += fmt::format("  - {{layer: {}, sigma: {:.6g}", layer.number, layer.sigma);
    if (!layer.shares.empty()) {
      out += fmt::format(",\n     shares: [{:.7g}]", fmt::join(layer.shares, ", "));
    } else {
      out += fmt::format(", curve: [{:.6g}]", fmt::join(layer.curve, ", "));
    }
    if (!layer.balanced.empty()) {
      out += fmt::format(", balanced: [{:.6g}]", fmt::join(layer.balanced, ", "));
    }
    if (!layer.loadings.empty()) {
      out += fmt::format(",\n     loadings: [{:.3f}]", fmt::join(layer.loadings, ", "));
    }
    out += "}\n";
  }
  return out;
}

}  // namespace epsim
