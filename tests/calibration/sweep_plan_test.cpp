// What is measured and in which order.
#include "calibration/measure/sweep_plan.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "calibration/measure/rows.h"
#include "calibration/measure/shapes.h"
#include "models/catalogue/model_catalogue.h"
#include "tests/calibration/fake_device.h"

namespace epsim::test {
namespace {

using namespace measure;

SweepRequest request_for(std::initializer_list<const char*> ops) {
  SweepRequest out;
  out.models = {find_model("DeepSeek-R1"), find_model("Qwen3-235B-A22B")};
  for (const char* op : ops) {
    out.ops.push_back(&find_op(op));
  }
  return out;
}

TEST_CASE("the first points hold both ends of every column") {
  std::vector<std::vector<double>> grid;
  for (const double a : {1, 2, 4, 8, 16}) {
    for (const double b : {0, 100, 10000}) {
      grid.push_back({a, b, 7});
    }
  }
  const std::vector<std::size_t> order = coverage_order(grid);
  const std::set<std::size_t> all(order.begin(), order.end());
  CHECK(all.size() == grid.size());
  const auto& first = grid[order[0]];
  const auto& second = grid[order[1]];
  CHECK(std::min(first[0], second[0]) == 1);
  CHECK(std::max(first[0], second[0]) == 16);
  CHECK(std::min(first[1], second[1]) == 0);
  CHECK(std::max(first[1], second[1]) == 10000);
  // The next two are the other corners, which are farthest from both.
  const std::set<std::vector<double>> next = {grid[order[2]], grid[order[3]]};
  CHECK(next.size() == 2);
  for (const auto& corner : next) {
    CHECK((corner[0] == 1 || corner[0] == 16));
    CHECK((corner[1] == 0 || corner[1] == 10000));
  }
}

TEST_CASE("behind the limit the grid's own order goes on, and nothing is lost") {
  std::vector<std::vector<double>> grid;
  for (double a = 1; a <= 40; ++a) {
    grid.push_back({a});
  }
  const std::vector<std::size_t> order = coverage_order(grid, 10);
  CHECK(order.size() == 40);
  CHECK(std::is_sorted(order.begin() + 10, order.end()));
  CHECK(coverage_order({}).empty());
}

TEST_CASE("grouped products vary groups, rows and skew over the models' experts") {
  const GpuFacts facts;
  SweepRequest request = request_for({"grouped_gemm"});
  const std::vector<PlannedPoint> grid = grid_of(find_op("grouped_gemm"), request, facts);
  std::set<std::pair<double, double>> shapes;
  std::map<double, int> by_law;
  for (const PlannedPoint& p : grid) {
    shapes.insert({p.value("hidden"), p.value("intermediate")});
    ++by_law[p.value("distribution")];
    const RowShape s = shape_of(p.rows);
    CHECK(s.rows == p.value("rows"));
    CHECK(s.tiles_64 == p.value("tiles_64"));
    CHECK(s.rows_max <= 8192);
    CHECK(p.rows.size() == static_cast<std::size_t>(p.value("local_experts")));
    CHECK(s.groups_hit == p.value("groups"));
  }
  CHECK(shapes == std::set<std::pair<double, double>>{{7168, 2048}, {4096, 1536}});
  CHECK(by_law[0] == 2 * 7 * 14);  // shapes, groups 1..64, rows 1..8192
  CHECK(by_law[1] > 100);
  CHECK(by_law[2] == 2 * 6 * 14);
  CHECK(by_law.count(3) == 0);

  request.expert_load.assign(256, 1.0);
  request.expert_load[5] = 90;
  for (const PlannedPoint& p : grid_of(find_op("grouped_gemm"), request, facts)) {
    by_law[p.value("distribution")] += 1;
  }
  CHECK(by_law[3] > 100);
}

TEST_CASE("shapes of the catalogue: DeepSeek-R1 on one GPU and on eight") {
  const SweepShapes s = shapes_of(std::vector<MoeSpec>{find_model("DeepSeek-R1")});
  CHECK(s.experts == std::vector<ExpertShape>{{7168, 2048, 256, 8}});
  const auto has = [&](int n, int k) {
    return std::count(s.projections.begin(), s.projections.end(), Projection{n, k});
  };
  CHECK(has(1536, 7168) == 1);           // q_a, whole on every GPU, once for both
  CHECK(has(128 * 192, 1536) == 1);      // q_b
  CHECK(has(7168, 128 * 128 / 8) == 1);  // o on one of eight
  CHECK(has(2 * 18432 / 8, 7168) == 1);  // gate and up of a dense layer
}

TEST_CASE("every operator of the table has points on a machine of two nodes") {
  FakeClock clock;
  FakeDevice device(clock);
  device.machine.gpus = 8;
  device.machine.nodes = 2;
  device.machine.compute_major = 9;
  SweepRequest request;
  request.models = {find_model("DeepSeek-R1"), find_model("Qwen3-30B-A3B"),
                    find_model("Llama-3.1-8B")};  // MLA, GQA, no experts
  for (const OpSpec& op : all_ops()) {
    request.ops.push_back(&op);
  }
  const std::vector<PlannedPoint> plan = plan_sweep(request, device);
  std::set<std::string> keys;
  std::set<std::string_view> ops;
  for (const PlannedPoint& p : plan) {
    ops.insert(p.op->name);
    CHECK_MESSAGE(keys.insert(p.key()).second, "twice: ", p.key());
    for (std::size_t c = 0; c < p.values.size(); ++c) {
      CHECK_MESSAGE((p.values[c] > 0 || p.op->columns[c] == "distribution"), p.key());  // a dense model has no experts
    }
    CHECK(p.predicted.count() > 0);
    CHECK(p.cost > p.predicted);
    const Work work = p.op->work(p.values);
    CHECK(work.flops.count() >= 0);
    CHECK(work.bytes.count() + work.wire.count() + work.launches > 0);
  }
  CHECK(ops.size() == all_ops().size());
}

TEST_CASE("inside a node and between nodes are measured apart") {
  GpuFacts facts;
  facts.gpus = 8;
  facts.nodes = 2;
  std::set<std::pair<double, double>> groups;
  for (const PlannedPoint& p : grid_of(find_op("nccl_all_to_all"), SweepRequest{}, facts)) {
    groups.insert({p.value("ranks"), p.value("nodes")});
  }
  CHECK(groups == std::set<std::pair<double, double>>{{2, 1}, {4, 1}, {8, 1}, {2, 2}, {16, 2}});
}

TEST_CASE("a sweep cut off early has seen every operator, and the hull of each") {
  FakeClock clock;
  FakeDevice device(clock);
  device.waive["peer_copy"] = "needs 2 GPUs";
  SweepRequest request = request_for({"dense_gemm", "grouped_gemm", "norm", "host_to_device", "peer_copy"});
  const std::vector<PlannedPoint> plan = plan_sweep(request, device);
  std::map<std::string_view, std::set<double>> sizes;
  Seconds spent{0};
  for (const PlannedPoint& p : plan) {
    if ((spent += p.cost) > Seconds(20)) {
      break;
    }
    sizes[p.op->name].insert(p.op->name == "norm"         ? p.value("rows")
                             : p.op->name == "dense_gemm" ? p.value("m")
                                                          : p.values[0]);
  }
  CHECK(sizes.size() == 4);  // peer_copy is waived
  CHECK(*sizes["dense_gemm"].begin() == 1);
  CHECK(*sizes["dense_gemm"].rbegin() == 16384);
  CHECK(*sizes["norm"].rbegin() == 65536);
  CHECK(*sizes["host_to_device"].rbegin() == 512.0 * 1024 * 1024 * 2);
  CHECK(*sizes["grouped_gemm"].begin() == 1);           // rows
  CHECK(*sizes["grouped_gemm"].rbegin() == 64 * 4096);  // 64 groups of 8192 need more than 0.4 of the 40 GB
}

TEST_CASE("the same request gives the same plan, whatever the order of the operators") {
  FakeClock clock;
  const FakeDevice device(clock);
  const auto keys = [&](std::initializer_list<const char*> ops) {
    std::vector<std::string> out;
    for (const PlannedPoint& p : plan_sweep(request_for(ops), device)) {
      out.push_back(p.key());
    }
    return out;
  };
  CHECK(keys({"norm", "activation"}) == keys({"activation", "norm"}));
}

TEST_CASE("predictions are a roofline with launches") {
  FakeClock clock;
  const FakeDevice device(clock);
  // 2 * 4096^3 flops at half of 204.8 TF/s, and one launch.
  const double one = 2 * 4096.0 * 4096 * 4096 / 102.4e12 + 5e-6;
  const std::vector<double> values = {4096, 4096, 4096};
  CHECK(predicted_time(find_op("dense_gemm"), values, device.facts()).count() == doctest::Approx(one));
}

}  // namespace
}  // namespace epsim::test
