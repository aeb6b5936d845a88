// What share of the data sheet's rates real kernels and collectives reach, as measured.
//   Models : dense GEMM by rows, grouped expert GEMM by rows per expert, memory-bound kernels, attention; collectives
//            on a link by what the busiest port carries.
//   Source : models/hardware/compute/*.yaml and models/hardware/links/*.yaml, with a source for every figure.
//   Valid  : on the hardware a profile was measured on, inside its points. A price outside the points, or for hardware
//            that borrows another's profile (`carried_over`), has Origin::kExtrapolated.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/profile/fitted_op.h"
#include "sim/core/units.h"
#include "sim/domain/cost.h"
#include "sim/domain/moe_spec.h"

namespace epsim {

// One number with its pedigree.
struct Figure {
  double value = 0;
  Origin origin = Origin::kDeclared;
  std::string source;
};

// A share of a peak rate and how well it is known.
struct Efficiency {
  double fraction = 0;
  Origin origin = Origin::kDeclared;
};

// Share of the peak rate as a function of the rows (tokens) of a matrix product.
struct EfficiencyCurve {
  struct Point {
    double rows = 0;
    double fraction = 0;
  };
  std::vector<Point> points;          // by growing rows, at least one
  Origin origin = Origin::kMeasured;  // of the points
  std::string source;

  // Interpolates log(fraction) in log(rows). Under the first point the time stays that of the first point (the weights
  // are read whatever the rows), so the fraction falls in proportion; over the last it stays. Both are extrapolated.
  // `rows` must be positive.
  Efficiency at(double rows) const;
};

// Both expert GEMMs of a fused MoE kernel, activation and permutation included, as a share of the bf16 peak:
// 6 x hidden x intermediate flops per row over the kernel's time. The low shares at few rows are the weight
// reads of the touched experts; combine with a memory floor by max(), not by adding.
struct GroupedGemmCurve {
  int hidden = 0;
  int intermediate = 0;
  int experts = 0;        // in the measured kernel
  EfficiencyCurve curve;  // rows = mean rows per resident expert
};

// The fitted profiles that an engine's kernels are priced from: each operator from the first that has it.
struct EngineKernels {
  std::string engine;
  std::vector<std::string> fits;
};

// An operator that an engine's own tables lack, and the profile that it is from.
struct StandIn {
  std::string op, profile;
};

// Whose kernels of one kind a profile can price in place of the engine's: {kGroupedGemm, "deepgemm", "b200-deepep"}.
struct BackendKernels {
  OpKind kind;
  std::string backend, fit;
};

struct ComputeProfile {
  std::string name;
  std::string carried_over;    // why another GPU's measurements stand in for it; empty = its own
  FlopsPerSecond peak{};       // bf16 data-sheet rate of the GPU it was measured on
  EfficiencyCurve dense_gemm;  // of the bf16 peak; small rows include the weight reads (n = 4096, k = 7168)
  std::vector<GroupedGemmCurve> grouped_gemm;
  Figure weight_read;        // of the memory bandwidth, streaming expert weights (the floor)
  Figure memory_bound;       // of the memory bandwidth, other memory-bound kernels
  Figure kernel_constant;    // seconds added to each memory-bound kernel
  Figure attention_prefill;  // of the bf16 peak, causal score and value products, long prompts
  Figure attention_decode;   // of the memory bandwidth, reading the KV cache
  // The machine's fitted operators, priced from where they have what is asked; null = the figures above alone.
  std::shared_ptr<const FittedProfile> fitted;
  // By engine, the first of them chosen at first. Empty where one fit holds for all.
  std::vector<EngineKernels> kernels;
  std::vector<BackendKernels> backends;
  std::vector<StandIn> stand_ins;  // operators of `fitted` that are another engine's kernels

  // Prices by the kernels of an engine from here on; by the first there are for one that has none.
  void use_kernels_of(const std::string& engine);
  bool has_backend(OpKind kind, std::string_view backend) const;
  // The same with a backend's kernels of that kind, of the data types that its fit has; itself without such a backend.
  ComputeProfile with_backend(OpKind kind, std::string_view backend) const;

