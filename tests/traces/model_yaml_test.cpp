// The routing model as a file: round trips, curves, and what is refused.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/traces/model_support.h"
#include "tests/traces/support.h"
#include "traces/format/statistics.h"
#include "traces/routing_model/routing_model.h"

namespace epsim {
namespace {

RoutingModel parse_model(const std::string& text) {
  return read_routing_model(Config::from_text(text, "m.yaml").root(), "m.yaml");
}

TEST_CASE("a model reads back as it was written") {
  RoutingModel m = test::small_routing_model(2, 8, 2, 0.5);
  m.assumed = "a \"quoted\" word";
  m.expert_groups = 4;
  m.top_groups = 2;
  m.domain_ratio = 0.25;
  m.repeat = 0.125;
  m.fitted_factors = 1;
  m.fitted_share = 0.5;
  for (LayerRouting& layer : m.layers) {
    layer.loadings = {1, -1, 0.5F, -0.5F, 1, -1, 1, -1};
    layer.balanced = {0.5, 0.4, 0.3, 0.2};
  }
  const RoutingModel back = parse_model(to_yaml(m));
  CHECK(to_yaml(back) == to_yaml(m));
  CHECK(back.assumed == m.assumed);
  CHECK(back.layers[1].loadings == m.layers[1].loadings);
  CHECK(back.layers[1].shares[3] == doctest::Approx(m.layers[1].shares[3]).epsilon(1e-6));
  CHECK(back.repeat == 0.125);
}

TEST_CASE("a curve keeps the hottest two and the sum") {
  // Ranks 1, 2, 4, 8 of 8 experts. Load over the mean: 3 and 2 kept; the other six share 8 - 5 = 3 mean loads.
  const std::vector<double> shares = shares_of_curve({3, 2, 0.5, 0.25}, 8);
  CHECK(curve_ranks(8) == std::vector<int>{1, 2, 4, 8});
  CHECK(shares[0] == doctest::Approx(3.0 / 8));
  CHECK(shares[1] == doctest::Approx(2.0 / 8));
  CHECK(std::accumulate(shares.begin(), shares.end(), 0.0) == doctest::Approx(1.0));
  CHECK(std::is_sorted(shares.rbegin(), shares.rend()));
  // Between ranks 4 and 8 the load halves per doubling of the rank: share(4) = 2 share(8).
  CHECK(shares[3] == doctest::Approx(2 * shares[7]));
}

TEST_CASE("experts are dealt so that contiguous GPUs are as balanced as stated") {
  std::vector<double> sorted(64);
  for (std::size_t r = 0; r < sorted.size(); ++r) {
    sorted[r] = 1.0 / static_cast<double>(r + 4);
  }
  const double sum = std::accumulate(sorted.begin(), sorted.end(), 0.0);
  for (double& s : sorted) {
    s /= sum;
  }
  // On 64 GPUs of one expert each balancedness is mean / max whatever the order: 1 / (64 * hottest share).
  const double each = 1.0 / (64 * sorted[0]);
  const std::vector<double> wanted = {0.7, 0.5, 0.29, each};
  RoutingModel model;
  model.expert_groups = 8;
  model.group_correlation = 0.9;  // what a layer states goes before it
  const LayerRouting layer{.number = 5, .shares = {}, .curve = {}, .balanced = wanted, .loadings = {}};
  const std::vector<double> dealt = deal_shares(sorted, model, layer);
  const LayerSkew skew = layer_skew(dealt);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    CAPTURE(i);
    CHECK(*skew.balancedness[i] == doctest::Approx(wanted[i]).epsilon(0.03));
  }
  CHECK(std::is_permutation(dealt.begin(), dealt.end(), sorted.begin()));
  CHECK(deal_shares(sorted, model, layer) == dealt);
  model.pattern_seed = 2;
  CHECK(deal_shares(sorted, model, layer) != dealt);
}

TEST_CASE("the more alike the experts of a router group are, the less balanced whole groups") {
  std::vector<double> sorted(64);
  for (std::size_t r = 0; r < sorted.size(); ++r) {
    sorted[r] = 1.0 / static_cast<double>(r + 4);
  }
  RoutingModel model;
  model.expert_groups = 8;
  const LayerRouting layer{.number = 5, .shares = {}, .curve = {}, .balanced = {}, .loadings = {}};
  const auto hottest_group = [&](double correlation) {
    model.group_correlation = correlation;
    const std::vector<double> dealt = deal_shares(sorted, model, layer);
    CHECK(std::is_permutation(dealt.begin(), dealt.end(), sorted.begin()));
    double most = 0;
    for (auto first = dealt.begin(); first != dealt.end(); first += 8) {
      most = std::max(most, std::accumulate(first, first + 8, 0.0));
    }
    return most;
  };
  // Nearly 1: groups stand one after the other in the order of heat, the hottest holds ranks 1 to 8.
  CHECK(hottest_group(1 - 1e-12) == doctest::Approx(std::accumulate(sorted.begin(), sorted.begin() + 8, 0.0)));
  CHECK(hottest_group(0.4) < hottest_group(1 - 1e-12));
  CHECK(hottest_group(0) < hottest_group(0.4));
}

const char* const kHead =
    "format: epsim-routing-model\nversion: 1\nname: n\nsource: s\nexperts: 8\ntop_k: 2\n"
    "topics: {domain_ratio: 0.1, stretch_ratio: 0.2, sequence_tokens: 100}\nsteps: {topic_tokens: 10, topic_steps: "
    "1}\n";

TEST_CASE("a stated layer: hottest, second, and a power law from the third on") {
  const RoutingModel m =
      parse_model(std::string(kHead) + "layers: [{layer: 0, sigma: 0.5, hottest: 3, second: 2, tail: 1}]\n");
  CHECK(m.layers[0].curve[0] == 3);
  CHECK(m.layers[0].curve[1] == 2);
  const std::vector<double> shares = shares_of_curve(m.layers[0].curve, 8);
  // Six experts share 3 mean loads; the third has the stated 1 of them, up to the curve's coarseness.
  CHECK(shares[2] * 8 == doctest::Approx(1.0).epsilon(0.1));
}

TEST_CASE("what a model may not say") {
  struct Row {
    const char* name;
    std::string text;
    const char* key;
  };
  const std::string head(kHead), layer = "layers: [{layer: 0, sigma: 0.5, curve: [2, 1.5, 1, 0.5]}]\n";
  CHECK(parse_model(head + layer).layers.size() == 1);
  for (const Row& r :
       {Row{"shares that do not sum to 1", head + "layers: [{layer: 0, sigma: 1, shares: [1,1,1,1,1,1,1,1]}]",
            "shares"},
        Row{"an expert above one per token",
            head + "layers: [{layer: 0, sigma: 1, shares: [0.6,0.1,0.1,0.1,0.1,0,0,0]}]", "shares"},
        Row{"a curve that rises", head + "layers: [{layer: 0, sigma: 1, curve: [1, 2, 1, 1]}]", "curve"},
        Row{"a curve of the wrong length", head + "layers: [{layer: 0, sigma: 1, curve: [2, 1]}]", "curve"},
        Row{"a curve above experts / top-k", head + "layers: [{layer: 0, sigma: 1, curve: [5, 1, 1, 1]}]", "curve"},
        Row{"no layers", head + "layers: []", "layers"},
        Row{"layers out of order",
            head + "layers: [{layer: 1, sigma: 0, curve: [2,1,1,1]}, {layer: 0, sigma: 0, curve: [2,1,1,1]}]",
            "layers"},
        Row{"groups that do not divide", head + "expert_groups: 3\n" + layer, "expert_groups"},
        Row{"too few open groups", head + "expert_groups: 8\ntop_groups: 1\n" + layer, "top_groups"},
        Row{"an unknown key", head + layer + "colour: red\n", "colour"},
        Row{"the hottest two take it all", head + "layers: [{layer: 0, sigma: 1, hottest: 4, second: 4, tail: 1}]",
            "hottest"}}) {
    CAPTURE(r.name);
    const InputError e = test::input_error([&] { parse_model(r.text); });
    CHECK(test::contains(e.place.key, r.key));
  }
}

}  // namespace
}  // namespace epsim
