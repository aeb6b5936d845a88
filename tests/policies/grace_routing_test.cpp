// GRACE-MoE's component study (Sec. 5.3, Figure 5) on real tokens: gpt-oss-20b, 32 experts, top-4, 24 layers, on 2
// nodes of 2 GPUs. The model is not the paper's, so the signs are checked, not the sizes. Rows are sent once per node
// and then on inside it, as the paper's Sec. 5.1 says; sent once per GPU, topology-aware routing would raise the rows
// inside nodes by 4 %, where the paper's fall by 6.7 %: what it keeps from other nodes goes to the node's other GPU.
#include <doctest/doctest.h>

#include <vector>

#include "policies/placement/grace/grace.h"
#include "tests/policies/grace_support.h"

using namespace epsim;

namespace {

constexpr test::RoutingShape kRouting = test::kGptOss;
constexpr ClusterShape kCluster{.gpus = 4, .gpus_per_node = 2};
constexpr std::size_t kTokens = 120000, kBlock = 1000;

std::vector<std::uint8_t> read_tokens() { return test::gpt_oss_tokens(0, kTokens); }

// Blocks of tokens in turn: one half to plan from, the other to run on.
std::vector<std::uint8_t> half(const std::vector<std::uint8_t>& ids, std::size_t which) {
  std::vector<std::uint8_t> out;
  const std::size_t bytes = kBlock * kRouting.ids_per_token();
  for (std::size_t at = which * bytes; at < ids.size(); at += 2 * bytes) {
    out.insert(out.end(), ids.begin() + static_cast<std::ptrdiff_t>(at),
               ids.begin() + static_cast<std::ptrdiff_t>(at + bytes));
  }
  return out;
}

}  // namespace

TEST_CASE("GRACE Figure 5 on gpt-oss-20b: grouping saves traffic and skews load, copies and routing mend both") {
  const std::vector<std::uint8_t> ids = read_tokens();
  const LoadWindow window = test::window_from_routing<std::uint8_t>(half(ids, 0), kRouting);
  const std::vector<std::uint8_t> tokens = half(ids, 1);
  const auto run = [&](const char* policy, Dedup dedup = Dedup::kNode) {
    return test::count_rows<std::uint8_t>(test::placed(policy, window, kCluster), tokens, kRouting, kCluster, dedup);
  };
  const test::Rows vanilla = run("grace_vanilla"), grouped = run("grace_hg");
  CHECK(grouped.cross_node < vanilla.cross_node);  // G06
  CHECK(grouped.in_node < vanilla.in_node);        // G07
  CHECK(grouped.deviation > vanilla.deviation);    // G09

  const test::Rows weighted = run("grace_hg_dr_wrr");
  CHECK(weighted.deviation < grouped.deviation);    // G11
  CHECK(weighted.cross_node > grouped.cross_node);  // G13
  CHECK(weighted.in_node > grouped.in_node);

  const test::Rows nearest = run("grace_hg_dr_tar");
  CHECK(nearest.cross_node < weighted.cross_node);  // G15
  CHECK(nearest.in_node < weighted.in_node);        // G16
  CHECK(nearest.deviation > weighted.deviation);
  CHECK(nearest.deviation < grouped.deviation);
  // Sent once per GPU, rows between and inside nodes still fall together, but not those inside.
  const test::Rows flat_weighted = run("grace_hg_dr_wrr", Dedup::kGpu), flat = run("grace_hg_dr_tar", Dedup::kGpu);
  CHECK(flat.cross_node + flat.in_node < flat_weighted.cross_node + flat_weighted.in_node);
  CHECK(flat.in_node > flat_weighted.in_node);
}

TEST_CASE(
    "GRACE on gpt-oss-20b: more affinity inside GPUs than contiguous groups keep, in every layer and at every ratio") {
  const std::vector<std::uint8_t> ids = read_tokens();
  const LoadWindow window =
      test::window_from_routing<std::uint8_t>(std::span(ids).first(20000 * kRouting.ids_per_token()), kRouting);
  Grouping contiguous(4);
  for (int e = 0; e < kRouting.experts; ++e) {
    contiguous[static_cast<std::size_t>(e / 8)].push_back(e);
  }
  for (int step = 1; step <= 10; ++step) {
    GraceExplanation why;
    GraceOptions options;
    options.ratio = 0.05 * step;
    grace_plan(options, window, kCluster, &why);
    for (std::size_t l = 0; l < 24; ++l) {
      CAPTURE(l);
      CAPTURE(why.ratio);
      const std::span<const double> values = window.affinity()->layer(static_cast<int>(l));
      const AffinityMatrix affinity(kRouting.experts, {values.begin(), values.end()});
      CHECK(affinity_utilisation(affinity, why.groups[l]) >= affinity_utilisation(affinity, contiguous));
    }
  }
}
