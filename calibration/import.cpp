#include "calibration/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "calibration/row_counts.h"
#include "models/profile/op_shapes.h"
#include "sim/core/check.h"
#include "sim/core/error.h"
#include "traces/format/csv.h"

namespace epsim {
namespace {

constexpr std::string_view kTriton = "sglang_fused_moe_triton", kCutlass = "moe_torch_flow_cutlass";
constexpr std::string_view kRemotesToExpert0 = "0.5.10";  // of SGLang's tables: first_rank_with_remotes()
// Experts of a rank up to which expert 0, with seven of eight rows, is no more uneven than the tables' power laws.
constexpr double kMostWithRemotes = 16;

// Most tables of aiconfigurator are of bf16 and of whichever kernel its framework chooses.
constexpr PublicTable bf16_table(std::string_view machine, std::string_view op, std::string_view path) {
  return {"aiconfigurator", machine, op, path, "bfloat16", ""};
}

// For each machine the newest table of a framework that has the operator in that dtype. MLA on Hopper takes its prefill
// from TensorRT-LLM and its decode from SGLang, the faster kernels of both.
constexpr PublicTable kTables[] = {
    {"aiconfigurator", "a100", "grouped_gemm", "a100_sxm/moe/sglang/0.5.10/moe_perf.csv.gz", "bfloat16", kTriton},
    bf16_table("a100", "dense_gemm", "a100_sxm/gemm/sglang/0.5.10/gemm_perf.csv.gz"),
    bf16_table("a100", "mla_prefill", "a100_sxm/mla/trtllm/1.0.0/context_mla_perf.csv.gz"),
    bf16_table("a100", "mla_decode", "a100_sxm/mla/trtllm/1.0.0/generation_mla_perf.csv.gz"),
    bf16_table("a100", "gqa_prefill", "a100_sxm/attention/sglang/0.5.10/context_attention_perf.csv.gz"),
    bf16_table("a100", "gqa_decode", "a100_sxm/attention/sglang/0.5.10/generation_attention_perf.csv.gz"),
    {"aiconfigurator", "h100", "grouped_gemm", "h100_sxm/moe/sglang/0.5.14/moe_perf.csv.gz", "bfloat16", kTriton},
    {"aiconfigurator", "h100", "grouped_gemm_fp8", "h100_sxm/moe/trtllm/1.3.0rc20/moe_perf.csv.gz", "fp8_block",
     kCutlass},
    bf16_table("h100", "dense_gemm", "h100_sxm/gemm/trtllm/1.3.0rc20/gemm_perf.csv.gz"),
    {"aiconfigurator", "h100", "dense_gemm_fp8", "h100_sxm/gemm/trtllm/1.3.0rc20/gemm_perf.csv.gz", "fp8_block", ""},
    bf16_table("h100", "mla_prefill", "h100_sxm/mla/trtllm/1.3.0rc20/context_mla_perf.csv.gz"),
    bf16_table("h100", "mla_decode", "h100_sxm/mla/sglang/0.5.14/generation_mla_perf.csv.gz"),
    bf16_table("h100", "gqa_prefill", "h100_sxm/attention/sglang/0.5.14/context_attention_perf.csv.gz"),
    bf16_table("h100", "gqa_decode", "h100_sxm/attention/sglang/0.5.14/generation_attention_perf.csv.gz"),
    {"aiconfigurator", "h200", "grouped_gemm", "h200_sxm/moe/sglang/0.5.14/moe_perf.csv.gz", "bfloat16", kTriton},
    {"aiconfigurator", "h200", "grouped_gemm_fp8", "h200_sxm/moe/trtllm/1.3.0rc20/moe_perf.csv.gz", "fp8_block",
     kCutlass},
    bf16_table("h200", "dense_gemm", "h200_sxm/gemm/trtllm/1.3.0rc20/gemm_perf.csv.gz"),
    {"aiconfigurator", "h200", "dense_gemm_fp8", "h200_sxm/gemm/trtllm/1.3.0rc20/gemm_perf.csv.gz", "fp8_block", ""},
    bf16_table("h200", "mla_prefill", "h200_sxm/mla/trtllm/1.3.0rc20/context_mla_perf.csv.gz"),
    bf16_table("h200", "mla_decode", "h200_sxm/mla/sglang/0.5.14/generation_mla_perf.csv.gz"),
    bf16_table("h200", "gqa_prefill", "h200_sxm/attention/sglang/0.5.14/context_attention_perf.csv.gz"),
    bf16_table("h200", "gqa_decode", "h200_sxm/attention/sglang/0.5.14/generation_attention_perf.csv.gz"),
    {"infersim", "h20", "grouped_gemm_fp8", "grouped_gemm/decode/h20/data.csv;grouped_gemm/prefill/h20/data.csv", "",
     ""},
    {"infersim", "h20", "dense_gemm_fp8", "gemm/h20/data.csv", "", ""},
    {"infersim", "h20", "mla_decode", "mla/decode/h20/128-512-64.csv", "bf16", ""},
    {"infersim", "h800", "grouped_gemm_fp8", "grouped_gemm/decode/h800/data.csv;grouped_gemm/prefill/h800/data.csv", "",
     ""},
    {"infersim", "h800", "dense_gemm_fp8", "gemm/h800/data.csv", "", ""},
    {"infersim", "h800", "mla_prefill", "mla/prefill/h800/128-128-64.csv", "bf16", ""},
    {"infersim", "h800", "mla_decode", "mla/decode/h800/128-512-64.csv", "bf16", ""},
};

constexpr std::string_view kAiconfiguratorCommit = "github.com/ai-dynamo/aiconfigurator at 095f58a, systems/data";
constexpr std::string_view kInfersimCommit = "github.com/alibaba/InferSim at f2293da, bench_data";

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
    if (table_.collection == "aiconfigurator") {
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

  // A layer's matrices have no side below 256; the tables' narrower ones are left out.
  void dense() {
    const double n = number("n"), k = number("k");
    if (std::min(n, k) >= 256) {
      out_.add(std::array{number("m"), n, k}, seconds());
    }
  }

  void grouped() {
    const double tokens = number("num_tokens"), hidden = number("hidden_size");
    const int ranks = static_cast<int>(number("moe_ep_size"));
    const std::string_view distribution = csv_.text(csv_.column("distribution"));
    const bool balanced = distribution == "balanced";
    const bool triton = table_.kernel == kTriton;
    const bool remotes_first =
        triton && is("version", kRemotesToExpert0) && balanced && number("num_experts") <= kMostWithRemotes * ranks;
    // Nemotron's experts have no gate projection, and its 22 choices go through a latent.
    const bool gated = number("topk") != 22 && hidden != 2688;
    // With expert parallelism SGLang's newer collector masks remote experts, whose rows still cost time; a power law's
    // busiest rank is a draw.
    // epsim splits experts over ranks, never one expert.
    if (!gated || number("moe_tp_size") != 1 || (ranks > 1 && !remotes_first && (triton || !balanced))) {
      return;
    }
    const RoutingShape shape{static_cast<std::int64_t>(tokens), static_cast<int>(number("num_experts")),
                             static_cast<int>(number("topk")), ranks};
    std::vector<std::int64_t> rows;
    if (remotes_first) {
      rows = first_rank_with_remotes(shape);
    } else if (balanced) {
      rows = balanced_rows(shape);
      rows.resize(static_cast<std::size_t>(shape.experts / ranks));  // rank 0
    } else {
      rows = power_law_quantiles(shape, *parse_number(distribution.substr(std::string_view("power_law_").size())));
    }
    const GroupRows sum = summarise_rows(rows);
    if (sum.rows > 0) {
      out_.add(std::array{sum.rows, sum.groups, sum.rows_max, hidden, number("inter_size"), tokens}, seconds());
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
                        rows * groups},
             (number("up_proj_us") + number("down_proj_us")) * 1e-6);
  }

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
    if (!is("kv_cache_dtype", "bfloat16")) {
      return;
    }
    const double length = table_.op == "mla_prefill" ? number("isl") : number("isl") + number("step");
    out_.add(std::array{number("batch_size"), length, number("num_heads")}, seconds());
  }

