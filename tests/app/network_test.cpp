// The network through the program: drawings, fabrics and transports of a scenario, and what is wrong with them.
#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/app/process.h"
#include "tests/support/errors.h"

using epsim::test::Outcome;
using epsim::test::run_epsim;
using epsim::test::small_scenario;
using epsim::test::TempDir;

namespace {

nlohmann::json summary(const TempDir& dir, const std::string& sets, const std::string& folder) {
  const Outcome done = run_epsim(dir, "run " + small_scenario() + " -q -o " + folder + sets);
  REQUIRE_MESSAGE(done.exit_code == 0, done.err);
  return nlohmann::json::parse(epsim::test::slurp(dir / (folder + "/summary.json")));
}

double seconds(const nlohmann::json& run, const char* part) { return run.at("time_by_part").at(part).get<double>(); }

}  // namespace

TEST_CASE("list --topology draws a scenario's cluster") {
  const TempDir dir;
  const Outcome dot = run_epsim(dir, "list --topology " + small_scenario());
  REQUIRE_MESSAGE(dot.exit_code == 0, dot.err);
  CHECK(dot.out.rfind("digraph", 0) == 0);
  CHECK(dot.out.find("node1.nvswitch") != std::string::npos);
  REQUIRE(run_epsim(dir, "list --topology " + small_scenario() + " -o a.dot").exit_code == 0);
  CHECK(epsim::test::slurp(dir / "a.dot").find("digraph") != std::string::npos);
  const Outcome again = run_epsim(dir, "list --topology " + small_scenario() + " -o a.dot");
  CHECK(again.exit_code == 2);
  CHECK(again.err.find("--overwrite") != std::string::npos);
  const Outcome undrawn = run_epsim(dir, "list models --nodes 4");
  CHECK(undrawn.exit_code == 2);
  epsim::test::check_contains(undrawn.err, {"`nodes`: this option is for --topology"});
  const Outcome kind = run_epsim(dir, "list --topology " + small_scenario() + " -o a.png");
  CHECK(kind.exit_code == 2);
  CHECK(kind.err.find("dot -Tsvg") != std::string::npos);
}

TEST_CASE("an oversubscribed spine costs time under both models, and links.csv names it") {
  const TempDir dir;
  const std::string leaf = " --set cluster.fabric='{kind: leaf_spine, nodes_per_leaf: 1, oversubscription: 4}'";
  const nlohmann::json plain = summary(dir, "", "plain"), narrow = summary(dir, leaf, "narrow"),
                       flows = summary(dir, leaf + " --set network.model=max_min", "flows");
  CHECK(seconds(narrow, "dispatch_s") > seconds(plain, "dispatch_s"));
  CHECK(seconds(flows, "dispatch_s") >= seconds(narrow, "dispatch_s"));
  CHECK(seconds(flows, "dispatch_s") <= 1.05 * seconds(narrow, "dispatch_s"));
  const std::string bottleneck = narrow.at("dispatch_bottleneck").at("dispatch_bottleneck_link").get<std::string>();
  CHECK(bottleneck.rfind("leaf", 0) == 0);
  CHECK(epsim::test::slurp(dir / "narrow/links.csv").find("\nleaf0.up,") != std::string::npos);
  CHECK(epsim::test::slurp(dir / "narrow/layers.csv").find(bottleneck) != std::string::npos);
}

TEST_CASE("fair sharing follows the flows in a run, also where links run at half their rate") {
  const TempDir dir;
  // One rank of four has a prompt at a time, so that receivers wait for shared NICs.
  const std::string few =
      " --set cluster.nodes=4 --set parallelism.attention_tp=8 --set requests.count=6 --set requests.rate=0.1/s"
      " --set requests.output_tokens=1";
  const std::string slow = few +
                           " --set 'faults=[{at: 0s, node: 0, link_speed: 0.5}, {at: 0s, node: 1, link_speed: 0.5}, "
                           "{at: 0s, node: 2, link_speed: 0.5}, {at: 0s, node: 3, link_speed: 0.5}]'";
  const auto dispatch = [&](const std::string& sets, const char* model) {
    return seconds(summary(dir, sets + " --set network.model=" + model, model + std::to_string(sets.size())),
                   "dispatch_s");
  };
  std::vector<double> fair;
  for (const std::string& sets : {few, slow}) {
    CAPTURE(sets);
    fair.push_back(dispatch(sets, "fair_share"));
    CHECK(std::abs(fair.back() / dispatch(sets, "max_min") - 1) < 0.02);
    CHECK(fair.back() >= dispatch(sets, "two_tier"));
  }
  CHECK(fair.back() > 1.4 * fair.front());  // the wire takes twice as long; 150 us of each exchange are base latency
}

