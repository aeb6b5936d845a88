// What the ports of GPUs and ranks take for one exchange of tokens, pair by pair.
//
//   Models : a port needs the time that its own bytes take alone; the rows that it receives come from the ranks in
//            proportion to their tokens on other GPUs (dispatch) or to the rows that they compute (combine).
//   Ignores: which rank's tokens like which experts, where the ranks' mixes differ.
#pragma once

#include <vector>

#include "models/step/step_model.h"
#include "sim/step/step_graph.h"

namespace epsim {

class PairwiseExchange {
 public:
  // For the layer that `model` priced last.
  void price(const StepModel& model);
  // Of a task of stage kDispatchIn, kDispatchOut, kCombineIn or kCombineOut.
  TickCost cost(const StepTask& task) const;

 private:
  int tp_ = 1;
  TrafficMatrix slowed_;  // of one direction
  Network::PortPrices gpu_dispatch_, gpu_combine_, rank_combine_;
  std::vector<Price> rank_dispatch_out_;
  std::vector<double> tokens_, executed_;  // [rank]
  double all_tokens_ = 0, all_executed_ = 0;
};

}  // namespace epsim
