// The shipped samples are what their recipe makes. Run with EPSIM_WRITE_SAMPLES=1 to write them anew.
#include <doctest/doctest.h>

#include <cstdlib>

#include "sim/core/files.h"
#include "tests/support/paths.h"
#include "tests/traces/support.h"
#include "traces/routing/load_sources.h"
#include "traces/routing/sglang_counts.h"

namespace epsim {
namespace {

// As in traces/samples/README.md.
constexpr const char* kRecipe = "{kind: skew, low: 4, high: 12, high_share: 0.25, tokens: 8388608}";

std::string made(Seed seed) {
  const Config config = Config::from_text(kRecipe, "recipe");
  ConfigReader in = config.root();
  return write_sglang_counts(read_load_window(in, test::deepseek_r1_shape(), seed), test::deepseek_r1_shape());
}

TEST_CASE("the sample is byte for byte what its recipe makes, and reads back") {
  const std::filesystem::path file = test::source_dir() / "traces/samples/deepseek_r1_shape_skew.json";
  if (std::getenv("EPSIM_WRITE_SAMPLES") != nullptr) {
    write_file_atomically(file, made(Seed{1}));
  }
  CHECK(read_file(file) == made(Seed{1}));
  ByteInput input(file);
  const LoadWindow w = read_sglang_counts(input, test::deepseek_r1_shape());
  for (int l = 0; l < w.layers(); ++l) {
    CHECK(w.total(l) == doctest::Approx(8388608.0 * 8).epsilon(1e-5));  // counts are rounded
  }
}

}  // namespace
}  // namespace epsim
