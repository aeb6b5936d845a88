// A new scenario as text: a model on nodes, with every choice that is not made left to the engine.
#pragma once

#include <string>

#include "sim/scenario/scenario.h"

namespace epsim {

struct NewScenario {
  std::string engine, model, node;
  std::string dtype;                      // empty: with_dtype() chooses
  int nodes = 1;                          // of the one instance
  int prefill = 0, decode = 0;            // nodes of a prefill and of a decode instance, in place of `nodes`
  int gpus_per_node = 0;                  // used of each; 0: all
  std::vector<std::string> serving = {};  // "key: value", of every section `serving`
  int attention_tp = 1;                   // of a model with experts; a dense one has all GPUs
  std::string dtype_note = {};            // why with_dtype() chose another type than the model's own; mostly empty
};

// The document. `serving` and `dispatch` are lines of these sections.
std::string scenario_document(const NewScenario& wanted, const std::string& serving = "",
                              const std::string& dispatch = "");

// By its name or that of an engine's newest version. Throws InputError.
const EngineProfile& engine_named(const std::string& name);

// Of the loads in that document: lowest and highest max / mean of a layer, 1.5 and 4 with `times` 1, their excess over 1
// `times` as large. No more than every token choosing the hottest expert: experts / top-k.
struct Skew {
  double low, high;
};
Skew init_skew(const MoeSpec& model, double times = 1);

// As read_scenario(), of a document that stands in no file. Throws InputError.
Scenario read_document(const std::string& text);

// Of the weights: the type of a model's file; of the catalogue, which does not say whether a model is bf16, that of a
// quantised one, else fp8; bf16 where the engine has no kernels for that on this node, or turns it into bf16 with experts
// `placed` over several EP ranks. Throws InputError for an unknown model, node or engine.
NewScenario with_dtype(NewScenario wanted, bool placed = true);

}  // namespace epsim