TEST_CASE("an all-gather sends every token everywhere") {
  const TempDir dir;
  const nlohmann::json p2p = summary(dir, "", "p2p"),
                       gather = summary(dir, " --set dispatch.transport=allgather_reducescatter", "gather");
  const auto bytes = [](const nlohmann::json& run) { return run.at("conservation").at("sent_bytes").get<double>(); };
  CHECK(bytes(gather) > bytes(p2p));
  CHECK(gather.at("conservation").at("received_bytes").get<double>() == doctest::Approx(bytes(gather)).epsilon(1e-9));
}

TEST_CASE("what is wrong with a network is said with its place") {
  struct Row {
    const char* sets;
    std::vector<const char*> says;
  };
  const Row rows[] = {
      {"cluster.fabric='{kind: torus}'", {"cluster.fabric.kind", "torus", "leaf_spine"}},
      {"cluster.fabric='{kind: leaf_spine}'",
       {"`cluster.fabric.nodes_per_leaf`", "needs the number of nodes on a leaf"}},
      {"cluster.fabric='{kind: leaf_spine, nodes_per_leaf: 1, oversubscription: 0}'",
       {"cluster.fabric.oversubscription"}},
      {"cluster.fabric='{oversubscription: 2}'", {"cluster.fabric.oversubscription", "no tier"}},
      {"cluster.fabric='{host_bridges: 2}'", {"cluster.fabric.host_bridges", "PCIe"}},
      {"cluster.fabric='{nic_attach_rate: 0GB/s}'", {"cluster.fabric.nic_attach_rate"}},
      {"cluster.fabric='{missing_links: [node1.nic0.in]}'", {"cluster.fabric.missing_links", "disconnected"}},
      {"cluster.fabric='{speed: 3}'", {"cluster.fabric.speed", "unknown"}},
      {"cluster.gpus_per_node=3", {"cluster.gpus_per_node", "do not divide"}},
      {"cluster.gpus_per_node=9", {"cluster.gpus_per_node", "has 8 GPUs"}},
      {"network.model=exact", {"network.model", "two_tier"}},
      {"network.model=fair_share --set cluster.fabric='{kind: leaf_spine, nodes_per_leaf: 1}'",
       {"network.model", "one switch", "max_min"}},
      {"network.model=fair_share --set dispatch.dedup=node", {"network.model", "gpu or none"}},
      {"network.model=fair_share --set execution.sync=pairwise", {"network.model", "pairwise", "two_tier"}},
      {"dispatch.transport=deepep_normal", {"dispatch.transport", "not measured", "nvlink3-a100"}},
      {"dispatch.transport=nccl", {"dispatch.transport", "nccl_p2p"}},
      {"dispatch='{transport: allgather_reducescatter, dedup: gpu}'", {"dispatch.dedup", "every token"}},
      {"dispatch='{transport: allgather_reducescatter, exchange_counts: true}'", {"dispatch.exchange_counts"}},
      {"dispatch='{transport: allreduce, dedup: gpu}'", {"dispatch.dedup", "every token"}},
      {"dispatch='{transport: allreduce, dispatch_dtype: fp8}'", {"dispatch.dispatch_dtype", "bf16"}},
      {"dispatch='{transport: broadcast_allreduce, combine_dtype: fp8}'", {"dispatch.combine_dtype", "bf16"}},
      {"dispatch='{transport: deepep_low_latency, dedup: node}'", {"dispatch.dedup", "'none'"}},
      {"dispatch='{transport: deepep_normal, combine_dtype: fp8}'", {"dispatch.combine_dtype", "bf16"}},
      {"dispatch='{transport: allgather_reducescatter, pxn: true}'", {"dispatch.pxn", "nccl_p2p"}},
      {"cluster='{node: grace-8x3090, nodes: 1}' --set dispatch.pxn=true", {"dispatch.pxn", "NVLink", "PCIe"}},
  };
  const TempDir dir;
  for (const Row& row : rows) {
    CAPTURE(row.sets);
    const Outcome refused = run_epsim(dir, "validate " + small_scenario() + " --set " + row.sets);
    CHECK(refused.exit_code == 2);
    for (const char* text : row.says) {
      CHECK_MESSAGE(refused.err.find(text) != std::string::npos, refused.err);
    }
  }
}
