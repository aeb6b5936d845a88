// experiments/losses, rebalance and systems: every row of the tables of results in their READMEs is what the program prints.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/app/process.h"

namespace {

using Json = nlohmann::json;

std::filesystem::path experiments() { return epsim::test::source_dir() / "experiments"; }

// summary.json by policy.
Json compare(const std::string& scenario, const std::string& policies, const std::string& set) {
  const epsim::test::TempDir dir;
  const auto outcome = run_epsim(
      dir, fmt::format("compare '{}' -q --policies {} {} -o out", (experiments() / scenario).string(), policies, set));
  REQUIRE_MESSAGE(outcome.exit_code == 0, outcome.err);
  Json out;
  for (const auto& entry : std::filesystem::directory_iterator(dir / "out")) {
    if (entry.is_directory()) {
      out[entry.path().filename().string()] = Json::parse(epsim::test::slurp(entry.path() / "summary.json"));
    }
  }
  return out;
}

double number(const Json& summary, const char* group, const char* metric) {
  return summary.at(group).at(metric).get<double>();
}

void check_row(const std::string& page, const std::string& row) {
  const std::string text = epsim::test::slurp(experiments() / page / "README.md");
  CHECK_MESSAGE(text.find(row) != std::string::npos, "not in experiments/", page, "/README.md: ", row);
}

}  // namespace

TEST_CASE("what a lost GPU costs") {
  const auto row = [](const std::string& name, const Json& run, const char* note) {
    check_row(
        "losses",
        fmt::format("| {} | {} | {} | {} | {:.2f} | {:.1f} / {:.1f} s{} |", name,
                    number(run, "requests", "completed_requests"), number(run, "requests", "retried_requests"),
                    number(run, "requests", "failed_requests"), number(run, "throughput", "requests_per_s"),
                    number(run, "latency", "ttft_mean_ms") / 1000, number(run, "latency", "ttft_max_ms") / 1000, note));
  };
  const std::string one = "--set deployment.instances=1 --set cluster.nodes=4";
  const Json two_runs = compare("losses/deepseek-r1-h200.yaml", "eplb,base", "");
  const Json one_run = compare("losses/deepseek-r1-h200.yaml", "eplb,base", one);
  for (const char* policy : {"eplb", "base"}) {
    row(fmt::format("two instances, {}", policy), two_runs.at(policy), "");
    row(fmt::format("one instance, {}", policy), one_run.at(policy), " (of those that completed)");
  }
  const Json& eplb = two_runs.at("eplb");
  check_row("losses", fmt::format("the {} requests under way", number(eplb, "requests", "retried_requests")));
  check_row("losses", fmt::format("{:.0f} s. Only where", number(eplb, "latency", "ttft_max_ms") / 1000));
  check_row("losses",
            fmt::format("| `keep` | {} | | | |", number(one_run.at("eplb"), "requests", "completed_requests")));
  const std::string back =
      " --set 'faults=[{instance: 0, at: 200s, until: 300s, gpu: 5, lost: true, recovery: 10s, rejoin: 5s}]'";
  for (const auto& [name, after, more] :
       {std::tuple("`keep`, the GPU back after 100 s", "keep", back), std::tuple("`repair`", "repair", std::string()),
        std::tuple("`replan`", "replan", std::string()),
        std::tuple("`replan`, the GPU back after 100 s", "replan", back)}) {
    const Json run = compare("losses/deepseek-r1-h200.yaml", "eplb",
                             fmt::format("{} --set deployment.after_loss={} --set deployment.reload_rate=20GB/s{}", one,
                                         after, more))
                         .at("eplb");
    check_row("losses",
              fmt::format("| {} | {} | {} | {:.0f} / {:.0f} GiB | {:.2f} s |", name,
                          number(run, "requests", "completed_requests"), number(run, "lost_gpus", "remade_copies"),
                          number(run, "lost_gpus", "remade_moved_gib"), number(run, "lost_gpus", "remade_reloaded_gib"),
                          number(run, "lost_gpus", "remaking_s")));
    if (more.empty()) {
      check_row("losses", fmt::format("`repair` and `replan` ({:.2f})", number(run, "throughput", "requests_per_s")));
    }
  }
}

