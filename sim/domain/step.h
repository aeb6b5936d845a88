// One step of an instance: what the DP ranks bring, and what it costs.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/units.h"
#include "sim/domain/cost.h"
#include "sim/domain/layer_series.h"
#include "sim/domain/step_at.h"

namespace epsim {

// What one DP rank brings to a step. All zero: the rank idles, and still takes part in every collective.
struct RankBatch {
  std::int64_t prefill_tokens = 0;
  std::int64_t decode_tokens = 0;  // decode_queries of every running sequence
  double prefill_pairs = 0;        // query-key pairs of the prefill chunks: sum of n * (context + (n + 1) / 2)
  double prefill_context = 0;      // cached tokens that the chunks attend to, before their own
  double decode_context = 0;       // cached tokens that the decoding sequences read
  std::int64_t sampled = 0;        // sequences that get a token out of this step
  std::int64_t sequences = 0;      // requests that the step works on
  int decode_queries = 1;          // a token, and its drafts
  std::int64_t padding = 0;        // of decode_tokens, what fills a CUDA graph and no sequence asked for
  std::int64_t masked = 0;         // of padding, what goes to no expert

  double decode_sequences() const { return static_cast<double>(decode_tokens) / decode_queries; }
  std::int64_t tokens() const { return prefill_tokens + decode_tokens; }
  std::int64_t routed_decodes() const { return decode_tokens - masked; }
  std::int64_t routed_tokens() const { return tokens() - masked; }
};

// Planning, prefetch and migration are what policies that act in every step make a step wait for; drafter, what proposes
// tokens; host, what the GPUs wait for kernels to be launched.
enum class LayerPart {
  kAttention,
  kGate,
  kDispatch,
  kExperts,
  kCombine,
  kDense,
  kPlanning,
  kPrefetch,
  kMigration,
  kDrafter,
  kHost,
  kOther
};
inline constexpr int kLayerParts = 12;
inline constexpr std::array<std::string_view, kLayerParts> kLayerPartNames = {
    "attention", "gate",     "dispatch",  "experts", "combine", "dense",
    "planning",  "prefetch", "migration", "drafter", "host",    "other"};

struct StepCost {
  Seconds total{};
  std::array<Seconds, kLayerParts> by_part{};  // sums to total
  std::array<Seconds, kOrigins> by_origin{};   // sums to total
  // What the GPUs lose on average to waiting for the slowest one (attention, experts) or the busiest link (dispatch,
  // combine): the part of `total` that perfect balance would save.
  Seconds straggler{};
  int batches = 1;  // that the step runs as: 2 where its halves overlap
};
void add_cost(StepCost& sum, const StepCost& step);

// What has changed about the hardware since the run began: the share of its speed, in (0, 1] or above for an
// overclocked GPU, at which each GPU computes and at which its links run. Empty: all at 1.
struct StepConditions {
  std::vector<double> gpu_speed;       // [GPU] every kernel on it
  std::vector<double> link_speed;      // [GPU] its port and its share of the NICs
  std::vector<double> nic_speed = {};  // [GPU] its share of the NICs alone, on top of that
};

// What a step works on. The DP ranks of an instance step together, so all their batches decide.
enum class StepKind : std::uint8_t {
  kPrefill,  // prompt tokens, and no rank decodes a sequence
  kDecode,   // no rank has prompt tokens
  kMixed     // both: on one rank (mixed chunks), or prompts on some ranks beside decodes on others
};
inline constexpr int kStepKinds = 3;
inline constexpr std::array<std::string_view, kStepKinds> kStepKindNames = {"prefill", "decode", "mixed"};
StepKind kind_of(std::span<const RankBatch> ranks);

// Prices steps. One object serves one run; it may keep scratch space and running totals.
class StepPricer {
 public:
  virtual ~StepPricer() = default;
  virtual StepCost price(const StepAt& at, std::span<const RankBatch> ranks) = 0;
  // Holds for the steps priced from now on. A pricer that knows no conditions refuses them (InvariantBroken).
  virtual void set_conditions(const StepConditions& conditions);
};

// Totals of one MoE layer over a run.
struct LayerTotals {
  int layer_number = 0;  // in the model, dense layers counted
  std::array<Seconds, kLayerParts> by_part{};
  Seconds straggler{};
  double balancedness_sum = 0;  // over steps
  double balancedness_min = 1;
};

// Of an exchange of tokens.
enum class Direction { kDispatch, kCombine };

// Whose bytes a link counts: those that a GPU sends or receives (each once), or bytes on their way between others.
enum class LinkEnd { kBetween, kSends, kReceives };

// A resource that carries bytes: one direction of a GPU's port, of a node's NICs, or of a cable between switches.
struct LinkTotals {
  std::string name;       // "gpu3.port.out", "node0.nic1.in", "leaf2.up"
  BytesPerSecond rate{};  // data sheet
  Bytes bytes{};          // carried over the run
  LinkEnd end = LinkEnd::kBetween;
  int instance = 0;  // whose steps it carries; kBesideSteps: prompts, at any time
  static constexpr int kBesideSteps = -1;
};

// [layer][GPU] Rows of dispatches that a GPU sends and receives inside its node, and to and from other nodes. Combines send as
// many the other way.
struct GpuRows {
  std::vector<double> sent_inside, received_inside, sent_outside, received_outside;
};

// Per-layer and per-GPU totals of a run.
struct StepTotals {
  std::int64_t steps = 0;
  int gpus = 0;
  std::vector<LayerTotals> layers;
  std::vector<double> gpu_load;    // [layer][GPU] routed assignments executed
  std::vector<double> gpu_busy_s;  // [layer][GPU] seconds of expert work
  GpuRows gpu_rows;
  LayerSeries balancedness;  // by layer and step
  std::vector<LinkTotals> links;
  // [layer][dispatch, combine][link] seconds of the layer's exchanges that this link set the time of.
  std::vector<double> bottleneck_s;
  std::span<const double> bottlenecks(std::size_t layer, Direction direction) const {
    return std::span(bottleneck_s)
        .subspan((2 * layer + static_cast<std::size_t>(direction)) * links.size(), links.size());
  }
  bool policy_acted = false;      // of a policy that acts in every step: it did so in some layer
  std::int64_t largest_step = 0;  // tokens of all GPUs; known where such a policy runs
  double assignments_routed = 0;  // tokens x top-k x MoE layers, or rows of padded buffers, for the conservation check
  double assignments_dropped = 0, assignments_rerouted = 0;
};

}  // namespace epsim
