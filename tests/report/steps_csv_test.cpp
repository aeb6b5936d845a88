// One row per step, from what a recorder is told.
#include "sim/report/steps_csv.h"

#include <doctest/doctest.h>

#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace epsim {
namespace {

Ticks ticks_of_us(std::int64_t n) { return Ticks{n * 1'000'000}; }

StepExchange waits_for(std::string_view link, Ticks duration) {
  StepExchange out{};
  out.slowest_link = link;
  out.duration = duration;
  return out;
}

StepCost cost_of(Seconds attention, Seconds dispatch, Seconds experts) {
  StepCost out;
  out.by_part[static_cast<std::size_t>(LayerPart::kAttention)] = attention;
  out.by_part[static_cast<std::size_t>(LayerPart::kDispatch)] = dispatch;
  out.by_part[static_cast<std::size_t>(LayerPart::kExperts)] = experts;
  out.total = attention + dispatch + experts;
  out.straggler = experts / 2;
  return out;
}

}  // namespace

TEST_CASE("steps.csv: what a step waited for is in its parts and its total") {
  StepCost waited;
  waited.by_part[static_cast<std::size_t>(LayerPart::kPlanning)] = 40_us;
  waited.by_part[static_cast<std::size_t>(LayerPart::kMigration)] = 60_us;
  waited.total = 100_us;
  std::ostringstream out;
  {
    StepsCsv csv(out);
    csv.begin_step({0, 13, ticks_of_us(1'600'000), std::vector<RankBatch>{{.decode_tokens = 3}}, waited});
    csv.end_step(ticks_of_us(1), cost_of(1_us, 0_us, 0_us));
  }
  std::istringstream row(out.str().substr(out.str().find('\n') + 1));
  std::vector<std::string> cells;
  for (std::string cell; std::getline(row, cell, ',');) {
    cells.push_back(cell);
  }
  // Seven columns, then attention, gate, dispatch, experts, combine, dense, planning, prefetch, migration, three more
  // and the total.
  REQUIRE(cells.size() > 19);
  CHECK(std::stod(cells[7]) == doctest::Approx(1));
  CHECK(std::stod(cells[13]) == doctest::Approx(40));
  CHECK(std::stod(cells[15]) == doctest::Approx(60));
  CHECK(std::stod(cells[19]) == doctest::Approx(101));
}

TEST_CASE("steps.csv: kind, tokens, parts, the GPU that computes longest, the link that is waited for longest") {
  std::ostringstream out;
  {
    StepsCsv csv(out);
    const std::vector<RankBatch> ranks{{.prefill_tokens = 500, .sequences = 2}, {.decode_tokens = 7, .sequences = 7}};
    csv.begin_step({1, 12, ticks_of_us(1'500'000), ranks});
    csv.span({3, LayerPart::kAttention, StepLane::kCompute, 0, 0, 4, ticks_of_us(0), ticks_of_us(4)});
    csv.span(
        {3, LayerPart::kDispatch, StepLane::kNetwork, 0, 0, 4, ticks_of_us(4), ticks_of_us(100)});  // no computation
    csv.span({3, LayerPart::kExperts, StepLane::kCompute, 0, 2, 1, ticks_of_us(104), ticks_of_us(8)});
    csv.span({3, LayerPart::kExperts, StepLane::kCompute, 0, 1, 1, ticks_of_us(104), ticks_of_us(6)});
    csv.exchange(waits_for("gpu0.port.out", ticks_of_us(60)));
    csv.exchange(waits_for("node0.nic.in", ticks_of_us(35)));
    csv.exchange(waits_for("node0.nic.in", ticks_of_us(35)));
    csv.end_step(ticks_of_us(112), cost_of(4_us, 100_us, 8_us));
    csv.begin_step({0, 13, ticks_of_us(1'600'000), std::vector<RankBatch>{{.decode_tokens = 3, .sequences = 3}}});
    csv.end_step(ticks_of_us(1), cost_of(1_us, 0_us, 0_us));
  }
  std::istringstream in(out.str());
  std::string header, first, second;
  std::getline(in, header);
  std::getline(in, first);
  std::getline(in, second);
  // GPU 2: 4 + 8 = 12 us. The NIC: 35 + 35 = 70 us against 60.
  CHECK(first.substr(0, 25) == "1,12,1.5,mixed,500,7,9,4,");
  CHECK(first.find(",node0.nic.in,70") != std::string::npos);
  CHECK(first.find(",2,12,node0") != std::string::npos);
  CHECK(second.rfind("0,13,1.6,decode,0,3,3,1,", 0) == 0);
  CHECK(second.substr(second.size() - 4) == ",,,,");  // no GPU and no link to name
}

}  // namespace epsim
