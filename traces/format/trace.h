// A routing trace: what the parts of traces/ hand to each other, and what the file format holds (FORMAT.md).
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace epsim {

// What a trace says about itself.
struct TraceInfo {
  std::string model;               // "" = not known
  int model_layers = 0;            // all layers of the model; 0 = not known
  std::vector<int> layer_numbers;  // model layer number of each recorded MoE layer, ascending
  int experts = 0;                 // routed experts per layer
  int top_k = 0;
  int shared_experts = 0;
  std::string source;   // where the data come from
  std::string licence;  // "" = not stated
  std::string recipe;   // how they were made or converted

  int layers() const { return static_cast<int>(layer_numbers.size()); }
  // Throws InputError naming `where` when a figure is missing or impossible.
  void validate(const std::string& where) const;
};

// The load of one step or batch.
struct LoadRow {
  std::span<const double> counts;        // [layer][source][expert] routed assignments
  std::span<const std::int64_t> tokens;  // [source] tokens of each source rank
};

// Adds the sources of counts [layer][source][expert], whole layers of them, to out [layer][expert].
template <class T>
void add_sources(std::span<const T> counts, std::size_t sources, std::size_t experts, std::span<T> out) {
  for (std::size_t at = 0; at < counts.size(); at += experts) {
    T* to = out.data() + at / (experts * sources) * experts;
    std::transform(to, to + experts, counts.data() + at, to, std::plus<>());
  }
}

// Some consecutive tokens. Per token and layer the expert ids, highest router weight first where the source says so.
struct TokenBlock {
  std::span<const std::uint16_t> experts;  // [token][layer][k]
  std::span<const float> weights;          // the same shape, or empty
  std::span<const std::int32_t> sequence;  // [token] row of the table `sequences`
  std::span<const std::int32_t> position;  // [token] in its sequence, the prompt counted
  std::size_t tokens() const { return sequence.size(); }
};

// A table with named columns of whole numbers or text: labels of load rows, sequences.
struct Table {
  using Column = std::variant<std::vector<std::int64_t>, std::vector<std::string>>;
  std::vector<std::pair<std::string, Column>> columns;

  std::size_t rows() const;
  const Column* find(const std::string& name) const;
  // The whole numbers of a column; null when there is none of that name, or it holds text.
  const std::vector<std::int64_t>* numbers(const std::string& name) const;
};

// Takes a trace as a reader or a generator makes it: begin() once, then rows and tokens in order, tables at any time.
class TraceSink {
 public:
  virtual ~TraceSink() = default;
  virtual void begin(const TraceInfo& info, int sources) = 0;
  virtual void loads(const LoadRow& row) = 0;
  virtual void tokens(const TokenBlock& block) = 0;
  // "load_rows": one row per load row (step, label, ...); "sequences": one per sequence.
  virtual void table(const std::string& name, const Table& table) = 0;
};

}  // namespace epsim
