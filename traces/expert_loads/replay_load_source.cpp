#include "traces/expert_loads/replay_load_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "sim/core/check.h"
#include "sim/core/error.h"
#include "sim/core/refuse.h"

namespace epsim {

namespace {

constexpr std::size_t kBlockBytes = std::size_t{4} << 20;
constexpr std::size_t kBytesKept = std::size_t{64} << 20;  // a trace that fits is unpacked once, however long the run

class FileRows final : public LoadRows {
 public:
  explicit FileRows(std::shared_ptr<const TraceFile> file) : file_(std::move(file)) {}
  const std::string& name() const override { return file_->name(); }
  std::int64_t rows() const override { return file_->load_rows(); }
  int layers() const override { return file_->info().layers(); }
  int sources() const override { return file_->sources(); }
  int experts() const override { return file_->info().experts; }
  void read(std::int64_t first, std::int64_t count, std::span<float> out) const override {
    std::vector<std::int64_t> tokens(static_cast<std::size_t>(count) * file_->sources());
    file_->read_loads<float>(first, count, out, tokens);
  }

 private:
  std::shared_ptr<const TraceFile> file_;
};

class TokenRows final : public LoadRows {
 public:
  TokenRows(std::shared_ptr<const TraceFile> file, std::int64_t batch_tokens)
      : file_(std::move(file)), batch_(std::min(batch_tokens, file_->token_count())) {}
  const std::string& name() const override { return file_->name(); }
  std::int64_t rows() const override { return file_->token_count() / batch_; }
  int layers() const override { return file_->info().layers(); }
  int sources() const override { return 1; }
  int experts() const override { return file_->info().experts; }
  void read(std::int64_t first, std::int64_t count, std::span<float> out) const override {
    std::fill(out.begin(), out.end(), 0.0F);
    TraceFile::Tokens tokens;
    const auto layer_count = static_cast<std::size_t>(layers()), expert_count = static_cast<std::size_t>(experts());
    const auto k = static_cast<std::size_t>(file_->info().top_k);
    for (std::int64_t r = 0; r < count; ++r) {
      file_->read_tokens((first + r) * batch_, batch_, tokens);
      float* row = out.data() + static_cast<std::size_t>(r) * layer_count * expert_count;
      for (std::size_t i = 0; i < tokens.experts.size(); ++i) {
        row[i / k % layer_count * expert_count + tokens.experts[i]] += 1.0F;
      }
    }
  }
  std::int64_t tokens_of_row() const override { return batch_; }
  void read_tokens(std::int64_t first, std::int64_t count, std::vector<std::uint16_t>& out) const override {
    TraceFile::Tokens tokens;
    file_->read_tokens(first * batch_, count * batch_, tokens);
    out = std::move(tokens.experts);
  }

