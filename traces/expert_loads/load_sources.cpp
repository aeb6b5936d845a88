#include "traces/expert_loads/load_sources.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "traces/expert_loads/mixed_load_source.h"
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
    {"mix", key::sections(), key::kNone, "Sources that serve a share of the tokens each, instead of a kind."},
    {"share", key::number_or_list(), key::by("required in mix"),
     "Share of the tokens that an item of `mix` serves, over the sum of all shares; a list: one share every `every`, "
     "linear between."},
    {"every", key::time(Bound::kPositive), key::by("required where a share is a list"),
     "Time between two values of `share`."},
    {"overdispersion", key::number(), key::is(1.0), "Variance of sampled counts over that of independent tokens."},
});
constexpr KeyTable kReplayedKeys({{"variation", key::one_of<Variation>(),
                                   key::by("replay; sampled of a trace with one row, a recording's total"),
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
      return fmt::format(
          "model layer {}, expert {}: it takes {:.4g} assignments per token; with top-{} routing an "
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
  return *std::ranges::find(all, kind, &LoadReader::name);
}

LoadWindow read_checked(const LoadReader& reader, ConfigReader& in, const MoeSpec& model, Seed seed) {
  LoadWindow window = reader.read(in, model, seed);
  const std::string problem = problem_of(window, model);
  in.check(problem.empty(), in.has("path") ? "path" : "kind", problem);
  return window;
}

std::unique_ptr<ExpertLoadSource> make_one_source(ConfigReader& in, const MoeSpec& model, Seed seed) {
  const LoadReader& reader = chosen_reader(in);
  const bool totals = reader.totals != nullptr && reader.totals(in, model);
  const auto usual = totals ? Variation::kSampled : Variation::kReplay;
  const auto variation = reader.replay == nullptr ? in.read<Variation>(variation_key(reader))
                                                  : in.read<Variation>(variation_key(reader), usual);
  if (variation == Variation::kReplay) {
    return reader.replay(in, model, seed);
  }
  const double overdispersion = variation == Variation::kSampled ? in.read<double>(kKeys["overdispersion"]) : 0.0;
  return std::make_unique<WindowLoadSource>(read_checked(reader, in, model, seed), model.top_k, overdispersion, seed);
}

// A source of `windows` or `mix`: its section, and its shares of the tokens.
struct PartOfLoads {
  ConfigReader section;
  ShareCurve shares;
  double mean = 0;  // share over the time that shares are given for
};

std::vector<ConfigReader> sources_of(ConfigReader& in, const Key& list) {
  std::vector<ConfigReader> out = in.list_of_sections(list);
  in.check(!out.empty(), std::string(list.name), "this list is empty; name at least one source of loads.");
  return out;
}

// One after another: a share of 1 while a source's time lasts.
std::vector<PartOfLoads> read_windows(ConfigReader& in) {
  std::vector<PartOfLoads> out;
  Seconds start{};
  for (ConfigReader& section : sources_of(in, kKeys["windows"])) {
    const auto length = section.read<Seconds>(kKeys["for"]);
    const Seconds end = start + length;
    section.check(end.count() < 9e6, "for", "the windows last longer than a run can be (106 days).");
    ShareCurve shares;
    if (start.count() > 0) {
      shares = {{{}, 0}, {to_ticks(start), 0}};
    }
    shares.insert(shares.end(), {{to_ticks(start), 1}, {to_ticks(end), 1}, {to_ticks(end), 0}});
    out.push_back({section, std::move(shares), length.count()});
    start = end;
  }
  out.back().shares.pop_back();  // the last one holds on
  return out;
}

// Shares of all parts add up to 1 at every point.
void normalise(ConfigReader& in, std::vector<std::vector<double>>& shares) {
  for (std::size_t p = 0; p < shares.front().size(); ++p) {
    double sum = 0;
    for (const std::vector<double>& of : shares) {
      sum += of[p];
    }
    in.check(sum > 0, "mix", "all shares are 0 at one time; one source has to serve the tokens.");
    for (std::vector<double>& of : shares) {
      of[p] /= sum;
    }
  }
}

std::vector<PartOfLoads> read_mix(ConfigReader& in) {
  std::vector<ConfigReader> sections = sources_of(in, kKeys["mix"]);
  std::vector<std::vector<double>> shares;
  std::size_t points = 1;
  for (ConfigReader& section : sections) {
    shares.push_back(section.read<NumberOrList>(kKeys["share"]).values);
    section.check(!shares.back().empty(), "share", "this list is empty; give at least one share.");
    points = std::max(points, shares.back().size());
  }
  for (std::vector<double>& of : shares) {
    of.resize(points, of.back());
  }
  normalise(in, shares);
  const Seconds every = points > 1 ? in.read<Seconds>(kKeys["every"]) : Seconds{1};
  in.check(every.count() * static_cast<double>(points) < 9e6, "every",
           "the shares last longer than a run can be (106 days).");
  std::vector<PartOfLoads> out;
  for (std::size_t s = 0; s < sections.size(); ++s) {
    PartOfLoads part{sections[s], {}, 0};
    for (std::size_t p = 0; p < points; ++p) {
      part.shares.push_back({to_ticks(every * static_cast<double>(p)), shares[s][p]});
      part.mean += shares[s][p] * (points > 1 && (p == 0 || p + 1 == points) ? 0.5 : 1.0);
    }
    out.push_back(std::move(part));
  }
  return out;
}

bool of_several(const ConfigReader& in) { return in.has("windows") || in.has("mix"); }
std::vector<PartOfLoads> read_parts(ConfigReader& in) { return in.has("windows") ? read_windows(in) : read_mix(in); }

}  // namespace

bool could_keep_steps(ConfigReader in) {
  const auto has_key = [](std::span<const Key> keys) {
    return std::ranges::find(keys, "batches", &Key::name) != keys.end();
  };
  return of_several(in) || has_key(chosen_reader(in).keys);
}

LoadWindow read_load_window(ConfigReader& in, const MoeSpec& model, Seed seed, bool by_steps) {
  if (!of_several(in)) {
    const LoadReader& reader = chosen_reader(in);
    if (by_steps && could_keep_steps(in)) {
      in.preset("batches", true);
    }
    return read_checked(reader, in, model, seed);
  }
  std::vector<LoadWindow> windows;
  std::vector<double> weights;
  for (PartOfLoads& part : read_parts(in)) {
    windows.push_back(read_checked(chosen_reader(part.section), part.section, model, seed));
    weights.push_back(part.mean);
  }
  return mean_of(windows, weights);
}

std::unique_ptr<ExpertLoadSource> make_load_source(ConfigReader& in, const MoeSpec& model, Seed seed) {
  if (!of_several(in)) {
    return make_one_source(in, model, seed);
  }
  std::vector<MixedLoadSource::Part> parts;
  for (PartOfLoads& part : read_parts(in)) {
    parts.push_back({std::move(part.shares), make_one_source(part.section, model, seed)});
  }
  return std::make_unique<MixedLoadSource>(std::move(parts), seed);
}

}  // namespace epsim
