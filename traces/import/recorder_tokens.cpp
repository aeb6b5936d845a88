// Mode per_token of SGLang's recorder.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "traces/import/recorder_passes.h"
#include "traces/import/token_batch.h"

namespace epsim {

namespace {

using Ref = TorchPickle::Ref;

constexpr std::int64_t kTokensAtOnce = 1024;

// The columns of a table, filled row by row.
class Columns {
 public:
  void add(const std::string& name, std::int64_t value) { values_[name].push_back(value); }
  Table table(std::initializer_list<const char*> order) const {
    Table out;
    for (const char* name : order) {
      const auto found = values_.find(name);
      out.columns.emplace_back(name, found == values_.end() ? std::vector<std::int64_t>() : found->second);
    }
    return out;
  }

 private:
  std::map<std::string, std::vector<std::int64_t>> values_;
};

// per_token: topk_ids_of_layer, [layer][token][slot], -1 where nothing was chosen: layers without experts, slots beyond
// the model's top-k, and tokens that only fill a batch up, which are left out.
class PassTokens {
 public:
  explicit PassTokens(const RecorderPasses& passes) : passes_(passes) {}

  void run(const std::filesystem::path& path, ImportOptions options, TraceSink& sink) {
    find_shape();
    if (options.layer_numbers.empty() && options.model_layers == 0) {
      options.model_layers = static_cast<int>(passes_.layers());
    }
    info_ = imported_info(path, "sglang_recorder", options, layers_, passes_.experts(), top_k_);
    if (info_.top_k != top_k_) {
      passes_.file().fail(fmt::format("a choice has {} experts, not {}.", top_k_, info_.top_k));
    }
    sink.begin(info_, 1);
    TokenBatch batch(info_, sink);
    for (const Ref record : passes_.records()) {
      add_record(record, batch);
    }
    end_sequence();
    batch.flush();
    sink.table("sequences", columns_.table({"forward_pass_id", "rank", "forward_mode", "first_row", "num_tokens",
                                            "first_token_pos", "last_token_pos"}));
  }

