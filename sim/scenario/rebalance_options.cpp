#include "sim/scenario/rebalance_options.h"

namespace epsim {

RebalanceOptions read_rebalance(ConfigReader in) {
  RebalanceOptions out;
  out.rule = make_rebalance_rule(in.required<std::string>("rule"), in);
  out.background = in.choice("mode", {"sync", "async"}, "sync") == "async";
  out.window = in.optional<std::int64_t>("window", out.window, Bound::kPositive);
  out.planning_time = in.optional<Seconds>("planning_time", out.planning_time);
  out.move_efficiency = in.optional<double>("move_efficiency", out.move_efficiency, Bound::kPositive);
  in.check(out.move_efficiency <= 1, "move_efficiency", "a share of the rate that is reached is at most 1.");
  if (out.background) {
    out.link_share = in.optional<double>("link_share", out.link_share, Bound::kPositive);
    in.check(out.link_share < 1, "link_share", "exchanges of tokens need some of the links too: a share below 1.");
  } else {
    out.layers_per_chunk = in.maybe<int>("layers_per_chunk", Bound::kPositive).value_or(0);
  }
  in.check(out.background || !in.has("link_share"), "link_share",
           "with mode sync steps wait while weights move, which then have the links to themselves; leave it out.");
  in.check(!out.background || !in.has("layers_per_chunk"), "layers_per_chunk",
           "with mode async every layer switches when its weights have arrived; leave it out.");
  const std::string keep = in.choice("keep", {"none", "slots", "gpus", "gpus_in_node"}, "slots");
  out.keep = keep == "none"    ? std::nullopt
             : keep == "slots" ? std::optional(Keep::kSlots)
             : keep == "gpus"  ? std::optional(Keep::kGpus)
                               : std::optional(Keep::kGpusInNode);
  in.finish();
  return out;
}

}  // namespace epsim
