#include "calibration/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "calibration/row_counts.h"
#include "models/profile/op_shapes.h"
#include "sim/core/check.h"
#include "sim/core/error.h"
#include "sim/core/refuse.h"
#include "traces/format/csv.h"

namespace epsim {

// Made by EpsimEmbed.cmake.
namespace embedded {
std::span<const std::pair<std::string_view, std::string_view>> public_tables();
}

namespace {

// A public table that an operator of a machine is read from: a row of public_tables.csv.
struct PublicTable {
  std::string collection;  // "aiconfigurator", "infersim", "cited"
  std::string machine;     // "a100"
  std::string op;          // the point table it becomes
  std::string path;        // below the collection's folder; several joined by ';'
  std::string dtype;       // rows of this dtype are taken; empty = all
  std::string kernel;      // rows of this kernel are taken; empty = all, of whichever the table's framework chooses
};

// Kernels that are measured with their model's own router; what their names begin with.
constexpr std::string_view kChoosing[] = {"sglang_", "vllm_", "moe_torch_flow_min_latency"};
constexpr std::string_view kRemotesToExpert0 = "0.5.10";  // of SGLang's tables: first_rank_with_remotes()
constexpr RouterGroups kDeepSeekGroups{.groups = 8, .kept = 4};
constexpr int kDraws = 5;  // of a power law, in a collector's mean
// Experts of a rank up to which expert 0, with seven of eight rows, is no more uneven than the tables' power laws.
constexpr double kMostWithRemotes = 16;

// Of public_tables.csv: a profile for each machine and engine, of its newest tables. What an engine's tables lack,
// its runs take from another engine's profile (models/hardware/compute). SGLang's prompts of MLA on Hopper are
// measured in the absorbed form, which it does not take for them: they are left out. So are TensorRT-LLM's bf16
// experts and decodes of GQA, where the same row measured again differs by up to 6 times, and SGLang's fp8 products
// on Blackwell, whose collector gives DeepGEMM weight scales in float32 (collector/sglang/collect_gemm.py): it
// converts them in every call, 10 us more than in TensorRT-LLM's table of the same kernel, where SGLang converts
// them once, when it loads. Experts in mxfp4: on Hopper all three engines run OpenAI's triton_kernels for gpt-oss
// (SGLang's server_args.py with ep_size 1, TensorRT-LLM's resolve_moe_backend), which vLLM's table measures;
// SGLang's is of weights turned into bf16, three times as long, and TensorRT-LLM's of CUTLASS. On Blackwell SGLang
// takes activations of gpt-oss in mxfp8 (flashinfer_mxfp4_moe_precision "default"), the others in bf16;
// TensorRT-LLM's kernels are the cubins of SGLang's table (sglang_flashinfer_trtllm_moe), within 5 % for gpt-oss on
// one GPU; its own rows differ by 2 between neighbours. Of TensorRT-LLM 1.2 (-1.2; Parquet files, to be written as
// CSV first) what differs from 1.3: fp8 on Blackwell, where DeepGEMM's products take up to twice as long, and
// decodes of MLA on Hopper.
std::vector<PublicTable> read_tables() {
  ByteInput input =
      ByteInput::from_memory("calibration/public_tables.csv", std::string(embedded::public_tables().front().second));
  CsvReader csv(input);
  const auto text = [&](std::string_view column) { return std::string(csv.text(csv.column(column))); };
  std::vector<PublicTable> out;
  while (csv.next()) {
    out.push_back({text("collection"), text("machine"), text("op"), text("path"), text("dtype"), text("kernel")});
  }
  return out;
}

const std::vector<PublicTable>& tables() {
  static const std::vector<PublicTable> all = read_tables();
  return all;
}

constexpr std::string_view kAiconfiguratorCommit = "github.com/ai-dynamo/aiconfigurator at 095f58a, systems/data";
constexpr std::string_view kInfersimCommit = "github.com/alibaba/InferSim at f2293da, bench_data";
constexpr std::string_view kCited = "calibration/cited, which names the source of each row";

std::string_view source_of(std::string_view collection) {
  return collection == "aiconfigurator" ? kAiconfiguratorCommit : collection == "infersim" ? kInfersimCommit : kCited;
}

// Reads one CSV file into a table; each row gives at most one point.
class Importer {
 public:
  Importer(const PublicTable& table, const std::filesystem::path& file, PointTable& out)
      : table_(table), input_(file), csv_(input_), out_(out) {}

