#include "sim/cluster/latency.h"

#include <utility>
#include <vector>

namespace epsim {
namespace {

// One figure of every completed request for which `wanted` holds; a vector at a time keeps a large run small.
template <class Figure, class Wanted>
Summary summarize_completed(std::span<const RequestRecord> requests, Figure figure, Wanted wanted) {
  std::vector<double> samples;
  samples.reserve(requests.size());
  for (const RequestRecord& r : requests) {
    if (r.state == RequestState::kCompleted && wanted(r)) {
      samples.push_back(figure(r));
    }
  }
  return summarize(std::move(samples));
}

double seconds_between(Ticks from, Ticks to) { return to_seconds(to - from).count(); }

}  // namespace

LatencySummary summarize_latency(std::span<const RequestRecord> requests, GapSamples& gaps) {
  const auto all = [](const RequestRecord&) { return true; };
  const auto several = [](const RequestRecord& r) { return r.output_tokens > 1; };
  LatencySummary out;
  out.ttft_s = summarize_completed(
      requests, [](const RequestRecord& r) { return seconds_between(r.arrival, r.first_token); }, all);
  out.tpot_s = summarize_completed(
      requests,
      [](const RequestRecord& r) { return seconds_between(r.first_token, r.finished) / (r.output_tokens - 1); },
      several);
  out.e2e_s = summarize_completed(
      requests, [](const RequestRecord& r) { return seconds_between(r.arrival, r.finished); }, all);
  out.queue_s = summarize_completed(
      requests, [](const RequestRecord& r) { return seconds_between(r.arrival, r.admitted); }, all);
  out.itl_s = gaps.summary();
  return out;
}

}  // namespace epsim
