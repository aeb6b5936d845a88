#include "traces/expert_loads/replay_load_source.h"

#include <doctest/doctest.h>

#include <thread>

#include "tests/support/paths.h"
#include "tests/traces/support.h"
#include "traces/expert_loads/load_sources.h"

namespace epsim {
namespace {

using test::contains;
using test::message;

const MoeSpec kModel = test::small_model(3, 1, 4, 2);

TraceInfo info_of(const MoeSpec& model) {
  TraceInfo info;
  info.model_layers = model.layers;
  info.layer_numbers = model.moe_layer_numbers();
  info.experts = model.experts;
  info.top_k = model.top_k;
  return info;
}

// Three rows of two sources; row r moves expert r's weight up.
std::filesystem::path write_rows(const std::filesystem::path& file) {
  TraceFileWriter writer(file);
  writer.begin(info_of(kModel), 2);
  for (std::size_t r = 0; r < 3; ++r) {
    std::vector<double> counts(2 * 2 * 4, 1.0);
    counts[r] = 3;                // layer 0, source 0: 3, 1, 1, 1 in some order
    counts[4] = counts[5] = 0;    // layer 0, source 1: 0, 0, 1, 1
    counts[12] = counts[13] = 0;  // layer 1, source 1: nothing at all
    counts[14] = counts[15] = 0;
    writer.loads({counts, std::vector<std::int64_t>{3, 1}});
  }
  writer.commit();
  return file;
}

std::unique_ptr<ExpertLoadSource> source_of(const std::filesystem::path& file, const std::string& keys) {
  Config config = Config::from_text("{kind: trace_file, " + keys + "}", "loads.yaml");
  config.set("path=" + file.string());
  ConfigReader in = config.root();
  auto source = make_load_source(in, kModel, Seed{1});
  in.finish();
  return source;
}

TEST_CASE("step s gives row s, over again after the last, source by source") {
  const test::TempDir folder;
  const auto source = source_of(write_rows(folder / "t.h5"), "");
  StepLoads out;
  const std::vector<std::int64_t> ranks{100, 200};
  source->draw(4, ranks, out);  // row 1
  CHECK(out.sources == 2);
  CHECK(out.row(0, 0)[1] == doctest::Approx(1.0));  // 3 of 6, top-2
  CHECK(out.row(0, 0)[0] == doctest::Approx(1.0 / 3));
  CHECK(out.row(0, 1)[0] == 0.0F);
  CHECK(out.row(0, 1)[2] == doctest::Approx(1.0));
  CHECK(out.row(1, 0)[2] == doctest::Approx(0.5));
  CHECK(out.row(1, 1)[2] == doctest::Approx(0.5));  // no tokens: uniform
  CHECK(contains(message([&] { source->draw(0, std::vector<std::int64_t>{1}, out); }), "2 source ranks, the run 1"));
}

TEST_CASE("summed sources are one mix; the mean window is the sum of all rows") {
  const test::TempDir folder;
  const auto source = source_of(write_rows(folder / "t.h5"), "sources: sum");
  StepLoads out;
  source->draw(0, std::vector<std::int64_t>{7}, out);
  CHECK(out.sources == 1);
  // Layer 0, row 0: 3, 1, 1 + 1, 1 + 1 of 8, top-2.
  CHECK(out.row(0, 0)[0] == doctest::Approx(0.75));
  CHECK(out.row(0, 0)[2] == doctest::Approx(0.5));

  Config config = Config::from_text("{kind: trace_file, batches: true}", "loads.yaml");
  config.set("path=" + (folder / "t.h5").string());
  ConfigReader in = config.root();
  const LoadWindow w = read_load_window(in, kModel, Seed{1});
  CHECK(w.layer(0)[0] == 5.0);  // 3 + 1 + 1 from source 0
  CHECK(w.layer(0)[3] == 6.0);  // 1 from each source, three rows
  REQUIRE(w.batches() == 3);
  CHECK(w.batches_of(0, 1)[1] == 3.0F);
}

TEST_CASE("a trace of tokens is replayed in batches of consecutive ones") {
  const test::TempDir folder;
  {
    TraceFileWriter writer(folder / "t.h5");
    writer.begin(info_of(kModel), 1);
    // Five tokens; layer 0 takes experts 0 1, layer 1 takes 2 3; from token 2 on layer 0 takes 1 2.
    std::vector<std::uint16_t> ids;
    for (int t = 0; t < 5; ++t) {
      const auto first = static_cast<std::uint16_t>(t < 2 ? 0 : 1);
      ids.insert(ids.end(), {first, static_cast<std::uint16_t>(first + 1), 2, 3});
    }
    const std::vector<std::int32_t> sequence(5, 0), position{0, 1, 2, 3, 4};
    writer.tokens({ids, {}, sequence, position});
    writer.commit();
  }
  const auto source = source_of(folder / "t.h5", "batch_tokens: 2");
  StepLoads out;
  source->draw(0, std::vector<std::int64_t>{64}, out);
  CHECK(out.row(0, 0)[0] == doctest::Approx(1.0));
  CHECK(out.row(1, 0)[3] == doctest::Approx(1.0));
  // The two tokens themselves, as they were written.
  CHECK(source->recorded());
  CHECK(out.recorded.source == source.get());
  CHECK(out.recorded.row == 0);
  const std::span<const std::uint16_t> tokens = out.recorded.experts;
  CHECK(std::vector<std::uint16_t>(tokens.begin(), tokens.end()) == std::vector<std::uint16_t>{0, 1, 2, 3, 0, 1, 2, 3});
  CHECK(out.recorded.top_k == 2);
  source->draw(1, std::vector<std::int64_t>{64}, out);
  CHECK(out.recorded.row == 1);
  CHECK(out.row(0, 0)[0] == 0.0F);
  CHECK(out.row(0, 0)[2] == doctest::Approx(1.0));
  source->draw(2, std::vector<std::int64_t>{64}, out);  // two whole batches: step 2 is batch 0 again
  CHECK(out.row(0, 0)[0] == doctest::Approx(1.0));
}

TEST_CASE("several threads draw the same as one") {
  const test::TempDir folder;
  {
    TraceFileWriter writer(folder / "t.h5");
    MoeSpec model = test::small_model(40, 0, 256, 8);
    writer.begin(info_of(model), 1);
    std::vector<double> counts(40 * 256);
    for (int r = 0; r < 600; ++r) {  // 41 kB a row: six blocks of 4 MiB
      for (std::size_t i = 0; i < counts.size(); ++i) {
        counts[i] = 1 + static_cast<double>((i * 7 + static_cast<std::size_t>(r)) % 5);
      }
      writer.loads({counts, std::vector<std::int64_t>{1000}});
    }
    writer.commit();
  }
  const MoeSpec model = test::small_model(40, 0, 256, 8);
  const ReplayLoadSource source(load_rows_of(std::make_shared<TraceFile>(folder / "t.h5"), model, 1), 8, false);
  const auto checksum = [&](int first) {
    StepLoads out;
    double sum = 0;
    for (int s = 0; s < 600; s += 37) {
      source.draw((first + s) % 600, std::vector<std::int64_t>{1}, out);
      sum += static_cast<double>(out.row(s % 40, 0)[static_cast<std::size_t>(s % 256)]);
    }
    return sum;
  };
  const double expected[2] = {checksum(0), checksum(300)};
  double got[2] = {0, 0};
  std::thread a([&] { got[0] = checksum(0); }), b([&] { got[1] = checksum(300); });
  a.join();
  b.join();
  CHECK(got[0] == expected[0]);
  CHECK(got[1] == expected[1]);
}

// 1000 of 4 experts' 2000 assignments, and what a step of 8 tokens takes of them: whole counts, not the mean 4, 2, 1, 1.
TEST_CASE("a trace with one row is a recording's total, around which steps draw") {
  const test::TempDir folder;
  {
    TraceFileWriter writer(folder / "total.h5");
    writer.begin(info_of(kModel), 1);
    writer.loads({std::vector<double>{1000, 500, 250, 250, 500, 500, 500, 500}, std::vector<std::int64_t>{1000}});
    writer.commit();
  }
  const auto drawn = [&](const std::string& keys) {
    StepLoads out;
    source_of(folder / "total.h5", keys)->draw(0, std::vector<std::int64_t>{8}, out);
    return out;
  };
  const StepLoads usual = drawn(""), sampled = drawn("variation: sampled"), replayed = drawn("variation: replay");
  CHECK(usual.per_token == sampled.per_token);
  CHECK(usual.per_token != replayed.per_token);
  CHECK(replayed.row(0, 0)[0] == 1.0F);  // 2 x 1000 / 2000 a token
}

TEST_CASE("traces of another model, and rows that overload an expert, are refused") {
  const test::TempDir folder;
  const auto open = [&](const MoeSpec& model) { load_rows_of(std::make_shared<TraceFile>(folder / "t.h5"), model, 1); };
  write_rows(folder / "t.h5");
  CHECK(contains(message([&] { open(test::small_model(3, 1, 8, 2)); }), "the trace has 4 experts and top-2"));
  CHECK(contains(message([&] { open(test::small_model(3, 0, 4, 2)); }), "are not the 3 MoE layers"));
  {
    TraceFileWriter writer(folder / "over.h5");
    writer.begin(info_of(kModel), 1);
    writer.loads({std::vector<double>{9, 1, 1, 1, 1, 1, 1, 1}, std::vector<std::int64_t>{6}});
    writer.commit();
  }
  StepLoads out;
  const auto source = source_of(folder / "over.h5", "variation: replay");
  CHECK(contains(message([&] { source->draw(0, std::vector<std::int64_t>{1}, out); }),
                 "load row 0: an expert takes 1.5 assignments per token"));
  {
    TraceFileWriter writer(folder / "absent.h5");
    writer.begin(info_of(kModel), 1);
    writer.loads({std::vector<double>{1, 1, 1, 1, 0, 0, 0, 0}, std::vector<std::int64_t>{2}});
    writer.commit();
  }
  Config config = Config::from_text("{kind: trace_file}", "loads.yaml");
  config.set("path=" + (folder / "absent.h5").string());
  ConfigReader in = config.root();
  CHECK(contains(message([&] { read_load_window(in, kModel, Seed{1}); }), "all rows of layer 2 are zero"));
}

}  // namespace
}  // namespace epsim
