// What an instance is asked for alone, beside what a router that goes by prefixes sends to it.
#include "sim/study/prefix_share.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <vector>

#include "sim/study/capacity_runs.h"

namespace epsim {
namespace {

RequestTrace conversations(const std::vector<std::vector<std::int32_t>>& blocks, std::int32_t tokens) {
  RequestTrace out;
  out.prefixes = {4, 0, {0}, {}};
  for (const auto& of : blocks) {
    out.requests.push_back({Ticks{}, tokens, 1});
    for (const std::int32_t block : of) {
      out.prefixes.ids.push_back(block);
      out.prefixes.distinct = std::max(out.prefixes.distinct, block + 1);
    }
    out.prefixes.start.push_back(std::ssize(out.prefixes.ids));
  }
  return out;
}

using Positions = std::vector<std::size_t>;

}  // namespace

TEST_CASE("a conversation stays on one of two instances, which requests taken in turn would scatter") {
  // Turns of A, A, B, B, A, B: each instance gets three requests, and the first is the first of equals.
  CHECK(prefix_share(conversations({{0, 1}, {0, 1}, {2, 3}, {2, 3}, {0, 1}, {2, 3}}, 10), 2) == Positions{0, 1, 4});
  // 4 of 16 tokens are no more than 30 % of the input: such requests go to the instance with fewer.
  CHECK(prefix_share(conversations({{0}, {0}, {0}, {0}}, 16), 2) == Positions{0, 2});
  CHECK(prefix_share(conversations({{0}, {1}, {0}}, 10), 1) == Positions{0, 1, 2});
}

TEST_CASE("an instance has its share of requests where all of them begin alike") {
  // All go to the first, until it has over 64 more than the other: 65 to 0. The other one holds the prompt then, too, and of two that
  // hold as much the one with fewer requests is taken: 200 each.
  const Positions share = prefix_share(conversations(std::vector<std::vector<std::int32_t>>(400, {0, 1}), 8), 2);
  CHECK(share.size() == 200);
  CHECK(share[64] == 64);
}

// 12 conversations/s of 8 turns on four instances: the share under either router is as fast as the whole, and the second turn
// of a conversation that is elsewhere computes what the first has computed.
TEST_CASE("one instance at its share of conversations is as fast as four behind their router") {
  CapacityQuestion q;
  q.model = "olmoe-1b-7b";
  q.rate = 96;
  q.options.slo = parse_slo("ttft.p99<1s");
  q.first_requests = q.most_requests = 600;
  CapacityDesign design{InstanceRole::kWhole, "DGX-H100", 1, 8, "sglang", "bf16", 8};
  design.policy = "contiguous";
  std::vector<double> ttft;
  for (const char* router : {"cache_aware", "round_robin"}) {
    q.settings = {
        "requests={kind: sessions, session_rate: 12/s, turns: 8, think_time: 2s, max_context: 40000, "
        "count: 600, input_tokens: 3500, output_tokens: 8}",
        fmt::format("deployment.router={}", router)};
    const CapacityControl control;
    CapacityRuns runs(q, control);
    const CapacityAnswer alone = runs.alone({{design, 1}});
    const double share = runs.ask({{design, 1}}, 4, alone).point.ttft_s.mean;
    const double whole = runs.ask({{design, 4}}, 1, alone, AskedFor::kDeployment).point.ttft_s.mean;
    CAPTURE(router);
    CAPTURE(share);
    CAPTURE(whole);
    CHECK(share / whole > 0.9);
    CHECK(share / whole < 1.14);  // 1.16 with 1,200 requests: the share errs to the slow side
    ttft.push_back(whole);
  }
  CHECK(ttft[0] < 0.8 * ttft[1]);
}

}  // namespace epsim
