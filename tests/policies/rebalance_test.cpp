#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <set>

#include "policies/rebalance/keep_in_place.h"
#include "policies/rebalance/migration.h"
#include "policies/rebalance/rules.h"
#include "sim/core/check.h"
#include "tests/policies/support.h"
#include "tests/support/errors.h"

using namespace epsim;

namespace {

std::unique_ptr<RebalanceRule> rule(const std::string& name, const std::string& yaml = "{}") {
  ConfigReader options = Config::from_text(yaml, "rule.yaml").root();
  std::unique_ptr<RebalanceRule> made = make_rebalance_rule(name, options);
  options.finish();
  return made;
}

PlacementPlan plan_of(std::vector<LayerPlan> layers, int experts) {
  const int gpus = layers.front().gpus();
  return {.policy = "test", .experts = experts, .gpus = gpus, .layers = std::move(layers)};
}

bool holds(const LayerPlan& layer, int gpu, int expert) {
  const auto g = static_cast<std::size_t>(gpu);
  const auto from = layer.slots.begin() + layer.first_slot[g], to = layer.slots.begin() + layer.first_slot[g + 1];
  return std::find(from, to, expert) != to;
}

Bytes sum(const std::vector<Bytes>& v) { return std::accumulate(v.begin(), v.end(), Bytes(0)); }

std::vector<CopyMove> all_moves(const MigrationPlan& plan) {
  std::vector<CopyMove> out;
  for (const std::vector<CopyMove>& batch : plan.batches) {
    out.insert(out.end(), batch.begin(), batch.end());
  }
  return out;
}

// Moves between two GPUs.
std::ptrdiff_t moves_between_gpus(const MigrationPlan& plan) {
  const std::vector<CopyMove> all = all_moves(plan);
  return std::count_if(all.begin(), all.end(), [](const CopyMove& m) { return m.from_gpu != m.to_gpu; });
}

}  // namespace

TEST_CASE("rules: never, every n steps, below a balancedness") {
  CHECK(rule("never")->interval() == std::numeric_limits<std::int64_t>::max());
  CHECK(rule("every", "{steps: 10}")->interval() == 10);
  CHECK(rule("every", "{steps: 10}")->due(1.0));
  const auto threshold = rule("threshold", "{balancedness: 0.8, steps: 10}");
  CHECK(threshold->interval() == 10);
  CHECK_FALSE(threshold->due(0.8));
  CHECK(threshold->due(0.79));
  CHECK(rule("threshold")->interval() == 1000);  // SGLang's defaults
  CHECK(rule("threshold")->due(0.999));
  CHECK(rule("every")->accept({Seconds(1), Seconds(2), Seconds(5)}));  // takes what it gets
}

TEST_CASE("rules: gain takes a plan that pays for its switch within the horizon") {
  const auto gain = rule("gain", "{steps: 100, horizon: 1000}");
  CHECK(gain->interval() == 100);
  // 2 ms a step over 1000 steps are 2 s.
  CHECK(gain->accept({Seconds(0.050), Seconds(0.048), Seconds(1.99)}));
  CHECK_FALSE(gain->accept({Seconds(0.050), Seconds(0.048), Seconds(2.01)}));
  CHECK_FALSE(gain->accept({Seconds(0.048), Seconds(0.050), Seconds(0)}));
  CHECK_FALSE(gain->accept({Seconds(0.050), Seconds(0.050), Seconds(0)}));
  // The horizon is one interval unless it is given.
  CHECK(rule("gain", "{steps: 500}")->accept({Seconds(0.050), Seconds(0.048), Seconds(0.99)}));
  CHECK_FALSE(rule("gain", "{steps: 500}")->accept({Seconds(0.050), Seconds(0.048), Seconds(1.01)}));
  // The busiest GPU at balancedness 0.6 has 1 / 0.6 of the mean, at 0.9 1 / 0.9.
  CHECK(expert_time_at(Seconds(0.030), 0.6, 0.9).count() == doctest::Approx(0.020));
}

TEST_CASE("rules: names, sentences and refusals") {
  std::set<std::string_view> names;
  for (const RebalanceRuleEntry& entry : rebalance_rules()) {
    CHECK(names.insert(entry.name).second);
    CHECK(entry.summary.back() == '.');
    CHECK(rule(std::string(entry.name)) != nullptr);
  }
  CHECK(names == std::set<std::string_view>{"every", "gain", "never", "threshold"});
  test::check_contains(test::error_of<InputError>([] { rule("evry"); }).problem, {"every", "never"});
  CHECK_THROWS_AS(rule("every", "{steps: 0}"), InputError);
  CHECK_THROWS_AS(rule("threshold", "{balancedness: 1.1}"), InputError);
  CHECK_THROWS_AS(rule("never", "{steps: 3}"), InputError);
}

