// Routing constrained to the experts that most often serve tokens together, as C2R has it.
#include "traces/expert_loads/collaborators.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "traces/expert_loads/window_load_source.h"

namespace epsim {
namespace {

// One layer of five experts: with expert 0, ten tokens chose 1, five chose 2 and one chose 3; nothing else is known.
Affinity small_profile() {
  Affinity out(1, 5);
  out.add(0, 0, 1, 10);
  out.add(0, 0, 2, 5);
  out.add(0, 0, 3, 1);
  return out;
}

std::vector<std::uint16_t> rerouted(const Collaborators& lists, std::vector<std::uint16_t> experts, int top_k,
                                    std::int64_t changed) {
  RandomStream random(Seed{1}, "test");
  CHECK(lists.reroute(experts, top_k, random) == changed);
  return experts;
}

// 400 tokens of two layers, six experts, top-3: expert t mod 6 is each token's first.
std::vector<std::uint16_t> sample_tokens(Seed seed) {
  RandomStream random(seed, "test.tokens");
  std::vector<std::uint16_t> out;
  for (int t = 0; t < 400; ++t) {
    for (int l = 0; l < 2; ++l) {
      std::vector<std::uint16_t> all{0, 1, 2, 3, 4, 5};
      std::rotate(all.begin(), all.begin() + t % 6, all.end());
      std::swap(all[1], all[1 + random.below(3)]);
      std::swap(all[2], all[2 + random.below(4)]);
      out.insert(out.end(), all.begin(), all.begin() + 3);
    }
  }
  return out;
}

LoadWindow window_of_tokens(const std::vector<std::uint16_t>& tokens) {
  LoadWindow out(2, 6);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    out.layer(static_cast<int>(i / 3 % 2))[tokens[i]] += 1;
  }
  auto affinity = std::make_shared<Affinity>(2, 6);
  affinity->add_tokens(tokens, 3);
  out.set_affinity(affinity);
  return out;
}

// The tokens of a recording, all of one row.
class Recorded final : public ExpertLoadSource {
 public:
  explicit Recorded(std::vector<std::uint16_t> tokens) : tokens_(std::move(tokens)) {}
  int layers() const override { return 2; }
  int experts() const override { return 6; }
  bool recorded() const override { return true; }
  void draw(const StepAt&, std::span<const std::int64_t>, StepLoads& out) const override {
    out.resize(2, 1, 6);
    out.recorded = {this, 0, 3, tokens_, nullptr};
  }

 private:
  std::vector<std::uint16_t> tokens_;
};

}  // namespace

TEST_CASE("collaborators: choices outside the first's list go into it, others stay") {
  const Collaborators two(small_profile(), 2);  // of expert 0: 1 and 2
  using Ids = std::vector<std::uint16_t>;
  CHECK(rerouted(two, {0, 2, 1}, 3, 0) == Ids{0, 2, 1});
  CHECK(rerouted(two, {0, 3, 1}, 3, 1) == Ids{0, 2, 1});
  Ids both = rerouted(two, {0, 4, 3}, 3, 2);
  std::sort(both.begin() + 1, both.end());
  CHECK(both == Ids{0, 1, 2});
  // Expert 4 serves no token with another: ties go to the lower ids, 0 and 1, in that order.
  CHECK(rerouted(two, {4, 2}, 2, 1) == Ids{4, 0});
  CHECK(rerouted(two, {4, 3, 0}, 3, 1) == Ids{4, 1, 0});
}

TEST_CASE("collaborators: what replaces a choice is drawn by how often it serves tokens with the first") {
  const Collaborators two(small_profile(), 2);
  RandomStream random(Seed{1}, "test");
  int ones = 0;
  constexpr int kTokens = 9000;
  for (int t = 0; t < kTokens; ++t) {
    std::vector<std::uint16_t> token{0, 4};
    two.reroute(token, 2, random);
    ones += token[1] == 1 ? 1 : 0;
  }
  // 10 of 15 choose 1: 6000, with a deviation of sqrt(9000 x 2/3 x 1/3) = 45.
  CHECK(std::abs(ones - 6000) < 4 * 45);
}

