// Fuzz target of one importer (reader.h): any bytes either come out as a trace that keeps its promises, or end
// in an InputError. Anything else is a bug.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>

#include "sim/core/error.h"
#include "tests/fuzz/input_folder.h"
#include "tests/fuzz/reader.h"
#include "traces/import/importer.h"

namespace epsim {
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

// The name that an importer expects of its file.
struct ImportedFile {
  std::string_view reader, format, file;
};
constexpr ImportedFile kFiles[] = {{"sglang", "sglang", "input.json"},
                                   {"wide_csv", "wide_csv", "input.csv"},
                                   {"long_csv", "long_csv", "input.csv"},
                                   {"token_csv", "token_csv", "input.csv"},
                                   {"token_binary", "token_binary", "input_T2x2.bin"},
                                   {"npy", "numpy", "input.npy"},
                                   {"npz", "numpy", "input.npz"},
                                   {"trtllm", "trtllm", "rank0.safetensors"}};

const ImportedFile& wanted() {
  const auto* found = std::ranges::find(kFiles, fuzz::reader(), &ImportedFile::reader);
  return found != std::end(kFiles) ? *found : throw std::invalid_argument("no such importer: " + fuzz::reader());
}

}  // namespace
}  // namespace epsim

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) { return epsim::fuzz::set_reader(*argc, *argv); }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const epsim::fuzz::InputFolder folder;
  static const std::string format(epsim::wanted().format), name(epsim::wanted().file);
  epsim::ImportOptions options;
  if (format == "trtllm") {
    const std::string meta = R"({"num_experts": 4, "num_experts_per_token": 2})";
    folder.write("meta_info.json", reinterpret_cast<const std::uint8_t*>(meta.data()), meta.size());
  } else {
    options.top_k = 2;
    options.experts = format.starts_with("token") || format == "numpy" ? 4 : 0;
  }
  std::filesystem::path file = folder.write(name, data, size);
  if (format == "trtllm") {
    file = file.parent_path();
  }
  try {
    epsim::CheckingSink sink;
    epsim::import_trace(file, format, options, sink);
  } catch (const epsim::InputError&) {
  }
  return 0;
}
