// Importers: any bytes either come out as a trace that keeps its promises, or end in an InputError.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "sim/core/error.h"
#include "tests/fuzz/input_folder.h"
#include "tests/fuzz/targets.h"
#include "traces/import/importer.h"

namespace epsim::fuzz {

namespace {

void require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

// Aborts unless everything has the shape that begin() stated, and ids are in range.
class CheckingSink final : public TraceSink {
 public:
  void begin(const TraceInfo& info, int sources) override {
    require(!begun_ && sources > 0);
    info.validate("fuzz");
    begun_ = true;
    info_ = info;
    sources_ = static_cast<std::size_t>(sources);
  }
  void loads(const LoadRow& row) override {
    require(begun_ && row.tokens.size() == sources_);
    require(row.counts.size() == static_cast<std::size_t>(info_.layers()) * sources_ * info_.experts);
    for (const double x : row.counts) {
      require(std::isfinite(x) && x >= 0);
    }
  }
  void tokens(const TokenBlock& block) override {
    require(begun_ && block.position.size() == block.tokens());
    require(block.experts.size() == block.tokens() * info_.layers() * info_.top_k);
    for (const std::uint16_t e : block.experts) {
      require(e < info_.experts);
    }
  }
  void table(const std::string&, const Table& table) override {
    for (const auto& [title, column] : table.columns) {
      require(std::visit([](const auto& values) { return values.size(); }, column) == table.rows());
    }
  }

 private:
  TraceInfo info_;
  std::size_t sources_ = 0;
  bool begun_ = false;
};

// `bytes` as a file of that name, which the format expects.
void import_as(std::string_view format, const std::string& name, const std::string& bytes) {
  static const InputFolder folder;
  ImportOptions options;
  std::filesystem::path file = folder.write(name, bytes);
  if (format == "trtllm") {
    folder.write("meta_info.json", R"({"num_experts": 4, "num_experts_per_token": 2})");
    file = file.parent_path();
  } else {
    options.top_k = 2;
    options.experts = format.starts_with("token") || format == "numpy" ? 4 : 0;
  }
  try {
    CheckingSink sink;
    import_trace(file, std::string(format), options, sink);
  } catch (const InputError&) {
  }
}

constexpr Target kImportTargets[] = {
    {"sglang", [](const std::string& bytes) { import_as("sglang", "input.json", bytes); }},
    {"wide_csv", [](const std::string& bytes) { import_as("wide_csv", "input.csv", bytes); }},
    {"long_csv", [](const std::string& bytes) { import_as("long_csv", "input.csv", bytes); }},
    {"token_csv", [](const std::string& bytes) { import_as("token_csv", "input.csv", bytes); }},
    {"token_binary", [](const std::string& bytes) { import_as("token_binary", "input_T2x2.bin", bytes); }},
    {"npy", [](const std::string& bytes) { import_as("numpy", "input.npy", bytes); }},
    {"npz", [](const std::string& bytes) { import_as("numpy", "input.npz", bytes); }},
    {"trtllm", [](const std::string& bytes) { import_as("trtllm", "rank0.safetensors", bytes); }}};

}  // namespace

std::span<const Target> import_targets() { return kImportTargets; }

}  // namespace epsim::fuzz
