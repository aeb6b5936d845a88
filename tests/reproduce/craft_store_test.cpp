// What is kept of a search reads back as it was.
#include "sim/reproduce/craft_store.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/report/sample_study.h"

namespace epsim {
namespace {

std::vector<SearchedPolicy> sample() {
  std::vector<SearchedPolicy> out(2);
  out[0].search = test::sample_search("cra8", 0, 1.0 / 3, 6.1);
  out[1].search = test::sample_search("cra8", 1, 2.7, 1e-9);
  out[0].search.knee.limit = KneeLimit::kUnstable;
  out[0].search.curve[0].tpot_s.mean = std::nan("");  // no request with a second token
  out[0].search.from_backlog = {test::sample_probe(6.1, 0.7)};
  out[0].search.from_backlog[0].backlog = 741;
  out[0].near_knee.rate = 6.1;
  out[0].near_knee.part_share[3] = 0.1;
  out[0].near_knee.kv_full_share = 0.3;
  out[1].near_knee.decode_step_s = 0.089;
  return out;
}

}  // namespace

TEST_CASE("a stored search has every figure, to the last bit") {
  const std::vector<SearchedPolicy> before = sample();
  const auto after = stored_by_seed<SearchedPolicy>(stored_text(before));
  REQUIRE(after.has_value());
  CHECK(stored_text(*after) == stored_text(before));
  REQUIRE(after->size() == 2);
  const GoodputSearch &a = after->at(0).search, &b = before[0].search;
  CHECK(a.policy == "cra8");
  CHECK(a.seed == b.seed);
  CHECK(a.knee.rate == b.knee.rate);
  CHECK(a.knee.limit == KneeLimit::kUnstable);
  CHECK(a.sensitivity[0].rate == 1.0 / 3);
  CHECK(a.best.fingerprint == b.best.fingerprint);
  CHECK(a.curve.size() == 2);
  CHECK(std::isnan(a.curve[0].tpot_s.mean));
  CHECK(a.curve[1].measured_requests == 800);
  CHECK(a.kv_tokens_per_rank == 1000);
  CHECK(after->at(0).near_knee.rate == before[0].near_knee.rate);
  CHECK(after->at(0).near_knee.part_share == before[0].near_knee.part_share);
  CHECK(after->at(1).near_knee.decode_step_s == 0.089);
}

TEST_CASE("text that is damaged or of another layout is as good as absent") {
  const std::string text = stored_text(sample());
  CHECK_FALSE(stored_by_seed<SearchedPolicy>("").has_value());
  CHECK_FALSE(stored_by_seed<SearchedPolicy>(text.substr(0, text.size() / 2)).has_value());
  CHECK_FALSE(stored_by_seed<SearchedPolicy>("{\"format\": 4}").has_value());
  CHECK_FALSE(stored_by_seed<SearchedPolicy>("[]").has_value());
  CHECK_FALSE(stored_by_seed<FixedRate>(text).has_value());
  const std::vector<FixedRate> fixed{{1.5, 2.5}, {1.75, 3.5}};
  CHECK(stored_by_seed<FixedRate>(stored_text(fixed))->at(1).ttft_mean_s == 3.5);
  const std::vector<Saturated> saturated{{0.25, 0.5}, {0.75, 0.5}};
  CHECK(stored_by_seed<Saturated>(stored_text(saturated))->at(1).wait_over_exchange() == 1.5);
}

}  // namespace epsim
