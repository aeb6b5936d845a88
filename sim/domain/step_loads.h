// How the tokens of one step choose experts.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sim/domain/step_at.h"

namespace epsim {

// The tokens whose loads a step has, where they were recorded one by one.
struct RecordedTokens {
  const void* source = nullptr;  // who recorded them, which numbers its rows 0, 1, ...; null: nobody
  std::int64_t row = 0;
  int top_k = 0;
  std::span<const std::uint16_t> experts{};  // [token][layer][k]
  std::shared_ptr<const void> owner{};       // of the experts
};

// Assignments per token, [layer][source][expert]: the chance pi_e that a token of that source uses the expert, so a row
// sums to top-k and no value exceeds 1. `sources` is 1 when all DP ranks draw from the same mix, else one per DP rank.
struct StepLoads {
  int layers = 0, sources = 0, experts = 0;
  // The rows are what this step's tokens drew, divided by their number, and no chances: nothing is left to chance but how
  // copies share an expert's rows.
  bool counted = false;
  // Whether rows drawn with so many times the variance of independent tokens are nearer to counts than to chances. The
  // function for counts is made for 1; of 256 experts with one row each on average it finds 33 % too many in use at 0.01.
  static constexpr bool drawn_as_counts(double overdispersion) { return overdispersion >= 0.5; }
  std::vector<float> per_token;
  RecordedTokens recorded;  // of one source
  // [source] Choices a token, over all layers, that a constraint on routing changed; empty: none is in force.
  std::vector<double> rerouted;

  // Recorded by nobody and chances from here on.
  void resize(int layer_count, int source_count, int expert_count) {
    recorded = {};
    rerouted.clear();
    counted = false;
    layers = layer_count;
    sources = source_count;
    experts = expert_count;
    per_token.resize(static_cast<std::size_t>(layers) * static_cast<std::size_t>(sources) *
                     static_cast<std::size_t>(experts));
  }
  std::span<float> row(int layer, int source) { return {per_token.data() + offset(layer, source), width()}; }
  std::span<const float> row(int layer, int source) const {
    return {per_token.data() + offset(layer, source), width()};
  }

 private:
  std::size_t width() const { return static_cast<std::size_t>(experts); }
  std::size_t offset(int layer, int source) const {
    return (static_cast<std::size_t>(layer) * static_cast<std::size_t>(sources) + static_cast<std::size_t>(source)) *
           width();
  }
};

// Where a run takes its expert loads from. Equal arguments give equal loads, whoever asks and in whatever order, so
// that policies compared on one source see the same routing; const and safe to share between threads.
class ExpertLoadSource {
 public:
  virtual ~ExpertLoadSource() = default;
  virtual int layers() const = 0;  // MoE layers
  virtual int experts() const = 0;
  virtual bool recorded() const { return false; }            // every step's tokens are (StepLoads::recorded)
  virtual bool counted() const { return false; }             // every step's rows are (StepLoads::counted)
  virtual bool changes() const { return false; }             // its loads differ from time to time of the run
  virtual std::int64_t replayed_steps() const { return 0; }  // rows of a recording that steps take in turn
  // Steps in a row, from a multiple of this number on, that draw the same where they bring the same tokens.
  virtual std::int64_t hold_steps() const { return 1; }
  // Fills `out` for one step in which DP rank r brings tokens[r] tokens.
  virtual void draw(const StepAt& at, std::span<const std::int64_t> tokens, StepLoads& out) const = 0;
  // The same where decodes[r] of a rank's tokens are of as many sequences; the others are prompts'. Sources that do not
  // tell sequences apart draw as ever.
  virtual void draw_mixed(const StepAt& at, std::span<const std::int64_t> tokens,
                          std::span<const std::int64_t> /*decodes*/, StepLoads& out) const {
    draw(at, tokens, out);
  }
};

}  // namespace epsim
