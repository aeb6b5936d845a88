// The measured tables in experiments/served, of which each run takes seconds: errors as their README has them.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "sim/app/served_layout.h"
#include "sim/app/served_run.h"
#include "tests/support/paths.h"

namespace epsim::test {
namespace {

using app::ServedPoint;

// The first rows of experiments/served/gpt-oss-h100.csv: 8 H100, 1k in and out, 4 to 16 in flight; its README has all.
TEST_CASE("gpt-oss-120b on H100 by vLLM: TPOT within 10 % of what was measured") {
  app::ServedRequest request;
  const std::filesystem::path served = source_dir() / "experiments/served";
  request.table = served / "gpt-oss-h100.csv";
  request.layout = app::read_served_layout(served / "gpt-oss-h100.yaml");
  request.scenario = *request.layout.scenario;
  std::vector<ServedPoint> points = app::read_served_points(request.table, request.layout);
  REQUIRE(points.size() == 25);
  for (const ServedPoint& point : points) {
    CHECK(point.reasons.empty());
  }
  points.resize(3);
  const TempDir dir;
  REQUIRE(app::run_served(request, points, dir / "served", {}));
  for (std::size_t i = 0; i < points.size(); ++i) {
    CHECK(1 + points[i].error(1) == doctest::Approx(1).epsilon(0.05));  // doctest's scale adds 1: 10 %
  }
}

// Means of AIConfigurator's table with 4 requests of 1k in and out in flight. The bar is the mean error over all of SGLang's
// points in experiments/served/README.md, 22.4 %.
TEST_CASE("more models as InferenceX serves them: all expressed, TPOT of five points within 20 % on average") {
  app::ServedRequest request;
  const std::filesystem::path served = source_dir() / "experiments/served";
  request.table = served / "other-models.csv";
  request.layout = app::read_served_layout(served / "other-models.yaml");
  request.scenario = *request.layout.scenario;
  const std::vector<ServedPoint> points = app::read_served_points(request.table, request.layout);
  std::vector<ServedPoint> some;  // each takes seconds
  for (std::size_t i = 0; i < points.size(); ++i) {
    CHECK(points[i].reasons.empty());
    if (i % 5 == 1) {
      some.push_back(points[i]);
    }
  }
  const TempDir dir;
  REQUIRE(app::run_served(request, some, dir / "served", {}));
  double error = 0;
  for (std::size_t i = 0; i < some.size(); ++i) {
    CAPTURE(some[i].flags[2]);
    CHECK(some[i].run.value().error == "");
    error += std::abs(some[i].error(1)) / static_cast<double>(some.size());
  }
  CHECK(error < 0.2);
}

TEST_CASE("a rule looks at how a text ends: rows of the image that InferenceX ran with drafted tokens are left out") {
  const TempDir dir;
  const std::string header =
      "silicon_data_source,mode,model_path,system,backend,precision,isl,osl,batch_size,tp_size,attention_dp_size,moe_"
      "ep_size,"
      "silicon_ttft_ms,silicon_tpot_ms\n";
  const std::string row = ",agg,Qwen/Qwen3.5-397B-A17B,b200_sxm,sglang,fp8,1024,1024,4,4,1,1,300,6\n";
  std::ofstream(dir / "table.csv") << header << "a; lmsysorg/sglang:v0.5.9-cu130" << row
                                   << "a; lmsysorg/sglang:v0.5.9-cu130-amd64" << row;
  const app::ServedLayout layout = app::read_served_layout(source_dir() / "experiments/served/other-models.yaml");
  const std::vector<ServedPoint> points = app::read_served_points(dir / "table.csv", layout);
  REQUIRE(points.size() == 2);
  CHECK(points[0].reasons.size() == 1);
  CHECK(points[1].reasons.empty());
}

// Errors of TTFT, TPOT and end-to-end medians of a table in experiments/served that vllm-h100.yaml reads, by point.
std::array<std::vector<double>, 3> errors_of(const std::string& table) {
  app::ServedRequest request;
  const std::filesystem::path served = source_dir() / "experiments/served";
  request.table = served / table;
  request.layout = app::read_served_layout(served / "vllm-h100.yaml");
  request.scenario = *request.layout.scenario;
  std::vector<ServedPoint> points = app::read_served_points(request.table, request.layout);
  const TempDir dir;
  REQUIRE(app::run_served(request, points, dir / "served", {}));
  std::array<std::vector<double>, 3> out;
  for (std::size_t i = 0; i < points.size(); ++i) {
    for (std::size_t t = 0; t < out.size(); ++t) {
      out[t].push_back(std::abs(points[i].error(t)));
    }
  }
  return out;
}

double mean_of(const std::vector<double>& errors) {
  return std::accumulate(errors.begin(), errors.end(), 0.0) / static_cast<double>(errors.size());
}

// What experiments/served/README.md says of these points. BLIS reports 6.7 % end to end and 17.6 % TTFT.
TEST_CASE("dense models and Mixtral on H100 by vLLM: as measured, without a constant from these points") {
  std::array<std::vector<double>, 3> errors = errors_of("vllm-h100.csv");
  REQUIRE(errors[0].size() == 21);
  const std::array<double, 3> mean = {0.0266, 0.0210, 0.0208}, median = {0.0143, 0.0188, 0.0186};
  for (std::size_t t = 0; t < errors.size(); ++t) {
    errors[t].pop_back();  // overloaded: its queue grows without end
    CHECK(mean_of(errors[t]) == doctest::Approx(mean[t]).epsilon(0.0005));
    std::ranges::sort(errors[t]);
    CHECK((errors[t][9] + errors[t][10]) / 2 == doctest::Approx(median[t]).epsilon(0.0005));
  }
  const std::array<std::vector<double>, 3> others = errors_of("vllm-h100-assumed.csv");
  const std::vector<double> end_to_end = {0.038, 0.076, 0.027, 0.021, 0.107};
  for (std::size_t i = 0; i < end_to_end.size(); ++i) {
    CHECK(others[2][i] == doctest::Approx(end_to_end[i]).epsilon(0.0006));
  }
  CHECK(mean_of(others[0]) == doctest::Approx(0.064).epsilon(0.0006));
}

}  // namespace
}  // namespace epsim::test
