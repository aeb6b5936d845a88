#include "traces/expert_loads/load_sources.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "traces/expert_loads/imbalance_suite.h"
#include "traces/expert_loads/sglang_counts.h"
#include "traces/expert_loads/synthetic.h"
#include "traces/expert_loads/timed_load_source.h"
#include "traces/expert_loads/trace_file_loads.h"
#include "traces/expert_loads/window_load_source.h"
#include "traces/routing_model/model_load_source.h"

namespace epsim {

namespace {

constexpr LoadReader kReaders[] = {
    {"sglang_counts", "SGLang's expert-load JSON (logical_count by layer and expert)", make_sglang_counts},
    {"uniform", "every expert takes the same load", make_uniform_loads},
    {"zipf", "load falls with a power of the expert's rank, hot experts differ by layer", make_zipf_loads},
    {"skew", "per-layer hottest-expert load over the mean, as stated", make_skew_loads},
    {"trace_file", "a trace in epsim's HDF5 format, replayed step by step", make_trace_window, make_trace_replay},
    {"model", "a statistical model of routing (preset or fitted), drawn per step and rank", make_model_window,
     make_model_source},
    {"imbalance", "the suite W0 to W7: loads whose imbalance is known by construction", make_imbalance_window,
     make_imbalance_source}};

// pi_e <= 1 and no empty layer: what every use of a window relies on.
void check_window(ConfigReader& in, const LoadWindow& window, const MoeSpec& model) {
  for (int l = 0; l < window.layers(); ++l) {
    const std::span<const double> row = window.layer(l);
    const auto hottest = std::max_element(row.begin(), row.end());
    const double total = window.total(l);
    const int number = model.moe_layer_numbers()[l];
    in.check(total > 0, "kind", fmt::format("model layer {} has no load at all; every MoE layer needs some.", number));
    // One part in a million: counts that were rounded or scaled on the way.
    in.check(*hottest * model.top_k <= total * (1 + 1e-6), "kind",
             fmt::format("model layer {}, expert {}: it takes {:.4g} assignments per token; with top-{} routing an "
                         "expert takes at most 1.",
                         number, hottest - row.begin(), *hottest * model.top_k / total, model.top_k));
  }
}

}  // namespace

std::span<const LoadReader> load_readers() { return kReaders; }

namespace {

const LoadReader& chosen_reader(ConfigReader& in) {
  std::vector<std::string> names;
  for (const LoadReader& reader : kReaders) {
    names.emplace_back(reader.name);
  }
  const std::string kind = in.choice("kind", names);
  return *std::find_if(std::begin(kReaders), std::end(kReaders), [&](const LoadReader& r) { return r.name == kind; });
}

LoadWindow read_checked(const LoadReader& reader, ConfigReader& in, const MoeSpec& model, Seed seed) {
  LoadWindow window = reader.read(in, model, seed);
  check_window(in, window, model);
  return window;
}

std::unique_ptr<ExpertLoadSource> make_one_source(ConfigReader& in, const MoeSpec& model, Seed seed) {
  const LoadReader& reader = chosen_reader(in);
  const std::string variation = reader.replay == nullptr
                                    ? in.choice("variation", {"sampled", "none"}, "sampled")
                                    : in.choice("variation", {"replay", "sampled", "none"}, "replay");
  if (variation == "replay") {
    return reader.replay(in, model, seed);
  }
  const double overdispersion = variation == "sampled" ? in.optional("overdispersion", 1.0) : 0.0;
  return std::make_unique<WindowLoadSource>(read_checked(reader, in, model, seed), model.top_k, overdispersion, seed);
}

// The entries of `windows`, at least one.
std::vector<ConfigReader> windows_of(ConfigReader& in) {
  std::vector<ConfigReader> out = in.list_of_sections("windows");
  in.check(!out.empty(), "windows", "this list is empty; name at least one source of loads.");
  return out;
}

Seconds length_of(ConfigReader& window) { return window.required<Seconds>("for", Bound::kPositive); }

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
