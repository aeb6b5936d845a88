// What the decision of a per-step policy means for one layer: who computes how much in which stage, who sends rows to
// whom, and which weights move.
//
//   Models : an expert's tokens are computed where they live as far as the decision has that GPU compute the expert;
//            the others go to the remaining places in proportion. Where tokens draw copies, all go by shares alone.
//            Rows are expected values by the same formulas as in TrafficModel (MissProbability, JointUse of the home
//            placement), so that a decision to leave everything at home costs what that placement costs: a token uses
//            expert e with chance requests / tokens of its GPU. Weights come from the expert's home, along a ring of
//            all GPUs, from the GPU that the decision names, or from the host.
//   Ignores: that copies made in a step change which experts of a GPU are used together.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/network/miss_probability.h"
#include "models/network/traffic.h"
#include "policies/step_policy.h"
#include "sim/domain/cluster_spec.h"

namespace epsim {

// Rows on one GPU and the experts that they touch.
struct StageWork {
  double rows = 0, touched = 0;
};

struct DecisionWork {
  TrafficMatrix tokens;  // executed, touched: of both stages
  // [GPU] What can start early, and what waits: with two stages the tokens that live on the GPU, and the others; with
  // copies on demand the experts at home on the GPU, and those fetched. Else all is first.
  std::vector<StageWork> first, then;
  TrafficMatrix weights;          // rows are experts
  std::vector<double> from_host;  // [GPU] experts that come from the host's memory instead
  double copies = 0;              // experts that moved, all GPUs
};

class DecisionReader {
 public:
  DecisionReader(const ClusterShape& shape, Dedup dedup, const ExecutionProfile& profile)
      : shape_(shape),
        dedup_(dedup),
        profile_(profile),
        all_gather_(profile.dispatch == ExecutionProfile::Dispatch::kAllGather) {}

  // Of the reads from now on.
  void set_dedup(Dedup dedup) { dedup_ = dedup; }
  // `gpu_tokens` [GPU] tokens that live there; `joint` of the home placement in this layer.
  void read(const RequestMatrix& requests, const StepDecision& decision, const Residency& home,
            std::span<const std::int64_t> gpu_tokens, const JointPowers& joint, DecisionWork& out);

 private:
  void place_expert(int expert, const RequestMatrix& requests, const StepDecision& decision, const Residency& home,
                    DecisionWork& out);
  void place_shared(const SharedDispatch& shared, DecisionWork& out);
  void take_column(int expert, const RequestMatrix& requests, const TokenAssignment& tokens);
  // Of `asked` tokens on GPU s that use the expert at hand, each with `chance`, GPU d computes `sent`; end_expert() after
  // the last of them.
  void add_use(std::size_t s, std::size_t d, double sent, double asked, double chance);
  void end_expert();
  void send_tokens(const JointPowers& joint, TrafficMatrix& out);
  void move_weights(const StepDecision& decision, const Residency& home, DecisionWork& out) const;

  ClusterShape shape_;
  Dedup dedup_;
  ExecutionProfile profile_;
  bool all_gather_;
  struct OfExpert {
    double asked, chance;  // tokens that live on the GPU and use the expert; their share
    double remote, stays;  // of these: computed elsewhere, and here
    double computes;       // tokens of all GPUs
  };
  std::vector<OfExpert> column_;              // [GPU] of the expert at hand
  double offered_ = 0, all_ = 0;              // its tokens that are computed elsewhere than where they live, and all
  std::vector<MissProbability> missed_;       // [GPU][source] chance that a token needs nothing there
  std::vector<MissProbability> node_missed_;  // [source][node] where one row goes to a node
  struct Use {
    double sent = 0, asked = 0;
  };
  std::vector<Use> to_node_;         // [source][node] of the expert at hand
  std::vector<double> pair_weight_;  // [source]
  std::vector<double> rows_;         // [destination][source] assignments
  std::span<const std::int64_t> gpu_tokens_;
};

}  // namespace epsim
