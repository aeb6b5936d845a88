// `epsim trace` through the program: in, look, cut, out, fit, sample, compare; and a request trace that is a folder.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/app/process.h"

using epsim::test::Outcome;
using epsim::test::run_epsim;
using epsim::test::slurp;
using epsim::test::TempDir;

namespace {

std::string sample() {
  return "'" + (epsim::test::source_dir() / "traces/samples/deepseek-r1-like-plan.json").string() + "'";
}

void must(const Outcome& outcome) {
  CAPTURE(outcome.err);
  REQUIRE(outcome.exit_code == 0);
}

}  // namespace

TEST_CASE("a recording comes in, is looked at, cut and given back as it was") {
  const TempDir dir;
  must(run_epsim(dir, "trace import " + sample() + " -o t.h5 --top-k 8 --model-layers 61 --model deepseek-r1"));
  const Outcome info = run_epsim(dir, "trace info t.h5 --heatmap t.svg");
  must(info);
  CHECK(info.out.find("58 MoE layers (3 to 60), 256 experts, top-8") != std::string::npos);
  CHECK(slurp(dir / "t.svg").find("<svg") != std::string::npos);
  const auto figures = nlohmann::json::parse(run_epsim(dir, "trace info t.h5 --json").out);
  CHECK(figures.at("layers") == 58);
  CHECK(figures.at("by_layer").size() == 58);
  CHECK(figures.at("by_layer").at(0).at("layer") == 3);
  CHECK(figures.at("max_over_mean").at("most") >= figures.at("max_over_mean").at("mean"));
  const Outcome unused = run_epsim(dir, "trace info t.h5 --layers 3");
  CHECK(unused.exit_code == 2);
  CHECK_MESSAGE(unused.err.find("t.h5: `--layers`: this trace says all that about itself") != std::string::npos,
                unused.err);
  // The same figures straight from the recording.
  const Outcome direct = run_epsim(dir, "trace info " + sample() + " --top-k 8");
  must(direct);
  CHECK(direct.out.starts_with(sample().substr(1, sample().size() - 2) + "\n"));
  CHECK(run_epsim(dir, "trace info " + sample() + " --top-k 8 --format sglang").out == direct.out);
  CHECK(run_epsim(dir, "trace info " + sample() + " --top-k 8 --format numpy").exit_code == 2);
  const std::string skew = info.out.substr(info.out.find("max / mean by layer"));
  CHECK(skew.substr(0, skew.find("heatmap")) == direct.out.substr(direct.out.find("max / mean by layer")));
  // An expert with 700 of 800 assignments: 400 tokens, each of which can choose it once.
  std::ofstream(dir / "many.json") << R"({"logical_count": [[[700, 10, 10, 10, 10, 20, 20, 20]]]})";
  const Outcome many = run_epsim(dir, "trace info many.json --top-k 2");
  CHECK(many.out.find("with top-2 of 8 experts max / mean is at most 4; runs refuse them") != std::string::npos);
  CHECK(direct.out.find("runs refuse them") == std::string::npos);
  must(run_epsim(dir, "trace slice t.h5 -o cut.h5 --layers 3,60"));
  CHECK(run_epsim(dir, "trace info cut.h5").out.find("2 MoE layers") != std::string::npos);
  must(run_epsim(dir, "trace convert t.h5 --format sglang -o back.json"));
  must(run_epsim(dir, "trace import back.json -o again.h5 --top-k 8 --model-layers 61"));
  const Outcome same = run_epsim(dir, "trace compare t.h5 again.h5");
  must(same);
  CHECK(same.out.find("goodness") != std::string::npos);
  const auto document = nlohmann::json::parse(run_epsim(dir, "trace compare t.h5 again.h5 --by-layer --json").out);
  CHECK(document.at("goodness") == doctest::Approx(1));
  CHECK(document.at("statistics").at(0).contains("deviation_share"));
  CHECK(document.at("statistics").at(0).at("deviation_by_layer") == true);
  CHECK(same.out.find("0.0 % *\n") != std::string::npos);
  CHECK(same.out.find("* mean over layers of |B / A - 1|") != std::string::npos);
  CHECK(document.at("layers").size() == 58);
}

