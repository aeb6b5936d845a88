#include "sim/cluster/latency.h"

#include <doctest/doctest.h>

#include <cstdint>

#include "sim/scheduler/gap_samples.h"

namespace epsim {

// Request i, from 0, waits i ns, has its first token after 2 i ns and the last of three after 4 i ns; every second has
// one token and ends with it. Of n requests the quantile q is the ceil(q n)-th from below.
TEST_CASE("latencies of more requests than are sorted, by hand") {
  constexpr std::int64_t kRequests = (std::int64_t{1} << 20) + 10;
  RequestRecords records(static_cast<std::size_t>(kRequests));
  for (std::int64_t i = 0; i < kRequests; ++i) {
    RequestRecord& r = records[static_cast<std::size_t>(kRequests - 1 - i)];
    r.state = RequestState::kCompleted;
    r.output_tokens = i % 2 == 0 ? 1 : 3;
    r.admitted = Ticks{1000 * i};
    r.first_token = Ticks{2000 * i};
    r.finished = Ticks{(i % 2 == 0 ? 2000 : 4000) * i};
  }
  records.back().state = RequestState::kFailed;  // i = 0: n = kRequests - 1 are left, from 1 ns up
  GapSamples gaps;
  const LatencySummary latency = summarize_latency(records, gaps);
  const auto ns = [](double x) { return doctest::Approx(x * 1e-9).epsilon(1e-12); };
  CHECK(latency.queue_s.count == 1048585);
  CHECK(latency.queue_s.p50 == ns(524293));   // of 524292.5
  CHECK(latency.queue_s.p90 == ns(943727));   // of 943726.5
  CHECK(latency.queue_s.p95 == ns(996156));   // of 996155.75
  CHECK(latency.queue_s.p99 == ns(1038100));  // of 1038099.15
  CHECK(latency.queue_s.max == ns(1048585));
  CHECK(latency.queue_s.mean == doctest::Approx(1048586 / 2.0 * 1e-9));
  CHECK(latency.ttft_s.p50 == ns(2 * 524293));
  // TPOT is 1 ns x i of the odd i, of which there are 524293: the 262147th is 2 x 262147 - 1.
  CHECK(latency.tpot_s.count == 524293);
  CHECK(latency.tpot_s.p50 == ns(524293));
}

}  // namespace epsim