TEST_CASE("migration: a layer that has switched frees what it staged") {
  // Two layers of two GPUs with two slots: GPU 1 takes expert 0 in both, one copy a batch. The first layer has switched
  // when the second one's copy arrives.
  const ClusterShape shape{.gpus = 2, .gpus_per_node = 2};
  const LayerPlan before = uniform_layer({0, 1, 2, 1}, 2), after = uniform_layer({0, 1, 2, 0}, 2);
  const MigrationPlan plan = plan_migration(plan_of({after, after}, 3), plan_of({before, before}, 3), shape, 1);
  REQUIRE(plan.batches.size() == 2);
  CHECK(plan.switches_after == std::vector<int>{0, 1});
  CHECK(plan.staged_on_fullest_gpu == 1);
  // Both at once: two.
  CHECK(plan_migration(plan_of({after, after}, 3), plan_of({before, before}, 3), shape, 2).staged_on_fullest_gpu == 2);
}

TEST_CASE("migration: nearest sender, then the one that sent least") {
  // Two nodes of two GPUs. Before: 0 1 | 2 3 | 0 4 | 5 6. After: GPU 1 takes 0 for 3 (from GPU 0, in its node, although
  // GPU 2 has it too); GPU 3 takes 0 (from GPU 2) and 3 for 5 and 6; GPU 0 takes 5, GPU 2 6.
  const ClusterShape shape{.gpus = 4, .gpus_per_node = 2};
  const PlacementPlan before = plan_of({uniform_layer({0, 1, 2, 3, 0, 4, 5, 6}, 4)}, 7);
  const PlacementPlan after = plan_of({uniform_layer({5, 1, 2, 0, 6, 4, 0, 3}, 4)}, 7);
  const MigrationPlan plan = plan_migration(after, before, shape, 2);
  REQUIRE(plan.batches.size() == 1);
  const auto text = [](const CopyMove& m) { return std::vector<int>{m.expert, m.from_gpu, m.to_gpu, m.to_slot}; };
  std::vector<std::vector<int>> moves;
  for (const CopyMove& m : plan.batches[0]) {
    moves.push_back(text(m));
  }
  CHECK(moves == std::vector<std::vector<int>>{{5, 3, 0, 0}, {0, 0, 1, 3}, {6, 3, 2, 4}, {0, 2, 3, 6}, {3, 1, 3, 7}});
  CHECK(plan.switches_after == std::vector<int>{0});
  CHECK(plan.staged_on_fullest_gpu == 2);  // GPU 3's
  const MigrationBytes bytes = migration_bytes(plan.batches[0], Bytes(10), shape);
  CHECK(bytes.inter_out == std::vector<Bytes>{Bytes(0), Bytes(10), Bytes(0), Bytes(10)});
  CHECK(bytes.inter_in == std::vector<Bytes>{Bytes(10), Bytes(0), Bytes(0), Bytes(10)});
  CHECK(bytes.intra_out == std::vector<Bytes>{Bytes(10), Bytes(0), Bytes(10), Bytes(10)});
  CHECK(bytes.intra_in == std::vector<Bytes>{Bytes(0), Bytes(10), Bytes(10), Bytes(10)});
  // One copy a GPU, in and out: GPU 3 sends and receives two.
  const MigrationPlan single = plan_migration(after, before, shape, 1);
  CHECK(single.batches.size() == 2);
  CHECK(moves_between_gpus(single) == 5);
}

TEST_CASE("migration: nothing moves between equal plans; a second copy beside the first stays inside its GPU") {
  const ClusterShape shape{.gpus = 2, .gpus_per_node = 1};
  const PlacementPlan before = plan_of({uniform_layer({0, 1, 2, 3}, 2), uniform_layer({0, 1, 2, 3}, 2)}, 4);
  CHECK(plan_migration(before, before, shape, 1).batches.empty());
  CHECK(plan_migration(before, before, shape, 1).switches_after == std::vector<int>{-1, -1});
  const PlacementPlan more = plan_of({{.slots = {0, 1, 0, 2, 3}, .first_slot = {0, 3, 5}, .copy_rank = {}},
                                      {.slots = {0, 1, 3, 2, 2}, .first_slot = {0, 3, 5}, .copy_rank = {}}},
                                     4);
  const MigrationPlan plan = plan_migration(more, before, shape, 1);
  CHECK(moves_between_gpus(plan) == moved_copies(more, before));
  const MigrationBytes bytes = migration_bytes(all_moves(plan), Bytes(7), shape);
  CHECK(sum(bytes.inter_out) == Bytes(7));  // expert 3 of layer 1 alone travels
  CHECK(plan.switches_after == std::vector<int>{0, 0});
  CHECK_THROWS_AS(plan_migration(more, before, shape, 0), InvariantBroken);
}

