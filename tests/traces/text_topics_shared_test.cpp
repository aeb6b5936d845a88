// How far the loads of one text lie from those of all texts, by the text's length: what sigma of presets whose
// sequences have 4096 tokens stands on (traces/presets/README.md).
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <map>

#include "tests/support/paths.h"
#include "traces/import/importer.h"
#include "traces/routing_model/fit.h"
#include "traces/routing_model/presets.h"

namespace epsim {
namespace {

constexpr std::size_t kLayers = 24, kTextExperts = 32, kTextTopK = 4;
using Counts = std::array<double, kLayers * kTextExperts>;

// Every answer's counts, of its even and of its odd tokens: chance in one half says nothing about the other.
class AnswerCounts final : public TraceSink {
 public:
  void begin(const TraceInfo&, int) override {}
  void loads(const LoadRow&) override {}
  void tokens(const TokenBlock& block) override {
    for (std::size_t t = 0; t < block.tokens(); ++t) {
      const auto answer = static_cast<std::size_t>(block.sequence[t]);
      halves.resize(std::max(halves.size(), answer + 1));
      Counts& counts = halves[answer][static_cast<std::size_t>(block.position[t] % 2)];
      for (std::size_t i = 0; i < kLayers * kTextTopK; ++i) {
        counts[i / kTextTopK * kTextExperts + block.experts[t * kLayers * kTextTopK + i]] += 1;
      }
    }
  }
  void table(const std::string& name, const Table& table) override {
    if (name == "sequences") {
      sequences = table;
    }
  }

  std::vector<std::array<Counts, 2>> halves;
  Table sequences;
};

void add(Counts& sum, const Counts& more) {
  for (std::size_t i = 0; i < sum.size(); ++i) {
    sum[i] += more[i];
  }
}

double tokens_of(const Counts& counts) {
  double sum = 0;
  for (std::size_t e = 0; e < kTextExperts; ++e) {
    sum += counts[e] / kTextTopK;
  }
  return sum;
}

// Relative variance of shares between texts, weighted by load, mean over layers: products of what two disjoint halves
// of a text differ from the mean of all have no part that is chance alone.
double variance_between(const std::vector<std::array<Counts, 2>>& texts, const Counts& all) {
  double sum = 0;
  for (const auto& [a, b] : texts) {
    const double in_a = tokens_of(a) * kTextTopK, in_b = tokens_of(b) * kTextTopK, in_all = tokens_of(all) * kTextTopK;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const double mean = all[i] / in_all;
      sum += (a[i] / in_a - mean) * (b[i] / in_b - mean) / mean;
    }
  }
  return sum / static_cast<double>(texts.size() * kLayers);
}

TEST_CASE("4096 tokens on one subject lie 0.62 from the mean of all, in ln(share)") {
  AnswerCounts answers;
  ImportOptions options;
  options.experts = kTextExperts;
  import_trace(test::shared_dir() / "data/gpt-oss-20b-routing/routing_u8_T24x4.bin.gz", "auto", options, answers);
  const auto& dataset = std::get<std::vector<std::string>>(*answers.sequences.find("dataset"));
  const auto& subject = std::get<std::vector<std::string>>(*answers.sequences.find("category"));

  // One dataset, MMLU: its three splits ask about the same 57 subjects.
  Counts all{};
  std::vector<std::array<Counts, 2>> single;
  std::map<std::string, std::vector<std::size_t>> by_subject;
  for (std::size_t s = 0; s < answers.halves.size(); ++s) {
    if (dataset[s] == "mmlu_test" || dataset[s] == "mmlu_validation" || dataset[s] == "mmlu_dev") {
      single.push_back(answers.halves[s]);
      add(all, single.back()[0]);
      add(all, single.back()[1]);
      by_subject[subject[s]].push_back(s);
    }
  }
  REQUIRE(single.size() == 442);
  REQUIRE(by_subject.size() == 57);
  std::vector<std::array<Counts, 2>> subjects;  // every second answer against the others
  for (const auto& [name, of] : by_subject) {
    subjects.emplace_back();
    for (std::size_t k = 0; k < of.size(); ++k) {
      add(subjects.back()[k % 2], answers.halves[of[k]][0]);
      add(subjects.back()[k % 2], answers.halves[of[k]][1]);
    }
  }
  const double between_answers = variance_between(single, all), between_subjects = variance_between(subjects, all);
  const double answer_tokens = tokens_of(all) / static_cast<double>(single.size());
  CHECK(answer_tokens == doctest::Approx(283.7).epsilon(0.001));
  // What an answer has beyond its subject averages out over as many answers as 4096 tokens hold.
  const double text = between_subjects + (between_answers - between_subjects) * answer_tokens / 4096;
  const double sigma = std::sqrt(std::log1p(text));  // of a lognormal with that relative variance
  MESSAGE("sigma of an answer ", std::sqrt(std::log1p(between_answers)), ", of a subject ",
          std::sqrt(std::log1p(between_subjects)), ", of 4096 tokens ", sigma);
  CHECK(sigma == doctest::Approx(0.62).epsilon(0.03));
  // From all answers and runs of 256 tokens, fit.h has the same.
  CHECK(std::sqrt(std::log1p(between_answers)) == doctest::Approx(kDefaultSigma).epsilon(0.1));
  for (const char* preset : {"deepseek-r1-e", "deepseek-r1-j", "deepseek-r1-l", "deepseek-r1-a", "kimi-k2-e",
                             "kimi-k2-j", "kimi-k2-l", "kimi-k2-a", "deepseek-r1-prefill"}) {
    CAPTURE(preset);
    const RoutingModel model = routing_preset(preset);
    CHECK(model.topic_tokens == 4096);
    CHECK(model.layers.front().sigma == 0.62);
  }
}

}  // namespace
}  // namespace epsim
