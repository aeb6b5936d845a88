// The one door to expert loads: a section of the scenario in; a window to plan from, or a source to run on, out.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/config.h"
#include "sim/core/rng.h"
#include "sim/domain/load_window.h"
#include "sim/domain/moe_spec.h"
#include "sim/domain/step_loads.h"

namespace epsim {

// Of the model, readers use: layers, moe_layer_numbers(), experts, top_k.
// Stands beside its reader, in the kind's own file.
struct LoadReader {
  std::string_view name, summary;
  std::span<const Key> keys;  // through which both read
  LoadWindow (*read)(ConfigReader&, const MoeSpec&, Seed);
  // Steps as the reader itself has them; null where it knows but a mean mix.
  std::unique_ptr<ExpertLoadSource> (*replay)(ConfigReader&, const MoeSpec&, Seed) = nullptr;
  // Whether these are totals of a recording rather than steps, so that there is nothing to replay; null: never.
  bool (*totals)(ConfigReader&, const MoeSpec&) = nullptr;
};

// Every kind of expert loads, for `list` and for error messages.
std::span<const LoadReader> load_readers();

// Those of the section `loads`.
std::vector<SectionKeys> load_keys();

// Reads the key `kind` and then that kind's own keys; the caller ends with finish(). Every MoE layer of the window has
// load, and no expert more than one assignment per token. With `by_steps` it keeps its steps apart, where it has any,
// unless the key `batches` says otherwise. Throws InputError.
LoadWindow read_load_window(ConfigReader& in, const MoeSpec& model, Seed seed, bool by_steps = false);

// Whether a section of loads has the key `batches`, or parts that may have it.
bool could_keep_steps(ConfigReader in);

// What keeps a window from being loads of the model, whose layers and experts it has: a layer without load, an expert
// with more than one assignment per token. Empty: nothing.
std::string problem_of(const LoadWindow& window, const MoeSpec& model);

// The same keys, and how steps vary. variation sampled: counts of each step are drawn around the window's mean mix; none:
// the mean mix every step; replay: steps as the kind has them itself, for a trace_file row s of the trace in step s, over
// again after the last (the default, but of a trace with one row: a step has fewer tokens than a recording's total, and
// they scatter). overdispersion, of sampled steps: variance of a count over the binomial one.
// Or a list of such sections alone: `windows`, each with `for`, how long its loads hold (the last one's hold on), or `mix`,
// each with its `share` of the tokens, one number or one `every` so often. read_load_window() then gives the mean mix over
// that time, without batches, and tokens that tell experts used together where all sources have some.
std::unique_ptr<ExpertLoadSource> make_load_source(ConfigReader& in, const MoeSpec& model, Seed seed);

}  // namespace epsim