TEST_CASE("migration: an expert with two copies on a new GPU travels there once") {
  // GPU 0 sends 0 and 1, one a batch; the second copy of 1 is made on GPU 1, not before the first is there.
  const ClusterShape shape{.gpus = 2, .gpus_per_node = 1};
  const PlacementPlan before = plan_of({uniform_layer({0, 1, 2, 3, 4, 5}, 2)}, 6);
  const PlacementPlan after =
      plan_of({{.slots = {0, 1, 2, 0, 1, 1, 3, 4, 5}, .first_slot = {0, 3, 9}, .copy_rank = {}}}, 6);
  const MigrationPlan plan = plan_migration(after, before, shape, 1);
  CHECK(moved_copies(after, before) == 2);
  CHECK(moves_between_gpus(plan) == 2);
  REQUIRE(plan.batches.size() == 2);
  REQUIRE(plan.batches[1].size() == 2);
  CHECK(plan.batches[1][0].from_gpu == 0);
  CHECK(plan.batches[1][1].from_gpu == 1);
  CHECK(plan.batches[1][1].expert == 1);
  CHECK(plan.staged_on_fullest_gpu == 3);
}

TEST_CASE("migration: bytes conserved, limits kept, senders hold what they send, the new plan results") {
  const ClusterShape shape{.gpus = 8, .gpus_per_node = 4};
  for (std::uint64_t index = 0; index < 12; ++index) {
    const LoadWindow then = test::random_window(test::LoadKind::kSkewed, 4, 48, 2 * index);
    const LoadWindow now = test::random_window(test::LoadKind::kSkewed, 4, 48, 2 * index + 1);
    const PlacementPlan before = test::policy(index % 2 == 0 ? "eplb" : "craft")->plan(then, shape);
    const PlacementPlan after = test::policy(index % 3 == 0 ? "grace" : "eplb")->plan(now, shape);
    const int limit = 1 + static_cast<int>(index % 4);
    const MigrationPlan plan = plan_migration(after, before, shape, limit);
    CHECK(moves_between_gpus(plan) == moved_copies(after, before));
    std::set<std::pair<int, int>> filled;
    std::set<std::array<int, 3>> arrived;  // layer, GPU, expert
    for (std::size_t b = 0; b < plan.batches.size(); ++b) {
      std::vector<int> sent(8, 0), received(8, 0);
      for (const CopyMove& m : plan.batches[b]) {
        const auto l = static_cast<std::size_t>(m.layer);
        const bool travels = m.from_gpu != m.to_gpu;
        CHECK((holds(before.layers[l], m.from_gpu, m.expert) ||
               (!travels && arrived.count({m.layer, m.to_gpu, m.expert}) > 0)));
        CHECK((!travels || arrived.insert({m.layer, m.to_gpu, m.expert}).second));
        CHECK(plan.switches_after[l] >= static_cast<int>(b));
        CHECK(after.layers[l].slots[static_cast<std::size_t>(m.to_slot)] == m.expert);
        CHECK(holds(after.layers[l], m.to_gpu, m.expert));
        CHECK(filled.insert({m.layer, m.to_slot}).second);
        sent[static_cast<std::size_t>(m.from_gpu)] += travels ? 1 : 0;
        received[static_cast<std::size_t>(m.to_gpu)] += travels ? 1 : 0;
      }
      CHECK(*std::max_element(sent.begin(), sent.end()) <= limit);
      CHECK(*std::max_element(received.begin(), received.end()) <= limit);
      CHECK(std::accumulate(sent.begin(), sent.end(), 0) > 0);
    }
    const MigrationBytes bytes = migration_bytes(all_moves(plan), Bytes(3), shape);
    CHECK(sum(bytes.intra_out) == sum(bytes.intra_in));
    CHECK(sum(bytes.inter_out) == sum(bytes.inter_in));
    CHECK(sum(bytes.intra_out) + sum(bytes.inter_out) == Bytes(3.0 * static_cast<double>(moves_between_gpus(plan))));
    CHECK(plan.staged_on_fullest_gpu >= 1);
  }
}
