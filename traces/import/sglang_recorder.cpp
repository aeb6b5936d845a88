// SGLang's expert distribution recorder: what `dump_record` saves with torch.save (expert_distribution_recorder_*.pt).
//   Source: sgl-project/sglang, python/sglang/srt/eplb/expert_distribution.py at 02295fe (0.5; before 0.4.8 in
//   managers/).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "traces/import/formats.h"
#include "traces/import/recorder_passes.h"
#include "traces/import/torch_file.h"

namespace epsim {

namespace {

// Modes stat and stat_approx: logical_count, [pass][layer][expert], summed over ranks. Passes that the buffer did not
// hold are zero, as are layers without experts.
class StatDump {
 public:
  StatDump(TorchFile& file, const TorchTensor& counts) : file_(file), counts_(counts) {
    const std::size_t dims = counts.shape.size();
    if (dims != 2 && dims != 3) {
      file_.fail("logical_count must be [pass][layer][expert] or [layer][expert].");
    }
    passes_ = dims == 3 ? counts.shape[0] : 1;
    layers_ = counts.shape[dims - 2];
    experts_ = counts.shape[dims - 1];
    if (layers_ < 1 || layers_ > 4096 || experts_ < 1 || experts_ > 65536) {
      file_.fail(fmt::format("logical_count has {} layers of {} experts; 1 to 4096 of 1 to 65536 are read.", layers_,
                             experts_));
    }
  }
  void run(const std::filesystem::path& path, ImportOptions options, TraceSink& sink) {
    const std::vector<int> layers = layers_with_load();
    if (options.layer_numbers.empty() && options.model_layers == 0) {
      options.model_layers = static_cast<int>(layers_);
    }
    const TraceInfo info = imported_info(path, "sglang_recorder", options, layers, static_cast<int>(experts_), 0);
    if (info.experts != experts_) {
      file_.fail(fmt::format("logical_count has {} experts, not {}.", experts_, info.experts));
    }
    sink.begin(info, 1);
    std::vector<double> step;
    std::vector<std::int64_t> kept;
    for (std::int64_t p = 0; p < passes_; ++p) {
      read(p);
      step.clear();
      for (const int l : layers) {
        const auto from = row_.begin() + l * experts_;
        step.insert(step.end(), from, from + experts_);
      }
      if (std::any_of(step.begin(), step.end(), [](double x) { return x > 0; })) {
        const std::int64_t tokens = tokens_of(step, info);
        sink.loads({step, {&tokens, 1}});
        kept.push_back(p);
      }
    }
    Table table;
    table.columns.emplace_back("pass", kept);
    sink.table("load_rows", table);
  }

 private:
  void read(std::int64_t pass) {
    const std::size_t d = counts_.shape.size();
    const std::int64_t pass_stride = d == 3 ? counts_.stride[0] : 0;
    file_.read(counts_,
               {.first = counts_.offset + pass * pass_stride,
                .rows = layers_,
                .row_stride = counts_.stride[d - 2],
                .columns = experts_,
                .column_stride = counts_.stride[d - 1]},
               row_);
    for (std::size_t i = 0; i < row_.size(); ++i) {
      if (!std::isfinite(row_[i]) || row_[i] < 0) {
        file_.fail(fmt::format("logical_count: pass {}, layer {}, expert {}: {} is no count.", pass,
                               i / static_cast<std::size_t>(experts_), i % static_cast<std::size_t>(experts_),
                               row_[i]));
      }
    }
  }
  std::vector<int> layers_with_load() {
    std::vector<bool> has(static_cast<std::size_t>(layers_), false);
    for (std::int64_t p = 0; p < passes_; ++p) {
      read(p);
      for (std::size_t i = 0; i < row_.size(); ++i) {
        const std::size_t layer = i / static_cast<std::size_t>(experts_);
        has[layer] = has[layer] || row_[i] > 0;
      }
    }
    return layers_that(has, file_);
  }
  static std::int64_t tokens_of(const std::vector<double>& step, const TraceInfo& info) {
    return std::llround(std::accumulate(step.begin(), step.begin() + info.experts, 0.0) / info.top_k);
  }

  TorchFile& file_;
  const TorchTensor& counts_;
  std::int64_t passes_ = 0, layers_ = 0, experts_ = 0;
  std::vector<double> row_;
};

}  // namespace

bool recognises_sglang_recorder(const std::filesystem::path&, std::string_view head) {
  return head.starts_with("PK\x03\x04") && head.find("data.pkl") != std::string_view::npos;
}

void import_sglang_recorder(const std::filesystem::path& file, const ImportOptions& options, TraceSink& sink) {
  TorchFile dump(file);
  const TorchPickle& pickle = dump.pickle();
  const auto* const counts = pickle.find(pickle.root(), "logical_count");
  if (counts != nullptr && pickle.kind(*counts) == TorchPickle::Kind::kTensor) {
    StatDump(dump, pickle.tensor(*counts)).run(file, options, sink);
  } else if (counts == nullptr && pickle.find(pickle.root(), "records") != nullptr) {
    const RecorderPasses passes(dump);
    if (pickle.find(passes.records()[0], "topk_ids_of_layer") != nullptr) {
      import_pass_tokens(file, passes, options, sink);
    } else {
      import_pass_counts(file, passes, options, sink);
    }
  } else {
    dump.fail(
        "this is no dump of SGLang's expert distribution recorder: it needs a tensor logical_count (modes stat and "
        "stat_approx) or a list records (per_pass and per_token).");
  }
}

}  // namespace epsim
