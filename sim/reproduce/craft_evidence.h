// What CRAFT's setups come to: plans, goodput searches and runs below the knee; craft_gather.h gathers them.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "policies/placement/craft/benefit.h"
#include "sim/reproduce/craft_setups.h"
#include "sim/study/goodput.h"

namespace epsim {

// Of the lowest knee of the policies that are compared at one rate, under the seed: near saturation of that one, and
// below it for each. Far from it all prompts are alone in their steps, and no policy saves TTFT; nearer, one seed in a
// few would be on the cliff, as a knee is off by 3 % between seeds.
inline constexpr double kNearSaturation = 0.9;

// What is gathered of a policy on a setup beside its plan, each under every seed.
struct CraftNeed {
  std::string_view setup, policy;
  bool searched = false;    // its knee, and the run next below it
  bool fixed_rate = false;  // TTFT at kNearSaturation of the lowest of such policies' knees
  bool saturated = false;   // a run of far too many requests a second
};

struct CraftStudyOptions {
  CraftMemory memory = CraftMemory::kPaper;
  int seeds = 2;
  std::vector<std::string> overrides;                                     // on every setup
  std::vector<std::string> (*overrides_of)(const CraftSetup&) = nullptr;  // more of them, setup by setup
  GoodputOptions goodput;
};

// Few requests: enough to tell signs, and how far an input moves a figure, in a fraction of the time.
void make_quick(CraftStudyOptions& options);

// The search's own run at the highest rate that it found acceptable, its filling and emptying included.
struct NearKnee {
  double rate = 0;  // requests/s
  double itl_mean_s = 0;
  double decode_step_s = 0;                      // mean of the steps without prompts; not a number when there are none
  double balancedness = 0;                       // mean over layers and steps
  std::array<double, kLayerParts> part_share{};  // of the steps' time
  double kv_full_share = 0;                      // of busy time in which a queue's head lacked KV blocks
  double extrapolated_share = 0;                 // of the steps' time
};

struct FixedRate {
  double rate = 0;  // requests/s
  double ttft_mean_s = 0;
};

// A run to which requests come at 50/s, over ten times what any setup serves: what holds it up.
struct Saturated {
  double kv_wait_share = 0;   // of busy time in which the head of a queue lacked KV blocks
  double exchange_share = 0;  // dispatch and combine, of the steps' time
  // Above 1: bound by KV cache. Below: by the wire.
  double wait_over_exchange() const { return kv_wait_share / exchange_share; }
};

// A policy's search on a setup under one seed.
struct SearchedPolicy {
  GoodputSearch search;
  NearKnee near_knee;
};

struct PolicyEvidence {
  int copies_per_gpu = 0;       // extra ones, over all layers, on the fullest GPU
  double kv_lost = 0;           // share of the KV pool
  double kv_pool_gib = 0;       // per GPU
  std::vector<double> planned;  // [layer] balancedness on the window that was planned from
  // By seed, where asked for.
  std::vector<GoodputSearch> searches;
  std::vector<NearKnee> near_knee;
  std::vector<FixedRate> fixed;
  std::vector<Saturated> saturated;
};

// The load that policies planned from, in what claims state of it.
struct LayerPopularity {
  int number = 0;         // of the layer in the model
  double hottest = 0;     // over the mean
  double top2_share = 0;  // of the layer's assignments
};

struct SetupEvidence {
  int experts = 0, gpus = 0, moe_layers = 0;
  std::size_t seeds = 0;              // under which policies were run
  std::vector<LayerPopularity> skew;  // by MoE layer
  GainTable gains;                    // CRAFT's step 1 on the planning window
  std::vector<double> in_order;  // [layer] gains.base for experts in order, as engines place them, instead of packed
  double estimate_seconds = 0;   // how long that took
  int batches = 0;
  std::string resolved;  // the scenario under the first seed
  std::map<std::string, PolicyEvidence, std::less<>> policies;

  const PolicyEvidence& of(std::string_view policy) const;
};

using CraftEvidence = std::map<std::string, SetupEvidence, std::less<>>;

}  // namespace epsim