  void run() {
    while (csv_.next()) {
      if ((table_.dtype.empty() || csv_.text(dtype_column()) == table_.dtype) &&
          (table_.kernel.empty() || is("kernel_source", table_.kernel))) {
        row();
      }
    }
  }
  const std::string& gpu() const { return gpu_; }

 private:
  double number(std::string_view column) const { return csv_.number(csv_.column(column)); }
  double number_or(std::string_view column, double fallback) const {
    const auto found = csv_.find_column(column);
    return found ? csv_.number(*found) : fallback;
  }
  bool is(std::string_view column, std::string_view text) const { return csv_.text(csv_.column(column)) == text; }

  std::size_t dtype_column() const {
    for (const char* name : {"moe_dtype", "gemm_dtype", "mla_dtype", "attn_dtype", "dtype"}) {
      if (const auto found = csv_.find_column(name)) {
        return *found;
      }
    }
    return csv_.column("dtype");
  }

  void row() {
    if (table_.collection != "infersim") {
      gpu_ = csv_.text(csv_.column("device"));
    }
    switch (find_op_info(table_.op)->kind) {
      case OpKind::kGroupedGemm:
        return table_.collection == "infersim" ? infersim_grouped() : grouped();
      case OpKind::kDenseGemm:
        return dense();
      case OpKind::kMlaPrefill:
      case OpKind::kMlaDecode:
        return mla();
      case OpKind::kGqaPrefill:
      case OpKind::kGqaDecode:
        return gqa();
      default:
        EPSIM_CHECK(false, "no public table has this operator");
    }
  }

  double seconds() const {
    return table_.collection == "infersim" ? number("latency_us") * 1e-6 : number("latency") * 1e-3;
  }

  // Cited rows time the product alone, where tables' kernels write their input in fp8 first: read in bf16 and written, by
  // AIConfigurator's constant and share of the bandwidth for such kernels (b200_sxm.yaml).
  static double quantised(double elements) { return 3e-6 + elements * 3 / (0.8 * 7700e9); }

  // A layer's matrices have no side below 256; the tables' narrower ones are left out.
  void dense() {
    const double m = number("m"), n = number("n"), k = number("k");
    if (std::min(n, k) >= 256) {
      out_.add(std::array{m, n, k}, seconds() + (table_.collection == "cited" ? quantised(m * k) : 0));
    }
  }

  // Whether the model's own router chooses the experts; such collectors mask remote experts, whose rows still cost time.
  bool chosen_by_router() const {
    return std::any_of(std::begin(kChoosing), std::end(kChoosing),
                       [&](std::string_view name) { return table_.kernel.starts_with(name); });
  }

  // Models whose remote assignments a collector gives to expert 0, which computes them: all of SGLang's 0.5.10, and of 0.5.14
  // those whose weights it makes itself, without a map of the experts (collector/sglang/collect_moe.py, `clamp(min=0)`).
  bool remotes_to_expert_0() const {
    const bool plain = number("num_experts") == 8 || number("hidden_size") == 2816;
    return table_.kernel.starts_with("sglang_") && (is("version", kRemotesToExpert0) || plain);
  }

