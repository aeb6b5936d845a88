#include "sim/scenario/rebalance_options.h"

#include <limits>

namespace epsim {
namespace {

enum class Mode { kSync, kAsync };
// What of the old plan stays; Keep of the policies, and nothing.
enum class Kept { kNone, kSlots, kGpus, kGpusInNode };

}  // namespace

template <>
inline constexpr auto kNames<Mode> = choice<Mode>({{"sync", Mode::kSync}, {"async", Mode::kAsync}});
template <>
inline constexpr auto kNames<Kept> = choice<Kept>(
    {{"none", Kept::kNone}, {"slots", Kept::kSlots}, {"gpus", Kept::kGpus}, {"gpus_in_node", Kept::kGpusInNode}});

namespace {

constexpr KeyTable kRebalanceKeys({
    {"rule", key::name_or_other([] { return entry_names(rebalance_rules()); }, "epsim list policies"), key::kRequired,
     "When to plan again."},
    {"mode", key::one_of<Mode>(), key::is(Mode::kSync),
     "sync: steps wait while weights move; async: weights move during steps."},
    {"window", key::whole(Bound::kPositive), key::by("SGLang: steps between looks; else 1000"),
     "Steps whose loads are planned on."},
    {"planning_time", key::time(), key::is(Seconds(0.042)), "Time that planning takes."},
    {"move_efficiency", key::number(kPositiveShare), key::is(1.0), "Share of the links' rate that moves reach."},
    {"layer_time", key::time(), key::by("the engine's"),
     "Time of the hosts for each layer moved: buffers, messages, waiting for each other (mode sync)."},
    {"link_share", key::number(below(1, Bound::kPositive)), key::is(0.5),
     "Share of the links that moves use during steps (mode async)."},
    {"layers_per_chunk", key::whole(Bound::kPositive), key::by("all; vLLM with mode async: 1"),
     "Layers that move between two steps (mode sync), or switch in a step (mode async)."},
    {"keep", key::one_of<Kept>(), key::is(Kept::kSlots), "What of the old plan the new one keeps, to move less."},
});

std::optional<Keep> keep_of(Kept kept) {
  switch (kept) {
    case Kept::kNone:
      return std::nullopt;
    case Kept::kSlots:
      return Keep::kSlots;
    case Kept::kGpus:
      return Keep::kGpus;
    case Kept::kGpusInNode:
      return Keep::kGpusInNode;
  }
  return std::nullopt;
}

}  // namespace

std::span<const Key> rebalance_keys() { return kRebalanceKeys; }

RebalanceOptions read_rebalance(ConfigReader in, const EngineProfile& engine) {
  RebalanceOptions out;
  out.rule = make_rebalance_rule(in.read<std::string>(kRebalanceKeys["rule"]), in);
  out.background = in.read<Mode>(kRebalanceKeys["mode"]) == Mode::kAsync;
  const bool emptied = engine.counts_since_look && out.rule->interval() < std::numeric_limits<std::int64_t>::max();
  out.window =
      in.read<std::int64_t>(kRebalanceKeys["window"], emptied ? out.rule->interval() : RebalanceOptions().window);
  out.planning_time = in.read<Seconds>(kRebalanceKeys["planning_time"]);
  out.move_efficiency = in.read<double>(kRebalanceKeys["move_efficiency"]);
  if (out.background) {
    out.link_share = in.read<double>(kRebalanceKeys["link_share"]);
  } else {
    out.layer_time = or_engine(in, kRebalanceKeys["layer_time"], engine.rebalanced_layer);
  }
  out.layers_per_chunk =
      in.maybe<int>(kRebalanceKeys["layers_per_chunk"]).value_or(out.background ? engine.layers_in_background : 0);
  in.check(out.background || !in.has("link_share"), "link_share",
           "with mode sync steps wait while weights move, which then have the links to themselves; leave it out.");
  in.check(!out.background || !in.has("layer_time"), "layer_time",
           "with mode async the hosts work while steps run; leave it out.");
  out.keep = keep_of(in.read<Kept>(kRebalanceKeys["keep"]));
  in.finish();
  return out;
}

}  // namespace epsim
