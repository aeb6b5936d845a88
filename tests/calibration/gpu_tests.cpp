// Tests that need a GPU: every operator's kernels against its float64 reference, on a few shapes each. Exit code 77 and
// the reason where there is no GPU, which ctest reports as skipped.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <iostream>

#include "calibration/cuda/open_device.h"
#include "calibration/measure/rows.h"
#ifdef EPSIM_NCCL
#include "calibration/cuda/nccl_team.cuh"
#endif

namespace epsim::test {
namespace {

using namespace measure;

Device& device() {
  static Peers alone;
  static TeamLeader leader(alone);
  static const OpenedDevice opened = open_cuda_device(leader);
  return *opened.device;
}

// Checks every kernel of a point; points that the GPU cannot run are reported, not failed.
void check_point(const PlannedPoint& point) {
  CAPTURE(point.key());
  if (const auto reason = device().waived(*point.op)) {
    MESSAGE("waived: " << *reason);
    return;
  }
  const std::unique_ptr<Workload> workload = device().prepare(point);
  const std::vector<std::string> kernels = workload->kernels();
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    CAPTURE(kernels[k]);
    try {
      const CheckReport report = workload->check(k);
      CHECK_MESSAGE(report.good(), "error ", report.error, ", allowed ", report.bound, "; ", report.detail);
      CHECK(workload->time(k, 3).count() > 0);
    } catch (const MeasureFailed& failure) {
      CHECK_MESSAGE(failure.kind == FailureKind::kUnsupported, failure.what());
      MESSAGE(kernels[k] << ": " << failure.what());
    }
  }
}

PlannedPoint point(const char* op, std::vector<double> values) { return {&find_op(op), std::move(values), {}, {}, {}}; }

PlannedPoint ffn(const char* op, std::vector<std::int64_t> rows, double hidden, double intermediate) {
  const RowShape s = shape_of(rows);
  const auto number = [](auto x) { return static_cast<double>(x); };
  PlannedPoint out = point(op, {number(s.rows), number(s.groups_hit), number(s.rows_max), hidden, intermediate,
                                number(s.rows), number(rows.size()), number(s.tiles_64), number(s.tiles_128), 0});
  out.rows = std::move(rows);
  return out;
}

TEST_CASE("experts: ragged groups, empty ones, one row, many tiles") {
  for (const char* op : {"grouped_gemm", "grouped_gemm_fp8"}) {
    check_point(ffn(op, {1}, 256, 128));
    check_point(ffn(op, {3, 0, 33, 1}, 2880, 2880));  // gpt-oss: not a multiple of 128
    check_point(ffn(op, {130, 7, 0, 260}, 512, 1408));
    check_point(ffn(op, {0, 2048, 16, 16}, 7168, 2048));
  }
}

TEST_CASE("dense products") {
  for (const char* op : {"dense_gemm", "dense_gemm_fp8"}) {
    check_point(point(op, {1, 1536, 7168}));
    check_point(point(op, {77, 576, 7168}));
    check_point(point(op, {4096, 4096, 4096}));
  }
}

TEST_CASE("gate, permutation, activation, norm") {
  check_point(point("gate", {33, 7168, 256, 8}));
  check_point(point("gate", {1, 2880, 128, 4}));
  check_point(point("permute", {65, 7168, 8}));
  check_point(point("unpermute", {65, 7168, 8}));
  check_point(point("activation", {100, 1408}));
  check_point(point("norm", {100, 2880}));
}

TEST_CASE("memory and transfers") {
  for (const double bytes : {512.0, 1048576.0, 67108864.0}) {
    check_point(point("device_copy", {bytes}));
    check_point(point("host_to_device", {bytes}));
    check_point(point("device_to_host", {bytes}));
    check_point(point("peer_copy", {bytes}));
  }
}

TEST_CASE("collectives over the GPUs of this node, one rank where there is one GPU") {
#ifdef EPSIM_NCCL
  Peers alone;
  const int gpus = device().facts().gpus;
  TeamLeader leader(alone);
  NcclTeam team(0, gpus);
  for (const OpSpec& op : all_ops()) {
    if (op.kind != OpKind::kCollective) {
      continue;
    }
    for (const std::int64_t bytes : {512, 1 << 20}) {
      CAPTURE(op.name);
      team.prepare(leader, {collective_kind(op.name), bytes, gpus, 1});
      CHECK(team.check(leader) == 0);
      CHECK(team.time(leader, 3).count() > 0);
      team.release(leader);
    }
  }
#else
  MESSAGE("built without NCCL");
#endif
}

}  // namespace
}  // namespace epsim::test

int main(int argc, char** argv) {
  if (const auto reason = epsim::measure::no_cuda_device()) {
    std::cout << "skipped: " << *reason << "\n";
    return 77;
  }
  return doctest::Context(argc, argv).run();
}