  void gqa() {
    const bool plain =
        is("kv_cache_dtype", "bfloat16") && number("head_dim") == 128 && number_or("window_size", 0) == 0;
    if (!plain) {
      return;
    }
    const double length = table_.op == "gqa_prefill" ? number("isl") : number("isl") + number("step");
    out_.add(std::array{number("batch_size"), length, number("num_heads"), number("num_key_value_heads"), 128.0},
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
  for (const std::string_view name : find_op_info(table.op)->parameters) {
    if (!name.empty()) {
      out.columns.emplace_back(name);
    }
  }
  out.values.resize(out.columns.size());
  out.attributes["dtype"] = table.op.ends_with("_fp8") ? "fp8" : "bf16";
  out.attributes["kernel"] = table.kernel.empty() ? "as the table's framework chooses" : std::string(table.kernel);
  out.attributes["table"] = std::string(table.path);
  return out;
}

}  // namespace

std::span<const PublicTable> public_tables() { return kTables; }

std::vector<std::string> public_collections() {
  std::vector<std::string> out;
  for (const PublicTable& table : kTables) {
    if (std::find(out.begin(), out.end(), table.collection) == out.end()) {
      out.emplace_back(table.collection);
    }
  }
  return out;
}

std::vector<std::string> public_machines(const std::string& collection) {
  std::vector<std::string> out;
  for (const PublicTable& table : kTables) {
    if (table.collection == collection && std::find(out.begin(), out.end(), table.machine) == out.end()) {
      out.emplace_back(table.machine);
    }
  }
  return out;
}

PointFile import_public(const std::string& collection, const std::string& machine, const std::filesystem::path& folder,
                        const std::string& only) {
  const std::vector<std::string> collections = public_collections(), machines = public_machines(collection);
  if (machines.empty()) {
    throw InputError({}, unknown_name("collection of public measurements", collection, collections));
  }
  if (std::find(machines.begin(), machines.end(), machine) == machines.end()) {
    throw InputError({}, unknown_name("machine of " + collection, machine, machines));
  }
  PointFile out;
  out.provenance.machine = machine;
  out.provenance.source = collection == "aiconfigurator" ? kAiconfiguratorCommit : kInfersimCommit;
  out.provenance.licence = "Apache-2.0";
  out.provenance.notes = "imported, not measured by this project";
  out.provenance.gpu = machine;
  for (const PublicTable& table : kTables) {
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
