// What an SLO may say, and how a run stands to it.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "sim/core/error.h"
#include "sim/scenario/slo.h"
#include "sim/study/goodput.h"
#include "sim/study/load_point.h"
#include "tests/support/errors.h"
#include "tests/support/fakes.h"

namespace epsim {

TEST_CASE("SLO: terms, their names, and what is refused") {
  const Slo slo = parse_slo("ttft.p99<2s, tpot.mean<=50ms,e2e=1min,attainment>=0.95");
  REQUIRE(slo.terms.size() == 3);
  CHECK(slo.terms[0].metric == LatencyMetric::kTtft);
  CHECK(slo.terms[0].stat == LatencyStat::kP99);
  CHECK(slo.terms[1].metric == LatencyMetric::kTpot);
  CHECK(slo.terms[1].bound.count() == doctest::Approx(0.05));
  CHECK(slo.terms[2].stat == LatencyStat::kEach);
  CHECK(slo.terms[2].bound.count() == doctest::Approx(60));
  CHECK(name_of(slo) == "ttft.p99<2s, tpot.mean<50ms, e2e<60s, attainment>=0.95");
  CHECK(parse_slo("ttft=2s").attainment == 0.99);
  struct Wrong {
    const char* text;
    std::vector<std::string> says;
  };
  for (const Wrong& wrong :
       {Wrong{"tftt<2s", {"tftt", "ttft"}}, Wrong{"itl.p99<50ms", {"single gaps", "tpot"}},
        Wrong{"ttft.p98<2s", {"p98", "p99"}}, Wrong{"ttft<2", {"unit", "ms"}}, Wrong{"ttft>2s", {"upper bound"}},
        Wrong{"ttft<2s,ttft<3s", {"twice"}}, Wrong{"ttft.p99<0s", {"positive"}},
        Wrong{"attainment>=0.9", {"name at least one"}},
        Wrong{"ttft.p99<2s,attainment>=0.9", {"there are none", "ttft<2s"}},
        Wrong{"ttft<2s,attainment>=99", {"above 0 and below 1"}}, Wrong{"ttft<2s,attainment<0.9", {"lower bound"}},
        Wrong{"ttft", {"no bound"}}, Wrong{"", {"name at least one"}}}) {
    CAPTURE(wrong.text);
    const InputError error = test::error_of<InputError>([&] { parse_slo(wrong.text); });
    CHECK(error.place.key == "slo");
    for (const std::string& word : wrong.says) {
      CHECK_MESSAGE(std::string(error.what()).find(word) != std::string::npos, error.what(), " does not say ", word);
    }
  }
}

TEST_CASE("SLO: how a run stands to every kind of term, by hand") {
  // Every fourth request has its first token after 1.5 s, the others after 0.5 s; all end after 2 s: 2 gaps of 0.25 s
  // or 0.75 s. A quarter of the requests misses a TTFT of 1 s, three quarters a TPOT of 0.5 s; the means are 0.75 s and
  // (0.25 + 3 x 0.75) / 4 = 0.625 s.
  RunResult run;
  for (int i = 0; i < 400; ++i) {
    RequestRecord r;
    r.state = RequestState::kCompleted;
    r.output_tokens = 3;
    r.arrival = 1000 * i * test::kMs;
    r.first_token = r.arrival + (i % 4 == 0 ? 1500 : 500) * test::kMs;
    r.finished = r.arrival + 2000 * test::kMs;
    run.requests.push_back(r);
  }
  const auto score_of = [](const RunResult& of, const std::string& slo) {
    GoodputOptions options;
    options.slo = parse_slo(slo);
    return measure_load_point(of, 1.0, options).slo;
  };
  const auto score = [&](const std::string& slo) { return score_of(run, slo); };
  CHECK(score("ttft<1s").attainment == doctest::Approx(0.75));
  CHECK(score("ttft<1s,tpot<500ms").attainment == 0);
  CHECK(score("ttft<1s,tpot<500ms").limit == 1);  // more requests miss it
  CHECK(score("ttft<2s,tpot<1s,e2e<2s").attainment == 1);
  CHECK(score("ttft<2s,tpot<1s,e2e<2s").holds);
  CHECK(score("ttft<1s").excess == doctest::Approx(std::log(0.25 / 0.01)));
  CHECK_FALSE(score("ttft<1s").holds);
  CHECK(score("ttft<1s,attainment>=0.7").holds);
  CHECK(score("ttft.p50<1s").holds);
  CHECK_FALSE(score("ttft.p90<1s").holds);
  CHECK(score("ttft.mean<1s").excess == doctest::Approx(std::log(0.75)));
  CHECK(score("ttft.mean<1s,tpot.mean<600ms").limit == 1);
  CHECK(score("ttft.mean<1s,tpot.mean<600ms").excess == doctest::Approx(std::log(0.625 / 0.6)));
  CHECK(score("e2e.p99<2s").decided == false);  // none of 320 is late: 3 / 320 might be, by the rule of three, and
                                                // 1 % less than that may be: 0.99 of 1 % is not told from 1 %
  // Of a share, what was measured is kept: none late is none, of however few requests that have a second token.
  CHECK(score("tpot.p99<800ms").terms[0].value == 0);
  CHECK(score("tpot.p99<800ms").terms[0].half_width == doctest::Approx(3.0 / 320));
  RunResult short_answers = run;
  for (std::size_t i = 0; i < short_answers.requests.size(); ++i) {
    short_answers.requests[i].output_tokens = i % 4 == 0 ? 3 : 1;
  }
  const SloTermScore quarter = score_of(short_answers, "tpot.p99<800ms").terms[0];
  CHECK(quarter.value == 0);
  CHECK(quarter.half_width == doctest::Approx(3.0 / 80));
  run.requests[200].state = RequestState::kFailed;
  CHECK(score("ttft<2s").attainment == doctest::Approx(1 - 1.0 / 320));  // a lost request meets no bound
}

}  // namespace epsim
