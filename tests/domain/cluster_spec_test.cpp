#include "sim/domain/cluster_spec.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "sim/core/error.h"
#include "tests/support/errors.h"

namespace epsim {
namespace {

// Eight A100-80 behind an NVSwitch and four 100 Gb/s NICs (AWS p4de.24xlarge).
ClusterSpec p4de(int nodes) {
  ClusterSpec c;
  c.nodes = nodes;
  c.node.name = "p4de";
  c.node.gpu.name = "A100-80";
  c.node.gpu.bf16_peak = 312_TFps;
  c.node.gpu.memory = 80_GiB;
  c.node.gpu.memory_bandwidth = 2039_GBps;
  c.node.gpus = 8;
  c.node.intra_rate = 300_GBps;
  c.node.nics = 4;
  c.node.nic_rate = 12.5_GBps;
  return c;
}

TEST_CASE("a cluster counts its GPUs and its node rates") {
  const ClusterSpec c = p4de(8);
  CHECK_NOTHROW(c.validate());
  CHECK(c.gpus() == 64);
  CHECK(c.node.node_rate() == 50_GBps);  // 4 x 100 Gb/s = 400 Gb/s
  const ClusterShape shape = shape_of(c);
  CHECK(shape.gpus == 64);
  CHECK(shape.nodes() == 8);
  CHECK(shape.node_of(63) == 7);
}

TEST_CASE("one node needs no NIC, one GPU no link") {
  ClusterSpec box = p4de(1);
  box.node.nics = 0;
  CHECK_NOTHROW(box.validate());
  box.node.gpus = 1;
  box.node.intra_rate = BytesPerSecond(0);
  CHECK_NOTHROW(box.validate());
}

TEST_CASE("an impossible cluster is refused by name") {
  struct Row {
    const char* says;
    std::function<void(ClusterSpec&)> spoil;
  };
  const Row rows[] = {
      {"at least one node", [](ClusterSpec& c) { c.nodes = 0; }},
      {"at least one GPU", [](ClusterSpec& c) { c.node.gpus = 0; }},
      {"A100-80", [](ClusterSpec& c) { c.node.gpu.bf16_peak = FlopsPerSecond(0); }},
      {"A100-80", [](ClusterSpec& c) { c.node.gpu.memory = Bytes(std::nan("")); }},
      {"A100-80", [](ClusterSpec& c) { c.node.gpu.memory_bandwidth = BytesPerSecond(-1); }},
      {"link between the GPUs", [](ClusterSpec& c) { c.node.intra_rate = BytesPerSecond(0); }},
      {"8 nodes need NICs", [](ClusterSpec& c) { c.node.nics = 0; }},
      {"3 NICs do not divide over 8 GPUs", [](ClusterSpec& c) { c.node.nics = 3; }},
      {"8 nodes need NICs", [](ClusterSpec& c) { c.node.nic_rate = BytesPerSecond(0); }},
  };
  for (const Row& row : rows) {
    ClusterSpec c = p4de(8);
    row.spoil(c);
    test::check_contains(test::error_of<InputError>([&] { c.validate(); }).what(), {row.says, "p4de"});
  }
}

}  // namespace
}  // namespace epsim
