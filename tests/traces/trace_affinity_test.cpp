// A trace of tokens makes a window that grouping policies can plan from.
#include <doctest/doctest.h>

#include "sim/domain/affinity.h"
#include "tests/support/paths.h"
#include "tests/traces/support.h"
#include "traces/expert_loads/load_sources.h"
#include "traces/format/trace_file.h"

namespace epsim {
namespace {

// One dense layer, two MoE layers of four experts, top-2.
const MoeSpec kAffinityModel = test::small_model(3, 1, 4, 2);

LoadWindow window_of_file(const std::filesystem::path& file) {
  Config config = Config::from_text("{kind: trace_file}", "plan_loads.yaml");
  config.set("path=" + file.string());
  ConfigReader in = config.root();
  LoadWindow window = read_load_window(in, kAffinityModel, Seed{1});
  in.finish();
  return window;
}

TraceInfo info() {
  TraceInfo out;
  out.model_layers = kAffinityModel.layers;
  out.layer_numbers = kAffinityModel.moe_layer_numbers();
  out.experts = kAffinityModel.experts;
  out.top_k = kAffinityModel.top_k;
  return out;
}

TEST_CASE("tokens give loads and co-activation, over blocks of reading too") {
  const test::TempDir folder;
  TraceFileWriter writer(folder / "tokens.h5");
  writer.begin(info(), 1);
  // 5000 tokens: all use experts 0 and 1 in the first MoE layer; in the second, even ones 2 and 3, odd ones 0 and 2.
  std::vector<std::uint16_t> ids;
  std::vector<std::int32_t> sequence, position;
  for (int t = 0; t < 5000; ++t) {
    const std::uint16_t other = t % 2 == 0 ? 3 : 0;
    ids.insert(ids.end(), {0, 1, 2, other});
    sequence.push_back(0);
    position.push_back(t);
  }
  writer.tokens({ids, {}, sequence, position});
  writer.commit();
  const LoadWindow window = window_of_file(folder / "tokens.h5");
  REQUIRE(window.affinity() != nullptr);
  // 19 steps of 256 tokens: the other 136 are in neither.
  CHECK(window.layer(0)[0] == 4864);
  CHECK(window.affinity()->at(0, 0, 1) == 4864);
  CHECK(window.affinity()->at(0, 0, 2) == 0);
  CHECK(window.layer(1)[3] == 2432);
  CHECK(window.affinity()->at(1, 2, 3) == 2432);
  CHECK(window.affinity()->at(1, 0, 2) == 2432);
}

TEST_CASE("load rows alone give no co-activation") {
  const test::TempDir folder;
  TraceFileWriter writer(folder / "loads.h5");
  writer.begin(info(), 1);
  writer.loads({std::vector<double>(8, 1.0), std::vector<std::int64_t>{2}});
  writer.commit();
  CHECK(window_of_file(folder / "loads.h5").affinity() == nullptr);
}

}  // namespace
}  // namespace epsim