  // From the curve whose expert matrices are nearest in size; measured only for the very shape. Under its first point
  // the share stays: a caller takes the longer of this and of reading the weights.
  Efficiency grouped(int hidden, int intermediate, double rows_per_expert) const;
};

// Collectives of NCCL, then the kernels of DeepEP: normal (notification included) and low latency; TensorRT-LLM's over NVLink.
enum class CollectiveKind {
  kAllToAll,
  kAllGather,
  kReduceScatter,
  kAllReduce,
  kDeepEpDispatch,
  kDeepEpCombine,
  kDeepEpLowLatencyDispatch,
  kDeepEpLowLatencyCombine,
  kCustomAllReduce,  // the engines' own kernel inside a node, in a CUDA graph
  kNvlinkOneSidedDispatch,
  kNvlinkOneSidedCombine
};
inline constexpr std::string_view kCollectiveNames[] = {"all_to_all",
                                                        "all_gather",
                                                        "reduce_scatter",
                                                        "all_reduce",
                                                        "deepep_dispatch",
                                                        "deepep_combine",
                                                        "deepep_ll_dispatch",
                                                        "deepep_ll_combine",
                                                        "custom_all_reduce",
                                                        "nvlink_one_sided_dispatch",
                                                        "nvlink_one_sided_combine"};
// Every row passes the links twice: to be added up, and handed out.
constexpr bool is_all_reduce(CollectiveKind kind) {
  return kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kCustomAllReduce;
}

// A collective over `gpus` GPUs, measured at several buffer sizes. `bytes` follows nccl-tests: the whole send buffer of
// a GPU (all-to-all, all-reduce), the whole result (all-gather), the whole input (reduce-scatter).
struct CollectiveCurve {
  CollectiveKind kind = CollectiveKind::kAllToAll;
  int gpus = 0;
  std::vector<std::string> engines;  // whose kernel it is, by the names of EngineKernels; empty = every engine's
  // Bytes that a GPU's share of the link carries in each direction, per byte of buffer: (gpus - 1) / gpus inside a
  // node; (gpus - gpus_per_node) / gpus for an all-to-all across nodes.
  double wire_share = 0;
  BytesPerSecond link_rate{};  // data sheet: one GPU's share of the link, each direction
  struct Point {
    Bytes bytes{};
    Seconds time{};
    Seconds wire{};  // bytes x wire_share / link_rate: the time if the data sheet's rate were reached
  };
  // By growing size. The first is the base latency, at no bytes; at least one measured point follows.
  std::vector<Point> points;
  Origin origin = Origin::kMeasured;       // of the measured points
  Origin base_origin = Origin::kMeasured;  // of the base latency
  bool own_base = false;                   // measured with the curve, not the profile's base()
  std::string source;
  std::optional<ErrorSummary> held_out;  // on measured sizes that are not among the points, where the file states it

  // See LinkProfile::time; for this number of GPUs.
  Price time(Seconds wire) const;
};

// Everything known about one tier of links.
struct LinkProfile {
  std::string name;
  std::string carried_over;  // why another link's measurements stand in for it; empty = its own
  std::string borrowed;      // which of its curves are another link's, and why; empty = none
  Figure base_latency;       // seconds of a collective that carries next to nothing, but for its messages
  Seconds per_message{};     // what each message adds, one to every GPU of another node; none inside a node
  int gpus_per_node = 0;     // of the nodes that the profile was measured between; 0 inside a node
  std::vector<CollectiveCurve> curves;

  // Drops the curves that are other engines' alone. For an engine that no curve names, the first named one's stay.
  void use_kernels_of(std::string_view engine);

  // Time of an exchange over `gpus` GPUs that carries next to nothing.
  Price base(int gpus) const;

  // Time of a collective whose busiest port carries for `wire` seconds at the data sheet's rate. Linear in `wire`
  // between points, from base() at zero; past the last point in proportion (extrapolated). Between GPU counts linear in
  // log(gpus); outside them the nearest count (extrapolated). A reduce-scatter without a curve takes the all-gather's,
  // which is the same ring the other way round, a custom all-reduce NCCL's, which engines take where their own cannot
  // be, and any kind without one the all-to-all's (extrapolated). Another rate
  // scales by itself: equal wire time, equal efficiency.
  Price time(CollectiveKind kind, int gpus, Seconds wire) const;
};

struct NetworkProfile {
  LinkProfile intra;  // inside a node
  LinkProfile inter;  // between nodes; no curves for a single-node box
};

// A sentence for each profile that is not of this very hardware: what replaces what, and why.
std::vector<std::string> carried_over(const ComputeProfile& compute, const NetworkProfile& network,
                                      const MoeSpec& model, bool several_nodes);

// From the profiles that come with the program. `carried_over` is the reason the borrower gives; empty for hardware
// that the profile was measured on. An unknown name is an InputError that lists all.
ComputeProfile compute_profile(const std::string& name, const std::string& carried_over);
LinkProfile link_profile(const std::string& name, const std::string& carried_over);

}  // namespace epsim
