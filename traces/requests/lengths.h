// Input and output lengths of generated requests.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "sim/core/config.h"
#include "sim/core/key.h"
#include "sim/core/rng.h"
#include "sim/domain/request_trace.h"

namespace epsim {

struct FixedLength {
  std::int32_t tokens = 0;
};
// Rounded and then clipped to [min, max]; `mu` and `sigma` are of the underlying normal.
struct LognormalLength {
  double mu = 0.0, sigma = 0.0;
  std::int32_t min = 1, max = 0;
};
// Every whole number from min to max, both included, is as likely.
struct UniformLength {
  std::int32_t min = 1, max = 0;
};
using LengthRule = std::variant<FixedLength, LognormalLength, UniformLength>;

std::int32_t draw_length(const LengthRule& rule, RandomStream& random);

struct RequestLengths {
  std::int32_t input_tokens = 0, output_tokens = 0;
};

// Draws (input, output) pairs: each by its own rule, or both from one row of a trace, so that long inputs keep the
// outputs that came with them.
class LengthSampler {
 public:
  LengthSampler(LengthRule input, LengthRule output) : input_(input), output_(output) {}
  explicit LengthSampler(const RequestTrace& trace);

  RequestLengths draw(RandomStream& random) const;
  // For a trace's source.
  std::string description() const;

 private:
  LengthRule input_, output_;
  std::vector<RequestLengths> rows_;
  std::string rows_source_;
};

inline constexpr KeyTable kLengthKeys({
    {"input_tokens", key::whole(Bound::kPositive), key::by("required without lengths"),
     "Prompt length of every request."},
    {"output_tokens", key::whole(Bound::kPositive), key::by("required without lengths"),
     "Answer length of every request."},
    {"lengths", key::section(), key::kNone, "Distributions of prompt and answer lengths."},
});
// Those of the section `requests.lengths`.
std::vector<SectionKeys> lengths_keys();

// The short form `input_tokens` and `output_tokens` (fixed), or a section `lengths`:
//   lengths: {input: {kind: fixed, tokens: 512}, output: {kind: uniform, max: 128}}
//   lengths: {empirical: {kind: azure_csv, path: ...}}     any requests section
// `random` is the dataset of that name of sglang.bench_serving and of InferenceX: uniform from tokens x range_ratio,
// rounded down, to tokens. (vLLM's later versions draw from tokens x (1 - range_ratio) to tokens x (1 + range_ratio):
// `uniform` with these bounds.) A lognormal's `mean` is the distribution's before clipping, which moves it; it may lie
// beyond max, as that of documents that are cut.
LengthSampler read_lengths(ConfigReader& in, Seed seed);

}  // namespace epsim
