// From NCCL's points to link profiles: what a collective over the links is then priced at.
#include "calibration/link_fit.h"

#include <doctest/doctest.h>

#include <fstream>

#include "tests/calibration/fake_sweep.h"
#include "tests/support/errors.h"
#include "tests/support/paths.h"

namespace epsim::test {
namespace {

void no_note(const std::string& text) { FAIL(text); }

LinkProfile read_back(const FittedLink& link) {
  const TempDir dir;
  std::ofstream(dir / "links.yaml") << link_yaml(link);
  return link_profile((dir / "links.yaml").string(), "");
}

// Points of one collective over `ranks` GPUs in `nodes` nodes at 4 KiB to 256 MiB; `time` in seconds of bytes.
template <class Time>
void add_points(PointFile& file, const std::string& op, double ranks, double nodes, Time time) {
  auto table = std::find_if(file.tables.begin(), file.tables.end(), [&](const auto& t) { return t.op == op; });
  if (table == file.tables.end()) {
    file.tables.push_back({op, {"bytes", "ranks", "nodes"}, {}, {}, {}, {}, {}});
    table = file.tables.end() - 1;
  }
  for (double bytes = 4096; bytes <= 268435456; bytes *= 2) {
    table->add(std::array{bytes, ranks, nodes}, time(bytes));
  }
}

TEST_CASE("the links of a measured node: an all-to-all costs what the device took") {
  const TempDir dir;
  REQUIRE(measure_fake({"--full", "--only",
                        "nccl_all_to_all,nccl_all_to_allv,nccl_all_gather,nccl_reduce_scatter,nccl_all_reduce"},
                       dir / "points.h5", 1, 8) == 0);
  const PointFile points = read_points(dir / "points.h5");
  const std::vector<FittedLink> links = fit_links(points, {10e9, 0}, no_note);
  REQUIRE(links.size() == 1);
  const LinkProfile link = read_back(links[0]);
  CHECK(link.curves.size() == 4 * 3);  // four kinds over 2, 4 and 8 GPUs
  for (const CollectiveCurve& curve : link.curves) {
    REQUIRE(curve.held_out.has_value());
    CHECK(curve.held_out->points > 0);
    CHECK(curve.held_out->median < 0.08);
    CHECK(curve.held_out->p95 < 0.2);
  }
  // 3 MiB over 8 GPUs: 7/8 of them over 10 GB/s, both buffers over 1 TB/s or less than that, 2 us a launch.
  const double bytes = 3 << 20, wire = bytes * 7 / 8 / 10e9;
  const Price price = link.time(CollectiveKind::kAllToAll, 8, Seconds(wire));
  CHECK(price.time.count() == doctest::Approx(wire + 2 * bytes / 1e12 + 2e-6).epsilon(0.02));
  CHECK(price.origin == Origin::kInterpolated);
  check_contains(link_text(link), {"all_to_all, 8 GPUs", "all_reduce, 2 GPUs", "of rate %"});
  check_contains(link_errors_csv(links[0]), {"nccl_all_gather,4 GPUs of one node,"});
}

TEST_CASE("links between nodes are those of all GPUs; a GPU alone has its node's NICs") {
  PointFile file;
  // 16 GPUs in 2 nodes, 5 GB/s for each: an all-to-all sends half to the other node; a ring's all-reduce passes
  // 2 x 1/2 of the buffer through each node's eight shares.
  add_points(file, "nccl_all_to_all", 16, 2, [](double b) { return 50e-6 + b / 2 / 5e9; });
  add_points(file, "nccl_all_to_all", 2, 2, [](double b) { return 20e-6 + b / 2 / 40e9; });
  add_points(file, "nccl_all_to_all", 8, 1, [](double b) { return 10e-6 + b / 1e11; });
  add_points(file, "nccl_all_reduce", 16, 2, [](double b) { return 60e-6 + b / 8 / 5e9; });
  std::string notes;
  const auto links = fit_links(file, {0, 5e9}, [&](const std::string& note) { notes += note; });
  check_contains(notes, {"links inside a node: not fitted: state --link-rate"});
  REQUIRE(links.size() == 1);
  CHECK(links[0].inter);
  CHECK(links[0].gpus_per_node == 8);
  const LinkProfile link = read_back(links[0]);
  REQUIRE(link.curves.size() == 2);
  CHECK(link.curves[0].gpus == 16);
  CHECK(link.curves[0].wire_share == doctest::Approx(0.5));
  CHECK(link.curves[1].wire_share == doctest::Approx(0.125));
  CHECK(link.time(CollectiveKind::kAllToAll, 16, Seconds(0.01)).time.count() ==
        doctest::Approx(0.01 + 50e-6).epsilon(0.01));
  CHECK(link.time(CollectiveKind::kAllReduce, 16, Seconds(1e-3)).time.count() ==
        doctest::Approx(1e-3 + 60e-6).epsilon(0.01));
}

TEST_CASE("a skewed all-to-allv is the all-to-all at its busiest receiver") {
  PointFile file;
  add_points(file, "nccl_all_to_all", 4, 1, [](double b) { return b * 3 / 4 / 10e9; });
  // Of four receivers the first gets 12/25 of each of the three others.
  add_points(file, "nccl_all_to_allv", 4, 1, [](double b) { return b * 3 * 12 / 25 / 10e9; });
  const auto links = fit_links(file, {10e9, 0}, no_note);
  const std::vector<ComparedErrors> errors = compare_link(read_back(links.at(0)), false, file);
  REQUIRE(errors.size() == 2);
  CHECK(errors[1].what == "nccl_all_to_allv, 4 GPUs");
  REQUIRE(errors[1].errors);
  CHECK(errors[1].errors->median < 1e-3);
  CHECK(errors[1].outside == doctest::Approx(1.0 / 17));  // the largest puts more on a wire than any all-to-all
}

TEST_CASE("noise does not make a larger buffer faster") {
  PointFile file;
  add_points(file, "nccl_all_to_all", 2, 1, [](double b) { return b == 8192 ? 12e-6 : 10e-6 + b / 2 / 10e9; });
  const LinkProfile link = read_back(fit_links(file, {10e9, 0}, no_note).at(0));
  const auto& points = link.curves[0].points;
  CHECK(std::is_sorted(points.begin(), points.end(), [](const auto& a, const auto& b) { return a.time < b.time; }));
}

TEST_CASE("too few sizes, or no all-to-all, make no links, and the note says so") {
  PointFile file;
  file.tables.push_back({"nccl_all_gather", {"bytes", "ranks", "nodes"}, {}, {}, {}, {}, {}});
  file.tables[0].add(std::array{4096.0, 8.0, 1.0}, 1e-5);
  std::string notes;
  CHECK(fit_links(file, {10e9, 0}, [&](const std::string& note) { notes += note + "; "; }).empty());
  check_contains(notes, {"nccl_all_gather over 8 GPUs: not fitted: 1 sizes", "an all-to-all is needed"});
}

}  // namespace
}  // namespace epsim::test
