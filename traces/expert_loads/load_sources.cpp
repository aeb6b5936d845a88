#include "traces/expert_loads/load_sources.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "traces/expert_loads/timed_load_source.h"
#include "traces/expert_loads/window_load_source.h"
#include "traces/routing_model/model_load_source.h"

namespace epsim {

// Defined beside each reader.
extern const LoadReader kSglangCountsLoads, kUniformLoads, kZipfLoads, kSkewLoads, kTraceFileLoads, kImbalanceLoads;

namespace {

enum class Variation { kReplay, kSampled, kNone };

}  // namespace

template <>
inline constexpr auto kNames<Variation> =
    choice<Variation>({{"replay", Variation::kReplay}, {"sampled", Variation::kSampled}, {"none", Variation::kNone}});

namespace {

constexpr KeyTable kKeys({
    {"kind", key::one_of([] { return entry_names(load_readers()); }, "epsim list readers"), key::kRequired,
     "A generator, or format of a recording."},
    {"windows", key::sections(), key::kNone,
     "Loads that change during the run: one section after another, instead of a kind."},
    {"for", key::time(Bound::kPositive), key::by("required in windows"), "How long an item of `windows` lasts."},
    {"overdispersion", key::number(), key::is(1.0), "Variance of sampled counts over that of independent tokens."},
});
constexpr KeyTable kReplayedKeys({{"variation", key::one_of<Variation>(), key::is(Variation::kReplay),
                                   "replay: step by step as recorded or drawn; otherwise around the mean."}});
constexpr KeyTable kSampledKeys({{"variation", key::one_of([] {
                                    return std::vector<std::string>{"sampled", "none"};
                                  }),
                                  key::is(Variation::kSampled),
                                  "sampled: each step draws its tokens; none: each step has exactly the mean."}});

constexpr const Key& variation_key(const LoadReader& reader) {
  return (reader.replay != nullptr ? std::span<const Key>(kReplayedKeys) : std::span<const Key>(kSampledKeys)).front();
}

}  // namespace

std::span<const LoadReader> load_readers() {
  static const LoadReader all[] = {
      kSglangCountsLoads,
      kUniformLoads,
      kZipfLoads,
      kSkewLoads,
      kTraceFileLoads,
      {"model", "a statistical model of routing (preset or fitted), drawn per step and rank", model_load_keys(),
       make_model_window, make_model_source},
      kImbalanceLoads};
  return all;
}

// What every use of a window relies on: pi_e <= 1 and no empty layer.
std::string problem_of(const LoadWindow& window, const MoeSpec& model) {
  for (int l = 0; l < window.layers(); ++l) {
    const std::span<const double> row = window.layer(l);
    const auto hottest = std::max_element(row.begin(), row.end());
    const double total = window.total(l);
    const int number = model.moe_layer_numbers()[l];
    if (!(total > 0)) {
      return fmt::format("model layer {} has no load at all; every MoE layer needs some.", number);
    }
    // One part in a million: counts that were rounded or scaled on the way.
    if (*hottest * model.top_k > total * (1 + 1e-6)) {
      return fmt::format("model layer {}, expert {}: it takes {:.4g} assignments per token; with top-{} routing an "
                         "expert takes at most 1.",
                         number, hottest - row.begin(), *hottest * model.top_k / total, model.top_k);
    }
  }
  return "";
}

std::vector<SectionKeys> load_keys() {
  std::vector<SectionKeys> out{{"loads", "", kKeys}};
  for (const LoadReader& reader : load_readers()) {
    out.push_back({"loads", reader.name, {&variation_key(reader), 1}});
  }
  add_entries("loads", load_readers(), out);
  return out;
}

namespace {

const LoadReader& chosen_reader(ConfigReader& in) {
  const auto kind = in.read<std::string>(kKeys["kind"]);
  const auto all = load_readers();
  return *std::find_if(all.begin(), all.end(), [&](const LoadReader& r) { return r.name == kind; });
}

LoadWindow read_checked(const LoadReader& reader, ConfigReader& in, const MoeSpec& model, Seed seed) {
  LoadWindow window = reader.read(in, model, seed);
  const std::string problem = problem_of(window, model);
  in.check(problem.empty(), "kind", problem);
  return window;
}

std::unique_ptr<ExpertLoadSource> make_one_source(ConfigReader& in, const MoeSpec& model, Seed seed) {
  const LoadReader& reader = chosen_reader(in);
  const auto variation = in.read<Variation>(variation_key(reader));
  if (variation == Variation::kReplay) {
    return reader.replay(in, model, seed);
  }
  const double overdispersion = variation == Variation::kSampled ? in.read<double>(kKeys["overdispersion"]) : 0.0;
  return std::make_unique<WindowLoadSource>(read_checked(reader, in, model, seed), model.top_k, overdispersion, seed);
}

// The entries of `windows`, at least one.
std::vector<ConfigReader> windows_of(ConfigReader& in) {
  std::vector<ConfigReader> out = in.list_of_sections(kKeys["windows"]);
  in.check(!out.empty(), "windows", "this list is empty; name at least one source of loads.");
  return out;
}

Seconds length_of(ConfigReader& window) { return window.read<Seconds>(kKeys["for"]); }

}  // namespace

LoadWindow read_load_window(ConfigReader& in, const MoeSpec& model, Seed seed) {
  if (!in.has("windows")) {
    return read_checked(chosen_reader(in), in, model, seed);
  }
  std::vector<LoadWindow> windows;
  std::vector<Seconds> lengths;
  for (ConfigReader& window : windows_of(in)) {
    windows.push_back(read_checked(chosen_reader(window), window, model, seed));
    lengths.push_back(length_of(window));
  }
  return mean_of(windows, lengths);
}

std::unique_ptr<ExpertLoadSource> make_load_source(ConfigReader& in, const MoeSpec& model, Seed seed) {
  if (!in.has("windows")) {
    return make_one_source(in, model, seed);
  }
  std::vector<TimedLoadSource::Window> windows;
  Seconds end{};
  for (ConfigReader& window : windows_of(in)) {
    end += length_of(window);
    window.check(end.count() < 9e6, "for", "the windows last longer than a run can be (106 days).");
    windows.push_back({to_ticks(end), make_one_source(window, model, seed)});
  }
  return std::make_unique<TimedLoadSource>(std::move(windows));
}

}  // namespace epsim