 private:
  std::shared_ptr<const TraceFile> file_;
  std::int64_t batch_;
};

// One layer of one source: counts to chances that sum to top-k.
void normalise(std::span<float> row, int top_k, const std::string& file, std::int64_t number) {
  const double total = std::accumulate(row.begin(), row.end(), 0.0);
  if (!(total > 0)) {
    std::fill(row.begin(), row.end(), static_cast<float>(top_k) / static_cast<float>(row.size()));
    return;
  }
  const double scale = top_k / total;
  for (float& x : row) {
    const double chance = x * scale;
    if (chance > 1 + 1e-6) {
      throw InputError({file, 0, ""}, fmt::format("load row {}: an expert takes {:.4g} assignments per token; with "
                                                  "top-{} routing it takes at most 1.",
                                                  number, chance, top_k));
    }
    x = static_cast<float>(std::min(chance, 1.0));
  }
}

}  // namespace

std::shared_ptr<const LoadRows> load_rows_of(std::shared_ptr<const TraceFile> file, const MoeSpec& model,
                                             std::int64_t batch_tokens) {
  const TraceInfo& info = file->info();
  const auto require = [&](bool holds, const std::string& problem) {
    refuse_if(!holds, {file->name(), 0, ""}, problem);
  };
  require(file->load_rows() > 0 || file->token_count() > 0, "the trace holds neither load rows nor tokens.");
  require(info.experts == model.experts && info.top_k == model.top_k,
          fmt::format("the trace has {} experts and top-{}, {} has {} and top-{}.", info.experts, info.top_k,
                      model.name, model.experts, model.top_k));
  require(info.layer_numbers == model.moe_layer_numbers(),
          fmt::format("the trace's {} layers are not the {} MoE layers of {}.", info.layers(), model.moe_layers(),
                      model.name));
  if (file->load_rows() > 0) {
    return std::make_shared<FileRows>(std::move(file));
  }
  return std::make_shared<TokenRows>(std::move(file), batch_tokens);
}

LoadWindow window_of(const LoadRows& rows, bool batches) {
  LoadWindow window(rows.layers(), rows.experts());
  const std::size_t width = static_cast<std::size_t>(rows.layers()) * rows.experts();
  const auto sources = static_cast<std::size_t>(rows.sources()), experts = static_cast<std::size_t>(rows.experts());
  if (batches) {
    window.reserve_batches(static_cast<int>(rows.rows()));
  }
  std::vector<float> row(width * sources), summed(width);
  for (std::int64_t r = 0; r < rows.rows(); ++r) {
    rows.read(r, 1, row);
    std::fill(summed.begin(), summed.end(), 0.0F);
    add_sources<float>(row, sources, experts, summed);
    if (batches) {
      window.add_batch(summed);
      continue;
    }
    for (std::size_t i = 0; i < width; ++i) {
      window.layer(static_cast<int>(i / experts))[i % experts] += static_cast<double>(summed[i]);
    }
  }
  return window;
}

ReplayLoadSource::ReplayLoadSource(std::shared_ptr<const LoadRows> rows, int top_k, bool sum_sources)
    : rows_(std::move(rows)),
      top_k_(top_k),
      sum_sources_(sum_sources),
      sources_(sum_sources ? 1 : rows_->sources()),
      row_size_(static_cast<std::size_t>(rows_->layers()) * sources_ * rows_->experts()),
      row_ids_(static_cast<std::size_t>(rows_->tokens_of_row()) * rows_->layers() * top_k) {
  EPSIM_CHECK(rows_->rows() > 0, "there are rows to replay");
  const std::size_t read_size = row_size_ / static_cast<std::size_t>(sources_) * rows_->sources();
  const std::size_t bytes = read_size * sizeof(float) + row_ids_ * sizeof(std::uint16_t);
  rows_per_block_ = static_cast<std::int64_t>(std::max<std::size_t>(1, kBlockBytes / bytes));
}

ReplayLoadSource::Block ReplayLoadSource::load(std::int64_t number) const {
  const std::int64_t first = number * rows_per_block_;
  const std::int64_t count = std::min(rows_per_block_, rows_->rows() - first);
  const auto experts = static_cast<std::size_t>(rows_->experts());
  const auto read_sources = static_cast<std::size_t>(rows_->sources());
  Block block;
  std::vector<float>& loads = block.loads;
  loads.resize(static_cast<std::size_t>(count) * rows_->layers() * read_sources * experts);
  rows_->read(first, count, loads);
  if (sum_sources_ && read_sources > 1) {
    std::vector<float> summed(loads.size() / read_sources, 0.0F);
    add_sources<float>(loads, read_sources, experts, summed);
    loads = std::move(summed);
  }
  for (std::size_t at = 0; at < loads.size(); at += experts) {
    normalise({loads.data() + at, experts}, top_k_, rows_->name(), first + static_cast<std::int64_t>(at / row_size_));
  }
  if (row_ids_ > 0) {
    rows_->read_tokens(first, count, block.experts);
  }
  return block;
}

std::shared_ptr<const ReplayLoadSource::Block> ReplayLoadSource::block(std::int64_t number) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = std::find_if(cache_.begin(), cache_.end(), [&](const auto& b) { return b.first == number; });
  if (found != cache_.end()) {
    std::rotate(found, found + 1, cache_.end());
  } else {
    cache_.emplace_back(number, std::make_shared<const Block>(load(number)));
    std::size_t bytes = 0;
    for (const auto& [_, kept] : cache_) {
      bytes += kept->bytes();
    }
    for (; bytes > kBytesKept && cache_.size() > 1; cache_.erase(cache_.begin())) {
      bytes -= cache_.front().second->bytes();
    }
  }
  return cache_.back().second;
}

void ReplayLoadSource::draw(const StepAt& at, std::span<const std::int64_t> tokens, StepLoads& out) const {
  if (sources_ > 1 && static_cast<std::size_t>(sources_) != tokens.size()) {
    throw InputError(
        {rows_->name(), 0, "sources"},
        fmt::format("the trace has {} source ranks, the run {} DP ranks. Set sources: sum to let all ranks "
                    "draw from one mix.",
                    sources_, tokens.size()));
  }
  const std::int64_t row = at.number % rows_->rows();
  const std::shared_ptr<const Block> rows = block(row / rows_per_block_);
  out.resize(rows_->layers(), sources_, rows_->experts());
  const auto place = static_cast<std::size_t>(row % rows_per_block_);
  std::copy_n(rows->loads.data() + place * row_size_, row_size_, out.per_token.begin());
  if (row_ids_ > 0) {
    out.recorded = {this, row, top_k_, std::span(rows->experts).subspan(place * row_ids_, row_ids_), rows};
  }
}

}  // namespace epsim
