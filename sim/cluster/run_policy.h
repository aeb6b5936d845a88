// One policy on one scenario, from plan to result.
#pragma once

#include <memory>
#include <vector>

#include "sim/cluster/instance.h"
#include "sim/cluster/losses.h"
#include "sim/cluster/rebalancer.h"
#include "sim/cluster/regroup.h"
#include "sim/cluster/run_control.h"
#include "sim/cluster/run_result.h"
#include "sim/scenario/scenario.h"
#include "sim/step/step_pricing.h"

namespace epsim {

// What a policy asks for and whether it fits: everything short of running.
struct PreparedRun {
  PlacementPlan plan;
  Placement placement;
  MemoryBreakdown memory;              // of the fullest GPU
  ServingOptions serving;              // with the KV pool that is left
  Bytes buffers{};                     // on every GPU, for weights that a policy brings in during the run
  std::vector<PreparedRun> pools{};    // of a deployment of several instances, in its order
  std::vector<SourceShares> shares{};  // that the placement was built with; empty: copies share evenly
};

// The loads that a policy may plan from.
const LoadWindow& planning_window(const Scenario& scenario, const PolicyChoice& policy);

// Plans, checks memory, sizes the KV pool. Throws InputError or DoesNotFit.
PreparedRun prepare_run(const Scenario& scenario, const PolicyChoice& policy);

// The simulation of a prepared run on `requests`, which may differ from the scenario's own in number and arrival. const
// and safe to call for several runs at once.
RunResult run_prepared(const Scenario& scenario, const PolicyChoice& policy, const PreparedRun& prepared,
                       const RequestTrace& requests, const RunControl& control);

// What prices the steps of one instance: with one plan or with changing ones, and around either what the scenario's
// faults do.
struct InstancePricing {
  StepPricing steps;                               // where the plan stays
  std::unique_ptr<RebalancingPricer> rebalancing;  // where it does not
  std::unique_ptr<StepPricer> faulty;
  InstanceLosses losses;
  // Where the plan changes with hardware alone: what is in place.
  std::vector<Fault> faults;
  std::unique_ptr<Regrouper> regrouper;
  PlacementPlan in_place;
  std::unique_ptr<Placement> left;  // by the latest loss
  StepPricer& pricer() const;
  const StepTotals& totals() const;
  RegroupReport regroup() const;
  // Hardware went or came back: steps from now on are priced with what is in place then. For how long the instance
  // stands still to make copies again; none where some expert has no copy.
  std::optional<Ticks> change(const Scenario& scenario, const PolicyChoice& policy, std::size_t loss);
};

// The scenario's faults that are instance number `instance`'s.
std::vector<Fault> faults_of(const Scenario& scenario, int instance);

// Of instance number `instance` of the deployment. `prepared` and the scenario outlive it.
InstancePricing price_instance(const Scenario& scenario, const PolicyChoice& policy, const PreparedRun& prepared,
                               StepRecorder* recorder, int instance = 0);

// What the fleet is told of the losses of this instance; `pricing` stays where it is.
void tell_losses(const Scenario& scenario, const PolicyChoice& policy, InstancePricing& pricing, InstanceSpec& spec);

// Fills in what a run's plan, its price model and its memory tell of an instance, and checks that the model executed
// and sent what was asked of it. `busy`: the time of the instance's steps.
void describe_run(const Scenario& scenario, const PolicyChoice& policy, const PreparedRun& prepared,
                  const InstancePricing& pricing, Seconds busy, RunResult& result);

// prepare_run() and run_prepared() on the scenario's requests.
RunResult run_policy(const Scenario& scenario, const PolicyChoice& policy, const RunControl& control);

}  // namespace epsim
