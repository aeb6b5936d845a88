#include "traces/expert_loads/timed_load_source.h"

#include <algorithm>

namespace epsim {

const ExpertLoadSource& TimedLoadSource::at(Ticks time) const {
  const auto window =
      std::find_if(windows_.begin(), windows_.end() - 1, [time](const Window& w) { return time < w.end; });
  return *window->loads;
}

void TimedLoadSource::draw(const StepAt& step, std::span<const std::int64_t> tokens, StepLoads& out) const {
  at(step.start).draw(step, tokens, out);
}

void TimedLoadSource::draw_mixed(const StepAt& step, std::span<const std::int64_t> tokens,
                                 std::span<const std::int64_t> decodes, StepLoads& out) const {
  at(step.start).draw_mixed(step, tokens, decodes, out);
}

LoadWindow mean_of(const std::vector<LoadWindow>& windows, const std::vector<Seconds>& lengths) {
  LoadWindow out(windows.front().layers(), windows.front().experts());
  for (std::size_t w = 0; w < windows.size(); ++w) {
    for (int l = 0; l < out.layers(); ++l) {
      const double weight = lengths[w].count() / windows[w].total(l);
      const std::span<const double> from = windows[w].layer(l);
      std::transform(from.begin(), from.end(), out.layer(l).begin(), out.layer(l).begin(),
                     [weight](double load, double sum) { return sum + load * weight; });
    }
  }
  return out;
}

}  // namespace epsim