TEST_CASE("whether to plan again during a run") {
  for (const int period : {25, 50, 100, 200, 400}) {
    const Json runs = compare("rebalance/deepseek-r1-h200.yaml", "never,sync,chunks,async,every",
                              fmt::format("--set loads.period={}", period));
    std::string row = fmt::format("| {} |", period);
    for (const char* policy : {"sync", "chunks", "async", "every"}) {
      const Json& run = runs.at(policy);
      const double gained = std::round(10 * number(run, "rebalance", "rebalance_gained_s")) / 10;
      row += fmt::format(" {:.1f} / {:.1f}: {:.2f} |", gained + 0.0,  // no -0.0
                         number(run, "rebalance", "rebalance_lost_s"), number(run, "throughput", "requests_per_s"));
    }
    check_row("rebalance", row);
    check_row("rebalance", fmt::format("(never: {:.2f})", number(runs.at("never"), "throughput", "requests_per_s")));
  }
}

TEST_CASE("copies that take no load") {
  for (const int nodes : {1, 2, 4}) {
    const epsim::test::TempDir dir;
    const auto outcome = run_epsim(
        dir, fmt::format("balance '{}' --json --set cluster.nodes={} --policies contiguous,base,dealt,first,fewer",
                         (experiments() / "near-copies/deepseek-r1-h200.yaml").string(), nodes));
    REQUIRE_MESSAGE(outcome.exit_code == 0, outcome.err);
    std::string row = fmt::format("| {} |", nodes);
    for (const Json& policy : Json::parse(outcome.out).at("policies")) {
      row += fmt::format(" {:.3f} |", policy.at("balancedness_mean").get<double>());
    }
    check_row("near-copies", row);
  }
}

TEST_CASE("systems: choices that DeepSpeed-MoE drops, and what C2R reroutes and saves") {
  std::string dropped;
  for (const char* model : {"olmoe", "v2lite", "qwen"}) {
    const Json run = compare(fmt::format("grace/{}.yaml", model), "deepspeed_moe", "").at("deepspeed_moe");
    dropped += fmt::format(
        "{}{:.0f}", dropped.empty() ? "" : ", ",
        100 * number(run, "conservation", "assignments_dropped") / number(run, "conservation", "assignments_routed"));
  }
  dropped.replace(dropped.rfind(", "), 2, " and ");
  check_row("systems", dropped + " % of OLMoE's, DeepSeek-V2-Lite's and Qwen3-30B's choices");
  const std::string kinds = " --set loads.kind_share=0.93 --set plan_loads.kind_share=0.93";
  for (const auto& [collaborators, name] : {std::pair(63, "any: no constraint"), std::pair(48, "48"),
                                            std::pair(32, "32"), std::pair(16, "16"), std::pair(8, "8")}) {
    const Json run = compare("grace/olmoe.yaml", "c2r",
                             fmt::format("--set policies.c2r.dispatch.collaborators={}", collaborators) + kinds)
                         .at("c2r");
    const double rerouted =
        100 * number(run, "conservation", "assignments_rerouted") / number(run, "conservation", "assignments_routed");
    check_row("systems",
              fmt::format("| {} | {:.{}f} % | {:.1f} GB | {:.2f} s | {:.1f} |", name, rerouted, rerouted > 0 ? 1 : 0,
                          number(run, "conservation", "sent_between_nodes_bytes") / 1e9,
                          number(run, "time_by_part", "experts_s"), number(run, "throughput", "requests_per_s")));
  }
  const Json plain = compare("grace/olmoe.yaml", "megablocks", kinds).at("megablocks");
  check_row("systems",
            fmt::format("serves {:.1f} with {:.1f} GB between nodes", number(plain, "throughput", "requests_per_s"),
                        number(plain, "conservation", "sent_between_nodes_bytes") / 1e9));
}
