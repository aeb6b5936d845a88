#include "sim/cluster/run_series.h"

#include <algorithm>

namespace epsim {

std::size_t SeriesRecorder::stretch_of(Ticks at) const {
  return at <= Ticks{} ? 0 : static_cast<std::size_t>((at.count() - 1) / width_.count());
}

// Makes stretches up to the one that holds `at`.
void SeriesRecorder::cover(Ticks at) {
  while (stretch_of(at) >= kMostStretches) {
    stretches_.resize(kMostStretches);
    for (std::size_t i = 0; i < kMostStretches / 2; ++i) {
      const Stretch &a = stretches_[2 * i], &b = stretches_[2 * i + 1];
      stretches_[i] = {a.running + b.running,
                       a.queued + b.queued,
                       a.kv_blocks + b.kv_blocks,
                       a.stepping_gpus + b.stepping_gpus,
                       a.output_tokens + b.output_tokens,
                       a.first_tokens + b.first_tokens,
                       a.ttft + b.ttft};
    }
    stretches_.resize(kMostStretches / 2);
    width_ *= 2;
  }
  stretches_.resize(std::max(stretches_.size(), stretch_of(at) + 1));
}

void SeriesRecorder::advance(Ticks now, const Levels& levels) {
  if (now == last_) {
    return;
  }
  cover(now);
  for (std::size_t i = stretch_of(last_ + Ticks{1}); last_ < now; ++i) {
    const Ticks until = std::min(now, width_ * static_cast<std::int64_t>(i + 1));
    const double seconds = to_seconds(until - last_).count();
    stretches_[i].running += static_cast<double>(levels.running) * seconds;
    stretches_[i].queued += static_cast<double>(levels.queued) * seconds;
    stretches_[i].kv_blocks += static_cast<double>(levels.kv_blocks) * seconds;
    stretches_[i].stepping_gpus += static_cast<double>(levels.stepping_gpus) * seconds;
    last_ = until;
  }
}

RunSeries SeriesRecorder::finish(Ticks end, std::int64_t kv_blocks, std::span<const RequestRecord> requests) {
  cover(end);
  for (const RequestRecord& r : requests) {
    if (r.first_token > r.admitted) {
      Stretch& s = stretches_[stretch_of(r.first_token)];
      ++s.output_tokens;
      ++s.first_tokens;
      s.ttft += to_seconds(r.first_token - r.arrival);
    }
  }
  RunSeries out;
  out.width = width_;
  for (std::size_t i = 0; i < stretches_.size() && end > Ticks{}; ++i) {
    const Stretch& s = stretches_[i];
    const Ticks start = width_ * static_cast<std::int64_t>(i);
    const double seconds = to_seconds(std::min(width_, end - start)).count();
    out.points.push_back({to_seconds(start), Seconds(seconds), s.running / seconds, s.queued / seconds,
                          kv_blocks > 0 ? s.kv_blocks / (static_cast<double>(kv_blocks) * seconds) : 0.0,
                          s.output_tokens, s.first_tokens, s.ttft, s.stepping_gpus / seconds});
  }
  return out;
}

double stepping_share(const RunSeries& series, int gpus, Ticks from, Ticks to) {
  double busy = 0;  // GPU-seconds
  for (const SeriesPoint& p : series.points) {
    const Seconds begin = std::max(p.start, to_seconds(from)), end = std::min(p.start + p.length, to_seconds(to));
    busy += p.stepping_gpus * std::max(0.0, (end - begin).count());
  }
  return to > from ? busy / (gpus * to_seconds(to - from).count()) : 0;
}

}  // namespace epsim