  // What of its rows a kernel's price takes; of a power law the mean of several draws.
  GroupRows rows_of(const RoutingShape& shape, std::string_view distribution) const {
    const bool grouped = chosen_by_router() && shape.experts == 256 && number("hidden_size") == 7168 &&
                         !is("version", kRemotesToExpert0);
    const RouterGroups router = grouped ? kDeepSeekGroups : RouterGroups{};
    if (distribution == "balanced") {
      std::vector<std::int64_t> rows = balanced_rows(shape, router);
      rows.resize(static_cast<std::size_t>(shape.experts / shape.ranks));  // rank 0
      return summarise_rows(rows);
    }
    const double alpha = *parse_number(distribution.substr(std::string_view("power_law_").size()));
    if (!grouped) {
      return summarise_rows(power_law_quantiles(shape, alpha));
    }
    RandomStream order(Seed{1}, "router groups", static_cast<std::uint64_t>(shape.tokens));
    GroupRows mean;
    for (int draw = 0; draw < kDraws; ++draw) {
      const GroupRows one = summarise_rows(power_law_rows(shape, alpha, router, order));
      mean.rows += one.rows / kDraws;
      mean.groups += one.groups / kDraws;
      mean.rows_max += one.rows_max / kDraws;
    }
    return mean;
  }

  void grouped() {
    const double tokens = number("num_tokens"), hidden = number("hidden_size");
    const int ranks = static_cast<int>(number("moe_ep_size"));
    const std::string_view distribution = csv_.text(csv_.column("distribution"));
    const bool balanced = distribution == "balanced", whole = number("moe_tp_size") == 1;
    const bool a100 = table_.machine.starts_with("a100");
    const bool whole_alone = a100 || table_.machine.ends_with("-deepep");
    const bool remotes_first = a100 && balanced && number("num_experts") <= kMostWithRemotes * ranks;
    // Nemotron's experts have no gate projection, and its 22 choices go through a latent.
    const bool gated = number("topk") != 22 && hidden != 2688;
    // With expert parallelism a power law's busiest rank is a draw. Behind DeepEP no expert is split: those profiles, and
    // the A100's, know whole experts alone.
    if (!gated || (whole_alone && !whole) || (ranks > 1 && !balanced) ||
        (ranks > 1 && !remotes_first && remotes_to_expert_0())) {
      return;
    }
    const RoutingShape shape{static_cast<std::int64_t>(tokens), static_cast<int>(number("num_experts")),
                             static_cast<int>(number("topk")), ranks};
    const GroupRows sum = remotes_first ? summarise_rows(first_rank_with_remotes(shape)) : rows_of(shape, distribution);
    if (sum.rows > 0) {
      const double width = number("inter_size") / number("moe_tp_size");
      const bool masks_remotes = ranks > 1 && chosen_by_router() && !remotes_first;
      const double all = masks_remotes ? tokens * number("topk") : sum.rows;
      if (masks_remotes && all <= sum.rows) {
        return;  // a single token's choices, all of them here
      }
      out_.add(std::array{sum.rows, sum.groups, sum.rows_max, hidden, width, tokens, all, number("num_experts")},
               seconds());
    }
  }

  void infersim_grouped() {
    const double groups = number("num_local_experts"), each = number("tokens_per_expert");
    // Up to three rows an expert the files cannot say how many experts got one.
    if (each < 4) {
      return;
    }
    // The files round tokens per expert down; what a kernel works on is the tokens of all GPUs over all experts.
    const double batch = number_or("batch_size_per_gpu", 0) + number_or("seq_len_per_gpu", 0);
    const double exact = batch * number("num_gpus") * number("topk") / number("num_experts");
    const double rows = std::max({1.0, each, exact});
    out_.add(std::array{rows * groups, groups, std::ceil(rows), number("hidden_size"), number("intermediate_size"),
                        rows * groups, rows * groups, groups},
             (number("up_proj_us") + number("down_proj_us")) * 1e-6);
  }

  const char* cache() const { return table_.op.ends_with("_fp8") ? "fp8" : "bfloat16"; }

