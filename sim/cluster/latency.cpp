#include "sim/cluster/latency.h"

#include <utility>
#include <vector>

namespace epsim {
namespace {

// Of more requests the values are not kept to be sorted.
constexpr std::size_t kSorted = std::size_t{1} << 20;

// One figure of every completed request for which `wanted` holds.
template <class Figure, class Wanted>
Summary summarize_completed(std::span<const RequestRecord> requests, Figure figure, Wanted wanted) {
  const auto each = [&](const auto& take) {
    for (const RequestRecord& r : requests) {
      if (r.state == RequestState::kCompleted && wanted(r)) {
        take(figure(r));
      }
    }
  };
  std::vector<double> samples;
  if (requests.size() <= kSorted) {
    samples.reserve(requests.size());
    each([&](double x) { samples.push_back(x); });
    return summarize(std::move(samples));
  }
  constexpr std::size_t kPart = 1024;
  samples.reserve(kPart);
  return summarize_parts([&](const auto& take) {
    each([&](double x) {
      samples.push_back(x);
      if (samples.size() == kPart) {
        take(samples);
        samples.clear();
      }
    });
    take(samples);
    samples.clear();
  });
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