 private:
  const TorchTensor& ids_of(Ref record) const {
    const TorchTensor& ids = passes_.tensor(record, "topk_ids_of_layer", 3);
    if (ids.shape[0] != passes_.layers() || ids.shape[2] < 1 || ids.shape[2] > 64) {
      passes_.file().fail("topk_ids_of_layer must have the layers of last_physical_to_logical_map, and 1 to 64 slots.");
    }
    return ids;
  }
  void read_layer(const TorchTensor& ids, std::int64_t layer, std::int64_t first, std::int64_t count,
                  std::vector<double>& out) {
    passes_.file().read(ids,
                        {.first = ids.offset + layer * ids.stride[0] + first * ids.stride[1],
                         .rows = count,
                         .row_stride = ids.stride[1],
                         .columns = ids.shape[2],
                         .column_stride = ids.stride[2]},
                        out);
  }
  // Recorded layers and top-k: those of the first token that has any.
  void find_shape() {
    std::vector<double> choice;
    for (std::size_t r = 0; r < passes_.records().size() && layers_.empty(); ++r) {
      const TorchTensor& ids = ids_of(passes_.records()[r]);
      for (std::int64_t t = 0; t < ids.shape[1] && layers_.empty(); ++t) {
        for (std::int64_t l = 0; l < passes_.layers(); ++l) {
          read_layer(ids, l, t, 1, choice);
          const auto used = std::count_if(choice.begin(), choice.end(), [](double e) { return e >= 0; });
          if (used > 0) {
            layers_.push_back(static_cast<int>(l));
            top_k_ = std::max(top_k_, static_cast<int>(used));
          }
        }
      }
    }
    if (layers_.empty()) {
      passes_.file().fail("no token of its records has experts.");
    }
  }
  void add_record(Ref record, TokenBatch& batch) {
    const TorchTensor& ids = ids_of(record);
    const std::vector<std::int64_t> positions = passes_.numbers(record, "positions");
    const std::vector<std::int64_t> lengths = passes_.numbers(record, "extend_seq_lens");
    const auto tokens = static_cast<std::size_t>(ids.shape[1]);
    if (positions.size() != tokens || std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}) > ids.shape[1]) {
      passes_.file().fail(fmt::format("a record has {} tokens, {} positions, and requests of {} tokens.", tokens,
                                      positions.size(),
                                      std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0})));
    }
    // Requests one after another, extend_seq_lens tokens each; without it (decoding), and beyond it, a token each.
    std::size_t request = 0;
    std::int64_t left = 0;
    for (std::int64_t t = 0; t < ids.shape[1]; ++t, --left) {
      if (t % kTokensAtOnce == 0) {
        read_block(ids, t);
      }
      while (left == 0) {
        left = request < lengths.size() ? lengths[request] : 1;
        ++request;
        starts_ = true;
      }
      if (add_token(t % kTokensAtOnce, batch)) {
        end_token(record, positions[static_cast<std::size_t>(t)], batch);
      }
    }
  }
  void read_block(const TorchTensor& ids, std::int64_t first) {
    block_.resize(layers_.size());
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      read_layer(ids, layers_[l], first, std::min(kTokensAtOnce, ids.shape[1] - first), block_[l]);
      slots_ = ids.shape[2];
    }
  }
  // False when the token has no experts in any layer.
  bool add_token(std::int64_t at, TokenBatch& batch) {
    const auto used = [&](std::size_t l, int k) { return block_[l][static_cast<std::size_t>(at * slots_ + k)] >= 0; };
    if (!used(0, 0)) {
      for (std::size_t l = 0; l < layers_.size(); ++l) {
        if (used(l, 0)) {
          passes_.file().fail(
              fmt::format("a token has experts in layer {} but none in layer {}.", layers_[l], layers_[0]));
        }
      }
      return false;
    }
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      for (int k = 0; k < top_k_; ++k) {
        const double id = slots_ > k ? block_[l][static_cast<std::size_t>(at * slots_ + k)] : -1;
        const bool known = id >= 0 && id < static_cast<double>(passes_.physical());
        const char* wrong = known ? batch.add(passes_.logical(layers_[l], static_cast<std::int64_t>(id)))
                                  : "is no physical expert of the map";
        if (wrong != nullptr) {
          passes_.file().fail(fmt::format("topk_ids_of_layer, layer {}: expert {} {}.", layers_[l], id, wrong));
        }
      }
    }
    return true;
  }
  void end_token(Ref record, std::int64_t position, TokenBatch& batch) {
    if (starts_) {
      columns_.add("forward_pass_id", passes_.number(record, "forward_pass_id"));
      columns_.add("rank", passes_.number(record, "rank"));
      columns_.add("forward_mode", passes_.number(record, "forward_mode"));
      columns_.add("first_row", rows_);
      columns_.add("first_token_pos", position);
      if (sequence_ >= 0) {
        end_sequence();
      }
      first_ = rows_;
      ++sequence_;
      starts_ = false;
    }
    batch.end_token(sequence_, static_cast<std::int32_t>(position));
    last_position_ = position;
    ++rows_;
  }
  void end_sequence() {
    columns_.add("num_tokens", rows_ - first_);
    columns_.add("last_token_pos", last_position_);
  }

  const RecorderPasses& passes_;
  TraceInfo info_;
  std::vector<int> layers_;
  int top_k_ = 0;
  std::vector<std::vector<double>> block_;  // [layer][token of the block][slot]
  std::int64_t slots_ = 0;
  Columns columns_;
  std::int64_t rows_ = 0, first_ = 0, last_position_ = 0;
  std::int32_t sequence_ = -1;
  bool starts_ = false;
};

}  // namespace

void import_pass_tokens(const std::filesystem::path& file, const RecorderPasses& passes, ImportOptions options,
                        TraceSink& sink) {
  PassTokens(passes).run(file, std::move(options), sink);
}

}  // namespace epsim
