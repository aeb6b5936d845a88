// A single replica whose steps cost 5 ms, 10 us a token and 0.1 us a cached token that decodes read (the linear step
// time that Splitwise, ISCA 2024, and Vidur, MLSys 2024, find for dense models), followed by hand to the picosecond.
#include <doctest/doctest.h>

#include <vector>

#include "sim/cluster/simulate.h"
#include "tests/support/fakes.h"

namespace epsim {
namespace {

class LinearPricer : public InstanceModel {
 public:
  StepCost price(const StepAt&, std::span<const RankBatch> ranks) override {
    const RankBatch& r = ranks[0];
    return test::declared_cost(Seconds{5e-3 + 10e-6 * static_cast<double>(r.tokens()) + 0.1e-6 * r.decode_context});
  }
};

struct Times {
  double ttft_us, e2e_us;
};

void check(const RequestTrace& trace, const ServingOptions& options, const std::vector<Times>& expected) {
  LinearPricer pricer;
  const RunResult run = simulate(trace, options, pricer, {});
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    const RequestRecord& r = run.requests[i];
    CHECK(to_seconds(r.first_token - r.arrival).count() * 1e6 == doctest::Approx(expected[i].ttft_us).epsilon(1e-9));
    CHECK(to_seconds(r.finished - r.arrival).count() * 1e6 == doctest::Approx(expected[i].e2e_us).epsilon(1e-9));
  }
}

}  // namespace

TEST_CASE("one request alone: two chunks, three decodes") {
  // Chunks of 512 and 488: 10,120 + 9,880 us. Decodes on 1000, 1001 and 1002 cached tokens: 5,110 + 5,110.1 + 5,110.2.
  ServingOptions options = test::one_rank(512, false);
  test::sglang(options).reserve_full = false;
  check(test::trace_of({{0, 1000, 4}}), options, {{20'000, 35'330.3}});
}

TEST_CASE("two requests, the second's prompt beside the first's decode") {
  // A's 300 tokens: 8,000 us. A on 300 cached and B's 200: 201 tokens, 5,000 + 2,010 + 30 us: at 15,040. Both decode on
  // 301 + 200 cached: 5,000 + 20 + 50.1 us: at 20,110.1. B arrived at 1,000.
  ServingOptions options = test::one_rank(512, true);
  test::sglang(options).reserve_full = false;
  check(test::trace_of({{0, 300, 3}, {1, 200, 2}}), options, {{8'000, 20'110.1}, {14'040, 19'110.1}});
}

TEST_CASE("vLLM: two prompts share a budget of 256 tokens") {
  // 256 of A: 7,560 us. A's other 144 and B's 100: 7,440 us: at 15,000. Both decode on 400 + 100: 5,070 us.
  ServingOptions options = test::one_rank(256);
  options.engine = "vllm_v1";
  options.knobs = VllmKnobs{};
  check(test::trace_of({{0, 400, 2}, {0, 100, 2}}), options, {{15'000, 20'070}, {15'000, 20'070}});
}

}  // namespace epsim
