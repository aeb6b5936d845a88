// The shipped samples are what their recipe makes. Run with EPSIM_WRITE_SAMPLES=1 to write them anew.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>

#include "sim/core/files.h"
#include "tests/support/paths.h"
#include "tests/traces/support.h"
#include "traces/expert_loads/load_sources.h"
#include "traces/expert_loads/sglang_counts.h"

namespace epsim {
namespace {

// SGLang's layout, one row for every layer of the model, counts rounded to whole numbers.
std::string write_sglang_counts(const LoadWindow& window, const MoeSpec& model) {
  const std::vector<int> numbers = model.moe_layer_numbers();
  std::string out = "{\"logical_count\": [";
  std::size_t moe = 0;
  for (int r = 0; r < model.layers; ++r) {
    const bool is_moe = moe < numbers.size() && numbers[moe] == r;
    out += r == 0 ? "[" : ",\n[";
    for (int e = 0; e < model.experts; ++e) {
      const double count = is_moe ? window.layer(static_cast<int>(moe))[e] : 0.0;
      fmt::format_to(std::back_inserter(out), "{}{:.0f}", e == 0 ? "" : ",", count);
    }
    out += "]";
    moe += is_moe ? 1 : 0;
  }
  return out + "]}\n";
}

// As in traces/samples/README.md.
std::string made(int window) {
  const Config config = Config::from_text(
      fmt::format("{{kind: skew, range: [4, 13.4], tokens: 8388608, drift: 0.089, window: {}}}", window), "recipe");
  ConfigReader in = config.root();
  return write_sglang_counts(read_load_window(in, test::deepseek_r1_shape(), Seed{1}), test::deepseek_r1_shape());
}

TEST_CASE("the samples are byte for byte what their recipe makes, and read back") {
  struct Row {
    const char* name;
    int window;
  };
  for (const Row& r : {Row{"deepseek-r1-like-plan.json", 1}, Row{"deepseek-r1-like-run.json", 2}}) {
    CAPTURE(r.name);
    const std::filesystem::path file = test::source_dir() / "traces/samples" / r.name;
    if (std::getenv("EPSIM_WRITE_SAMPLES") != nullptr) {
      write_file_atomically(file, made(r.window));
    }
    CHECK(read_file(file) == made(r.window));
    ByteInput input(file);
    const LoadWindow w = read_sglang_counts(input, test::deepseek_r1_shape());
    for (int l = 0; l < w.layers(); ++l) {
      CHECK(w.total(l) == doctest::Approx(8388608.0 * 8).epsilon(1e-5));  // counts are rounded
    }
  }
}

}  // namespace
}  // namespace epsim
