// What the drafter of speculative decoding adds to a step: DeepSeek's multi-token prediction (MTP) layer, which engines run
// once over the step's tokens and then once for each further token that they propose.
//
//   Models : passes of one layer like the model's last one, with its experts over the same GPUs, its own product of
//            embedding and hidden state, and the model's head. With k proposed tokens a step takes
//            one pass over all tokens of the step, prompts' too: the layer's own keys and values, and the first proposal
//            of every sequence;
//            k - 1 passes over a token of every sequence, for the others. Where the engine computes prompts and decodes
//            in steps of their own, those of prompts have none.
//            Rows that verification rejects go through the first pass, as in a captured graph.
//   Ignores: the layer's weights and cache (SGLang keeps 2 GiB for them outside the pool; vLLM takes both off the pool);
//            links.csv and layers.csv, which are of the model's own layers; overlap and per-step policies, which end
//            before the drafter begins; which of its experts serve the same tokens.
//   Differs: without a graph SGLang, and vLLM v0.9 and v0.10, take rejected rows out of the first pass.
//   Source : SGLang v0.4.8 speculative/eagle_worker.py: forward_draft_extend, draft_forward ("we don't need to run the
//            last forward", so speculative_num_steps - 1 passes), forward_draft_extend_after_decode; its CUDA graph has
//            speculative_num_steps + 1 rows a request (eagle_draft_extend_cuda_graph_runner.py). models/deepseek_nextn.py:
//            eh_proj, an nn.Linear that every GPU has whole. vLLM v0.9, v0.10 v1/spec_decode/eagle.py: propose, over all
//            requests of the batch. DeepSeek-V3 Technical Report (arXiv 2412.19437), section 2.2.
//            No loads of an MTP layer are public: its experts are chosen, and lie, as those of the last MoE layer.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "models/step/eager_work.h"
#include "models/step/step_model.h"
#include "sim/domain/placement.h"
#include "sim/domain/step.h"
#include "sim/scenario/scenario.h"

namespace epsim {

// Passes of it in a step that proposes `options.draft_tokens` tokens; `prompts`: some rank has some. 0: it takes no time.
int drafter_passes(const SpeculativeOptions& options, bool prompts);

// What the host launches for them without a graph.
EagerWork drafter_launches(const MoeSpec& model, const Parallelism& parallelism, const DispatchOptions& dispatch,
                           int passes);

class Drafter {
 public:
  // `model` prices the steps, with `placement`; all arguments outlive it.
  Drafter(const Scenario& scenario, const InstancePool& pool, const StepModel& model, const Placement& placement);
  Drafter(const Drafter&) = delete;  // its parts refer to each other
  Drafter& operator=(const Drafter&) = delete;

  // Of the step that the model has priced last; all of it is LayerPart::kDrafter.
  StepCost price(const StepAt& at, std::span<const RankBatch> ranks);
  // As the model's.
  void set_placement(const Placement& placement);
  void set_conditions(const StepConditions& conditions) { layer_->set_conditions(conditions); }

 private:
  // The last MoE layer's part of what the model drew for the step.
  class LastLayerLoads final : public ExpertLoadSource {
   public:
    explicit LastLayerLoads(const StepModel& model) : model_(model) {}
    int layers() const override { return model_.costs().model().dense() ? 0 : 1; }
    int experts() const override { return model_.costs().model().experts; }
    void draw(const StepAt& at, std::span<const std::int64_t> tokens, StepLoads& out) const override;

   private:
    const StepModel& model_;
  };
  void add_pass(const StepAt& at, std::span<const RankBatch> ranks, int times, StepCost& sum);

  SpeculativeOptions options_;
  LastLayerLoads loads_;
  std::unique_ptr<Placement> experts_;
  std::unique_ptr<StepModel> layer_;
  std::vector<RankBatch> pass_;
};

}  // namespace epsim
