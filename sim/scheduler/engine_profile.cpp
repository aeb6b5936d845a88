#include "sim/scheduler/engine_profile.h"

#include <fmt/format.h>

#include <algorithm>

namespace epsim {

std::int64_t Budgets::per_rank(const ConfigReader& in, const std::string& key, std::int64_t value) const {
  const std::int64_t share = divided ? value / dp_ranks : value;
  in.check(value <= 0 || share > 0, key, fmt::format("divided by {} DP ranks, nothing is left of it.", dp_ranks));
  return share;
}

std::vector<std::int64_t> captured_sizes(ConfigReader& in, const Key& key,
                                         const EngineDefault<std::vector<std::int64_t>>& fallback) {
  std::vector<std::int64_t> sizes = or_engine(in, key, fallback);
  std::sort(sizes.begin(), sizes.end());
  in.check(!sizes.empty(), std::string(key.name), "at least one size is captured.");
  return sizes;
}

void read_graph_use(ConfigReader& in, const Key& key, bool key_turns_on, const EngineSite& site, GraphOptions& out) {
  out.stated = in.has(std::string(key.name));
  const bool fallback = site.can_capture == key_turns_on;
  const char* source = site.can_capture ? "the engine captures decode steps"
                                        : "this transport's messages vary in size and cannot be captured";
  const bool value = site.pools ? in.maybe<bool>(key).value_or(fallback) : in.read<bool>(key, fallback, source);
  out.enabled = value == key_turns_on;
}

EngineDefault<Seconds> no_published_gap(const EngineSite& /*site*/, bool /*drafts*/) {
  return {Seconds(0), "nobody has published it"};
}

void note_idle_knobs(const ConfigReader& in, std::initializer_list<BoundKnob> knobs, ServingOptions& out) {
  for (const BoundKnob& knob : knobs) {
    const std::string name(knob.key.name);
    const bool departs = knob.usual ? knob.value != *knob.usual
                         : knob.key.fallback.kind == key::Fallback::Kind::kValue
                             ? knob.value != knob.key.fallback.number
                             : in.has(name);
    if (departs && !knob.counts) {
      out.idle_knobs.push_back(fmt::format("{} has no effect: {}.", in.place(name).key, knob.otherwise));
    }
  }
}

}  // namespace epsim
