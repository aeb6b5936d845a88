// fit -> generate -> compare on the real traces of the shared data folder.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/paths.h"
#include "tests/traces/model_support.h"
#include "traces/import/importer.h"
#include "traces/routing_model/compare.h"
#include "traces/routing_model/fit.h"
#include "traces/routing_model/model_load_source.h"
#include "traces/routing_model/token_sampler.h"

namespace epsim {
namespace {

// The bounds: per-layer max / mean, hottest two and balancedness on 8 to 64 GPUs within 10 % (mean over
// layers).
void check_skew_rows(const ProfileComparison& c) {
  int checked = 0;
  for (const ComparisonRow& r : c.rows) {
    const bool balance = r.name.starts_with("balancedness") && r.name != "balancedness on 128 GPUs";
    if (balance || r.name == "max / mean expert load" || r.name == "share of the hottest two") {
      CAPTURE(r.name);
      CHECK(r.deviation < 0.10);
      ++checked;
    }
  }
  CHECK(checked >= 5);
}

const BatchProfile& batch(const TraceProfile& p, int tokens) {
  return *std::find_if(p.batches.begin(), p.batches.end(), [&](const auto& b) { return b.tokens == tokens; });
}

TEST_CASE("gpt-oss-20b: skew within 10 %, bursts of 256 tokens within 15 %") {
  TraceCollector collector;
  TraceProfiler real_profiler, made_profiler;
  test::BothSinks both(collector, real_profiler);
  ImportOptions options;
  options.experts = 32;
  options.model = "gpt-oss-20b";
  import_trace(test::shared_dir() / "data/gpt-oss-20b-routing/routing_u8_T24x4.bin.gz", "auto", options, both);
  const TraceProfile real = real_profiler.finish();
  // As the data's SOURCE.md states.
  CHECK(batch(real, 256).p50 == doctest::Approx(4.56).epsilon(0.02));
  CHECK(batch(real, 256).p95 == doctest::Approx(7.2).epsilon(0.02));

  RoutingFitOptions fit;
  fit.name = "gpt-oss-20b";
  const RoutingModel model = collector.fit(fit);
  // What default_topics() takes from here.
  double sigma = 0;
  for (const LayerRouting& layer : model.layers) {
    sigma += layer.sigma / static_cast<double>(model.layers.size());
  }
  CHECK(sigma == doctest::Approx(kDefaultSigma).epsilon(0.05));
  CHECK(model.stretch_ratio == doctest::Approx(default_topics().stretch_ratio).epsilon(0.1));
  CHECK(model.kind_share == doctest::Approx(default_topics().kind_share).epsilon(0.05));
  CHECK(model.kind_topics == doctest::Approx(default_topics().kind_topics).epsilon(0.1));
  CHECK(model.repeat == doctest::Approx(default_topics().repeat).epsilon(0.1));

  generate_tokens(RoutingLaw(model), {0, 215051}, Seed{2}, made_profiler);
  const TraceProfile made = made_profiler.finish();
  const ProfileComparison c = compare(real, made);
  MESSAGE("gpt-oss-20b\n", to_text(c));
  check_skew_rows(c);
  // Which experts go together: within a token, from layer to layer, from token to token.
  CHECK(std::abs(*made.affinity - *real.affinity) < 0.05);
  CHECK(std::abs(*made.next_layer - *real.next_layer) < 0.05);
  CHECK(std::abs(*made.overlap_1 - *real.overlap_1) < 0.05 * 4);
  CHECK(std::abs(*made.autocorrelation - *real.autocorrelation) < 0.1);
  CHECK(batch(made, 256).p50 == doctest::Approx(batch(real, 256).p50).epsilon(0.15));
  CHECK(batch(made, 256).p95 == doctest::Approx(batch(real, 256).p95).epsilon(0.15));
  CHECK(batch(made, 256).mean == doctest::Approx(batch(real, 256).mean).epsilon(0.15));
}

TEST_CASE("DeepSeek-R1, every published workload: skew within 10 %") {
  for (const char* name : {"decode_in1800out100", "decode_in2000out100", "decode_in500out1500", "prefill_in1000out1000",
                           "prefill_in1800out100", "prefill_in2000out100", "prefill_in2048", "prefill_in4096",
                           "prefill_in500out1500", "prefill_in512"}) {
    CAPTURE(name);
    TraceCollector collector;
    TraceProfiler real, made;
    test::BothSinks both(collector, real);
    ImportOptions options;
    options.experts = 256;
    options.top_k = 8;
    import_trace(test::shared_dir() / "data/sglang-ep-statistics" / (std::string(name) + ".json"), "auto", options,
                 both);
    RoutingFitOptions fit;
    fit.name = name;
    generate_loads(RoutingLaw(collector.fit(fit)), {0, 512, 8, 4096}, Seed{2}, made);
    const ProfileComparison c = compare(real.finish(), made.finish());
    MESSAGE(std::string(name), "\n", to_text(c));
    check_skew_rows(c);
  }
}

}  // namespace
}  // namespace epsim