  void mla() {
    if (table_.collection == "infersim") {
      const bool prefill = table_.op == "mla_prefill";
      if (prefill || is("kv_dtype", "bf16")) {
        out_.add(
            std::array{prefill ? 1.0 : number("batch_size"), prefill ? number("seq_len") : number("kv_len"), 128.0},
            seconds());
      }
      return;
    }
    if (!is("kv_cache_dtype", cache())) {
      return;
    }
    const double length = number("isl") + (table_.op.starts_with("mla_decode") ? number("step") : 0);
    out_.add(std::array{number("batch_size"), length, number("num_heads")}, seconds());
  }

  void gqa() {
    const double width = table_.op.find("_64") != table_.op.npos    ? 64
                         : table_.op.find("_256") != table_.op.npos ? 256
                                                                    : 128;
    if (!is("kv_cache_dtype", cache()) || number("head_dim") != width || number_or("window_size", 0) != 0) {
      return;
    }
    const double length = number("isl") + (table_.op.starts_with("gqa_decode") ? number("step") : 0);
    out_.add(std::array{number("batch_size"), length, number("num_heads"), number("num_key_value_heads"), width},
             seconds());
  }

  const PublicTable& table_;
  ByteInput input_;
  CsvReader csv_;
  PointTable& out_;
  std::string gpu_;
};

std::vector<std::filesystem::path> files_of(const PublicTable& table, const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> out;
  for (std::size_t at = 0; at <= table.path.size();) {
    const std::size_t end = std::min(table.path.find(';', at), table.path.size());
    out.push_back(folder / table.path.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

PointTable empty_table(const PublicTable& table) {
  PointTable out;
  out.op = table.op;
  const OpInfo& info = *find_op_info(table.op);
  for (const std::string_view name : info.parameters) {
    if (!name.empty()) {
      out.columns.emplace_back(name);
    }
  }
  if (info.kind == OpKind::kGroupedGemm) {
    out.columns.insert(out.columns.end(), {"assignments", "experts"});
  }
  out.values.resize(out.columns.size());
  out.attributes["dtype"] = std::string(dtype_of(table.op).name);
  out.attributes["kernel"] = table.kernel.empty() ? "as the table's framework chooses" : table.kernel;
  out.attributes["table"] = table.path;
  return out;
}

}  // namespace

std::vector<std::string> public_collections() {
  std::vector<std::string> out;
  for (const PublicTable& table : tables()) {
    if (std::find(out.begin(), out.end(), table.collection) == out.end()) {
      out.emplace_back(table.collection);
    }
  }
  return out;
}

std::vector<std::string> public_machines(const std::string& collection) {
  std::vector<std::string> out;
  for (const PublicTable& table : tables()) {
    if (table.collection == collection && std::find(out.begin(), out.end(), table.machine) == out.end()) {
      out.emplace_back(table.machine);
    }
  }
  return out;
}

PointFile import_public(const std::string& collection, const std::string& machine, const std::filesystem::path& folder,
                        const std::string& only) {
  const std::vector<std::string> collections = public_collections(), machines = public_machines(collection);
  refuse_if(machines.empty(), "", unknown_name("collection of public measurements", collection, collections));
  refuse_if(std::find(machines.begin(), machines.end(), machine) == machines.end(), "",
            unknown_name("machine of " + collection, machine, machines));
  PointFile out;
  out.provenance.machine = machine;
  out.provenance.source = source_of(collection);
  out.provenance.licence = "Apache-2.0";
  out.provenance.notes = "imported, not measured by this project";
  out.provenance.gpu = machine;
  for (const PublicTable& table : tables()) {
    if (table.collection != collection || table.machine != machine || (!only.empty() && table.op != only)) {
      continue;
    }
    PointTable points = empty_table(table);
    for (const std::filesystem::path& file : files_of(table, folder)) {
      Importer importer(table, file, points);
      importer.run();
      if (!importer.gpu().empty()) {
        out.provenance.gpu = importer.gpu();
      }
    }
    out.tables.push_back(std::move(points));
  }
  validate_points(out, folder.string());
  return out;
}

}  // namespace epsim