TEST_CASE("collaborators: loads without tokens are rerouted as the sample's tokens are") {
  const LoadWindow plan = window_of_tokens(sample_tokens(Seed{1})), run = window_of_tokens(sample_tokens(Seed{2}));
  const auto mean = std::make_shared<WindowLoadSource>(run, 3, 0.0, Seed{1});
  const ReroutedLoads out = reroute_loads(2, plan, run, mean, Seed{3});
  const std::vector<std::uint16_t>&before = run.affinity()->tokens().experts,
        &after = out.run.affinity()->tokens().experts;
  const LoadWindow counted = window_of_tokens(after);
  StepLoads loads;
  out.loads->draw({0, Ticks{}}, std::vector<std::int64_t>{100}, loads);
  double changed = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    changed += before[i] != after[i] ? 1 : 0;
  }
  REQUIRE(changed > 0);
  REQUIRE(loads.rerouted.size() == 1);
  CHECK(loads.rerouted[0] == doctest::Approx(changed / 400).epsilon(1e-6));
  for (int l = 0; l < 2; ++l) {
    for (std::size_t e = 0; e < 6; ++e) {
      CHECK(static_cast<double>(loads.row(l, 0)[e]) == doctest::Approx(counted.layer(l)[e] / 400).epsilon(1e-5));
      CHECK(out.run.layer(l)[e] == doctest::Approx(counted.layer(l)[e]).epsilon(1e-6));
    }
  }
  // All five others are collaborators: nothing is rerouted.
  const ReroutedLoads free = reroute_loads(5, plan, run, mean, Seed{3});
  CHECK(free.run.affinity()->tokens().experts == before);
  free.loads->draw({0, Ticks{}}, std::vector<std::int64_t>{100}, loads);
  CHECK(loads.rerouted == std::vector<double>{0.0});
}

TEST_CASE("collaborators: recorded tokens are rerouted one by one, and the loads are theirs") {
  const LoadWindow plan = window_of_tokens(sample_tokens(Seed{1}));
  const std::vector<std::uint16_t> tokens = sample_tokens(Seed{2});
  const ReroutedLoads out = reroute_loads(2, plan, plan, std::make_shared<Recorded>(tokens), Seed{3});
  StepLoads loads, again;
  out.loads->draw({0, Ticks{}}, std::vector<std::int64_t>{400}, loads);
  out.loads->draw({0, Ticks{}}, std::vector<std::int64_t>{400}, again);
  CHECK(std::ranges::equal(loads.recorded.experts, again.recorded.experts));
  const std::vector<std::uint16_t> after(loads.recorded.experts.begin(), loads.recorded.experts.end());
  const LoadWindow counted = window_of_tokens(after);
  double changed = 0;
  for (std::size_t i = 0; i < after.size(); ++i) {
    changed += tokens[i] != after[i] ? 1 : 0;
    CHECK(static_cast<double>(loads.row(static_cast<int>(i / 3 % 2), 0)[after[i]]) ==
          doctest::Approx(counted.layer(static_cast<int>(i / 3 % 2))[after[i]] / 400));
  }
  CHECK(loads.rerouted[0] == doctest::Approx(changed / 400));
  // Each first expert has two collaborators, so that top-3 leaves one choice: all of its tokens have the same experts.
  for (std::size_t t = 6; t < 400; ++t) {
    for (std::size_t l = 0; l < 2; ++l) {
      std::vector<std::uint16_t> token(after.begin() + static_cast<std::ptrdiff_t>(6 * t + 3 * l),
                                       after.begin() + static_cast<std::ptrdiff_t>(6 * t + 3 * l + 3));
      std::vector<std::uint16_t> first(after.begin() + static_cast<std::ptrdiff_t>(6 * (t % 6) + 3 * l),
                                       after.begin() + static_cast<std::ptrdiff_t>(6 * (t % 6) + 3 * l + 3));
      std::ranges::sort(token);
      std::ranges::sort(first);
      CHECK(token == first);
    }
  }
}

}  // namespace epsim