TEST_CASE("a model is fitted, sampled, looked at and run on") {
  const TempDir dir;
  must(run_epsim(dir, "trace fit " + sample() + " --top-k 8 -o model.yaml"));
  CHECK(slurp(dir / "model.yaml").find("name: \"deepseek-r1-like-plan\"") != std::string::npos);
  must(run_epsim(dir, "trace generate model.yaml -o rows.h5 --rows 3 --sources 2 --tokens-per-row 512"));
  const Outcome info = run_epsim(dir, "trace info rows.h5");
  CHECK(info.out.find("load rows  3 from 2 source ranks") != std::string::npos);
  must(run_epsim(dir, "trace generate olmoe -o tokens.h5 --tokens 2000"));
  CHECK(run_epsim(dir, "trace info tokens.h5").out.find("2000") != std::string::npos);
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // nothing in the file may depend on the clock
  must(run_epsim(dir, "trace generate olmoe -o again.h5 --tokens 2000"));
  const bool equal_bytes = slurp(dir / "tokens.h5") == slurp(dir / "again.h5");
  CHECK(equal_bytes);
  const std::string small = epsim::test::small_scenario();
  must(run_epsim(dir, "run " + small +
                          " -q -o out --set 'loads={kind: model, preset: olmoe}'"
                          " --set 'plan_loads={kind: model, preset: olmoe}' --set policy=eplb"));
}

// small.yaml's steps have some hundred tokens.
TEST_CASE("a recording whose rows are totals of many steps is named, and one of steps is not") {
  const TempDir dir;
  const auto warned = [&](const std::string& tokens) {
    const std::string file = "rows-" + tokens + ".h5";
    must(run_epsim(dir, "trace generate olmoe --rows 4 --sources 1 --tokens-per-row " + tokens + " -o " + file));
    const Outcome done =
        run_epsim(dir, "run " + epsim::test::small_scenario() +
                           " -q -o out --overwrite --set 'loads={kind: trace_file, path: " + file + "}'");
    must(done);
    return (done.out + done.err).find("a row of the recording holds " + tokens + " tokens") != std::string::npos;
  };
  CHECK(warned("65536"));
  CHECK_FALSE(warned("128"));
}

TEST_CASE("wrong words for epsim trace") {
  const TempDir dir;
  must(run_epsim(dir, "trace import " + sample() + " -o t.h5 --top-k 8"));
  struct Row {
    const char* words;
    const char* mentions;
  };
  const std::string layers = "trace import " + sample() + " -o x.h5 --top-k 8 --layers 12";
  for (const Row& row :
       {Row{layers.c_str(), "12 layers stated, the file has 58"}, Row{"trace inof t.h5", "info"},
        Row{"trace info nowhere.h5", "nowhere.h5"}, Row{"trace info", "trace"},
        Row{"trace slice t.h5 -o x.h5 --rows 5", "range"}, Row{"trace slice t.h5 -o x.h5 --rows 7:3", "empty"},
        Row{"trace slice t.h5 -o x.h5 --layers 99", "layer 99 is not in the trace"},
        Row{"trace slice t.h5 -o t.h5", "--overwrite"}, Row{"trace convert t.h5 --format sglnag -o x", "sglang"},
        Row{"trace generate olmoe -o x.h5", "--rows"}, Row{"trace generate olme -o x.h5 --rows 1", "olmoe"},
        Row{"trace generate olmoe -o x.h5 --rows 0", "less than 1"},
        Row{"trace generate olmoe -o x.h5 --tokens 100 --sources 2", "sources"},
        Row{"trace generate olmoe -o x.h5 --tokens 100 --tokens-per-row 16", "tokens-per-row"},
        Row{"trace slice t.h5 -o x.h5 --tokens 0:1", "0 tokens"},
        Row{"trace import t.h5 -o x.h5 --layer-numbers 1,a", "'a'"}}) {
    CAPTURE(row.words);
    const Outcome outcome = run_epsim(dir, row.words);
    CAPTURE(outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.err.find(row.mentions) != std::string::npos);
    CHECK_FALSE(std::filesystem::exists(dir / "x.h5"));
  }
}

TEST_CASE("a folder of ServeGen's clients is run, and stands among the inputs with the size of its files") {
  const TempDir dir;
  const std::string trace = "0,5,1,,0,0\n600,5,1,,0,0\n";
  const std::string lengths = R"({"0": {"input_tokens": "{100: 1.0}", "output_tokens": "{2: 1.0}"}})";
  std::filesystem::create_directory(dir / "pool");
  std::ofstream(dir / "pool/chunk-0-trace.csv") << trace;
  std::ofstream(dir / "pool/chunk-0-dataset.json") << lengths;
  const Outcome done = run_epsim(dir, "run " + epsim::test::small_scenario() +
                                          " --set 'requests={kind: servegen, path: pool, slice_length: 4s}' -o out");
  REQUIRE_MESSAGE(done.exit_code == 0, done.err);
  const nlohmann::json inputs = nlohmann::json::parse(slurp(dir / "out/summary.json")).at("inputs");
  const auto pool = std::find_if(inputs.begin(), inputs.end(), [&](const nlohmann::json& input) {
    return input.at("file_name") == std::filesystem::canonical(dir / "pool").string();
  });
  REQUIRE(pool != inputs.end());
  CHECK(pool->at("size_bytes") == trace.size() + lengths.size());
}
