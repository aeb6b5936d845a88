// SGLang's 96-GPU rows of experiments/validation with the expert statistics that its team planned from, in place of the
// presets fitted to them.
#include <doctest/doctest.h>

#include <fstream>
#include <string>

#include "sim/app/accuracy.h"
#include "tests/app/process.h"

namespace epsim::test {
namespace {

// The scenario of experiments/validation with its loads replaced by a published file.
void write_with_statistics(const TempDir& dir, const std::string& name, const std::string& file) {
  std::ifstream in(source_dir() / "experiments/validation" / (name + ".yaml"));
  std::ofstream out(dir / (name + ".yaml"));
  const std::string path = (shared_dir() / "data/sglang-ep-statistics" / file).string();
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("loads:")) {
      line = "loads: {kind: sglang_counts, path: " + path + ", variation: sampled}";
    } else if (line.starts_with("plan_loads:")) {
      line = "plan_loads: {kind: sglang_counts, path: " + path + "}";
    }
    out << line << '\n';
  }
}

TEST_CASE("SGLang's deployment with its own statistics: steps within 15 %, EPLB's gains within 25 %") {
  const TempDir dir;
  write_with_statistics(dir, "v03-prefill", "prefill_in4096.json");
  write_with_statistics(dir, "v04-decode", "decode_in2000out100.json");
  std::ofstream(dir / "facts.yaml") << R"(
steps:
  - {what: prefill, scenario: v03-prefill.yaml, policy: eplb, prefill_tokens: 16384, prompt: 4096, measured_ms: 2606,
     band: 0.15, source: SGLang blog 2025-05-05}
  - {what: decode, scenario: v04-decode.yaml, policy: eplb, decode_sequences: 256, context: 2000, measured_ms: 91.9,
     band: 0.15, source: SGLang blog 2025-05-05}
gains:
  - {what: prefill, scenario: v03-prefill.yaml, policy: eplb, without_scenario: v03-prefill.yaml, without_policy: none,
     prefill_tokens: 16384, prompt: 4096, measured: 1.49, band: 0.25, source: SGLang blog 2025-05-05}
  - {what: decode, scenario: v04-decode.yaml, policy: eplb, without_scenario: v04-decode.yaml, without_policy: none,
     decode_sequences: 256, context: 2000, measured: 2.54, band: 0.25, source: SGLang blog 2025-05-05}
)";
  const app::AccuracyTable table = app::compute_accuracy(dir.path());
  REQUIRE(table.rows.size() == 4);
  MESSAGE(app::accuracy_text(table));
  CHECK(table.failures() == 0);
}

}  // namespace
}  // namespace epsim::test
