// What every verb shares on the command line: help, where results go.
#include <doctest/doctest.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "tests/app/process.h"

using epsim::test::Outcome;
using epsim::test::run_epsim;
using epsim::test::slurp;
using epsim::test::small_scenario;
using epsim::test::TempDir;

TEST_CASE("epsim help VERB is epsim VERB --help") {
  const TempDir dir;
  for (const std::string verb : {"run", "compare", "goodput", "sweep", "list", "plan"}) {
    CAPTURE(verb);
    const Outcome help = run_epsim(dir, "help " + verb), option = run_epsim(dir, verb + " --help");
    CHECK(help.exit_code == 0);
    CHECK(help.out == option.out);
    CHECK(help.out.find("epsim " + verb) == 0);
  }
  CHECK(run_epsim(dir, "help rnu").exit_code == 2);
}

TEST_CASE("the old name of a verb works, and says the new one") {
  const TempDir dir;
  const std::string arguments = small_scenario() + " --policies base";
  const Outcome before = run_epsim(dir, "screen " + arguments), now = run_epsim(dir, "balance " + arguments);
  CHECK(now.exit_code == 0);
  CHECK(before.exit_code == 0);
  CHECK(before.out == now.out);
  CHECK(now.err == "");
  CHECK(before.err == "epsim: `screen` is called `balance` now; the old name will be removed in version 0.4.\n");
  CHECK(run_epsim(dir, "help screen").out == run_epsim(dir, "help balance").out);
}

TEST_CASE("a list without a word is refused, where no list is the default") {
  const TempDir dir;
  for (const std::string verb : {"balance", "validate", "goodput", "sweep --vary seed=1"}) {
    CAPTURE(verb);
    const Outcome refused = run_epsim(dir, verb + " " + small_scenario() + " --policies ,");
    CHECK(refused.exit_code == 2);
    CHECK(refused.err == "epsim: `policies`: the list is empty; it takes words separated by commas.\n");
  }
  CHECK(run_epsim(dir, "goodput " + small_scenario() + " --rates ,").exit_code == 2);
}

TEST_CASE("--json prints the result alone on standard output") {
  const TempDir dir;
  struct Row {
    std::string arguments;
    const char* key;
  };
  for (const Row& row : {Row{"run " + small_scenario() + " -q", "/throughput"},
                         Row{"compare " + small_scenario() + " --policies base,eplb -q", "/runs/1"},
                         Row{"balance " + small_scenario() + " --policies base,eplb", "/policies/1/balancedness_mean"},
                         Row{"validate " + small_scenario() + " --policies base", "/policies/0/kv_pool_gib_per_gpu"}}) {
    CAPTURE(row.arguments);
    const Outcome done = run_epsim(dir, row.arguments + " --json");
    REQUIRE_MESSAGE(done.exit_code == 0, done.err);
    const auto json = nlohmann::json::parse(done.out);
    CHECK_MESSAGE(json.contains(nlohmann::json::json_pointer(row.key)), done.out.substr(0, 600));
    CHECK(done.err.find("small") != std::string::npos);  // the text that people read
  }
}

TEST_CASE("sweep --json holds the rows of its tables, and the verdict of a search") {
  const TempDir dir;
  const std::string sweep = "sweep " + small_scenario() + " --policies base -q --json ";
  const Outcome runs = run_epsim(dir, sweep + "--vary seed=3,4 -o runs");
  REQUIRE_MESSAGE(runs.exit_code == 0, runs.err);
  const auto json = nlohmann::json::parse(runs.out);
  REQUIRE(json.at("results").size() == 2);
  CHECK(json["results"][1].at("point") == 1);
  CHECK(json["results"][1].at("policy") == "base");
  CHECK(json["results"][1].at("error").is_null());
  CHECK(json["results"][1].at("ttft_mean_ms").is_number());
  CHECK(json.at("intervals")[0].at("seeds") == 2);
  CHECK(json.at("verdict").is_null());
  CHECK(runs.err.find("results: runs") != std::string::npos);
  const Outcome failed = run_epsim(dir, sweep + "--vary cluster.nodes=1,3 -o failed");
  CHECK(failed.exit_code == 1);
  const auto points = nlohmann::json::parse(failed.out);
  CHECK(points.at("failed") == 1);
  CHECK(points.at("results")[1].at("error").get<std::string>().find("64 experts") != std::string::npos);
  const Outcome search = run_epsim(dir, sweep +
                                            "--measure goodput --slo 'ttft.p99<300ms' --tolerance 0.2 "
                                            "--vary cluster.nodes=1,4 -o search");
  REQUIRE_MESSAGE(search.exit_code == 0, search.err);
  CHECK(nlohmann::json::parse(search.out).at("verdict").get<std::string>().starts_with("Highest rate within the SLO"));
}

TEST_CASE("list --json has the rows that list prints") {
  const TempDir dir;
  const auto all = nlohmann::json::parse(run_epsim(dir, "list --json").out);
  const std::string text = run_epsim(dir, "list").out;
  std::size_t rows = 0;
  for (const auto& [catalogue, items] : all.items()) {
    for (std::size_t i = 0; catalogue != "format" && i < items.size(); ++i, ++rows) {
      const auto name = items[i].at("name").get<std::string>(), summary = items[i].at("summary").get<std::string>();
      CHECK_MESSAGE(text.find("\n  " + name) != std::string::npos, name);
      CHECK_MESSAGE(text.find(" " + summary + "\n") != std::string::npos, summary);
    }
  }
  CHECK(rows > 80);
  struct Row {
    const char *topic, *key;
  };
  for (const Row& row :
       {Row{"models", "/models/0/summary"}, Row{"hardware", "/gpus/0/name"}, Row{"policies", "/policies/0/options"},
        Row{"readers", "/loads/0/name"}, Row{"engines", "/engines/0/knobs/0"},
        Row{"transports", "/transports/0/runs_on"}, Row{"keys cluster.nodes", "/keys/0/meaning"}}) {
    CAPTURE(row.topic);
    const auto topic = nlohmann::json::parse(run_epsim(dir, std::string("list --json ") + row.topic).out);
    CHECK(topic.contains(nlohmann::json::json_pointer(row.key)));
    CHECK(topic.size() < all.size());
  }
}

TEST_CASE("-o - writes the one file of a verb to standard output, and nothing else") {
  const TempDir dir;
  const std::string trace =
      "'" + (epsim::test::source_dir() / "traces/samples/deepseek-r1-like-plan.json").string() + "'";
  REQUIRE(run_epsim(dir, "trace import " + trace + " -o t.h5 --top-k 8").exit_code == 0);
  REQUIRE(run_epsim(dir, "run " + small_scenario() + " -q -o out").exit_code == 0);
  struct Row {
    std::string arguments, ending;
  };
  for (const Row& row : {Row{"list --topology " + small_scenario(), "dot"}, Row{"report out", "html"},
                         Row{"trace convert t.h5 --format wide_csv", "csv"},
                         Row{"trace convert t.h5 --format sglang", "json"}, Row{"trace fit t.h5", "yaml"},
                         Row{"init --model olmoe-1b-7b --node DGX-H200 --dtype bf16", "yaml"}, Row{"schema", "json"}}) {
    CAPTURE(row.arguments);
    const Outcome shown = run_epsim(dir, row.arguments + " -o -");
    REQUIRE_MESSAGE(shown.exit_code == 0, shown.err);
    const std::string file = "file." + row.ending;
    const Outcome written = run_epsim(dir, row.arguments + " --overwrite -o " + file);
    CHECK(written.out.find(file) != std::string::npos);
    CHECK_FALSE(shown.out.empty());
    const bool same = shown.out == slurp(dir / file);
    CHECK(same);
    CHECK(run_epsim(dir, row.arguments + " -o " + file).exit_code == 2);  // it exists
  }
  CHECK_FALSE(std::filesystem::exists(dir / "-"));
}

TEST_CASE("-o - is refused for HDF5 and for folders, and with --json") {
  const TempDir dir;
  const std::string small = small_scenario();
  std::ofstream(dir / "request.json")
      << R"({"policy": "eplb", "weights": [[4, 3, 2, 1]], "num_gpus": 2, "num_replicas": 6})";
  struct Row {
    std::string arguments;
    const char* says;
  };
  for (const Row& row :
       {Row{"trace generate olmoe --rows 1", "HDF5"}, Row{"trace slice t.h5", "HDF5"}, Row{"trace import x", "HDF5"},
        Row{"calibrate import infersim --machine h20 --from .", "HDF5"}, Row{"run " + small, "folder"},
        Row{"compare --policies base " + small, "folder"}, Row{"goodput " + small, "folder"},
        Row{"sweep --vary seed=1,2 " + small, "folder"},
        Row{"reproduce " + (epsim::test::source_dir() / "experiments/craft/claims.yaml").string() + " --quick",
            "folder"},
        Row{"plan request.json --json", "both --json and -o -"}, Row{"list policies", "--topology"}}) {
    CAPTURE(row.arguments);
    const Outcome refused = run_epsim(dir, row.arguments + " -o -");
    CHECK(refused.exit_code == 2);
    CHECK(refused.out.empty());
    CHECK_MESSAGE(refused.err.find(row.says) != std::string::npos, refused.err);
    CHECK_FALSE(std::filesystem::exists(dir / "-"));
  }
  const Outcome plan = run_epsim(dir, "plan request.json --json");
  REQUIRE_MESSAGE(plan.exit_code == 0, plan.err);
  CHECK(nlohmann::json::parse(plan.out).at("format") == "epsim-plan-v1");
  CHECK(plan.err.find("balancedness") != std::string::npos);
  const Outcome both = run_epsim(dir, "plan request.json --json -o plan.json");
  CHECK(both.out == plan.out);
  CHECK(slurp(dir / "plan.json") == plan.out);
}

TEST_CASE("list keys shows one section's keys, and says which exist") {
  const TempDir dir;
  const Outcome keys = run_epsim(dir, "list keys cluster.node");
  CHECK(keys.out.find("cluster.nodes\n    whole number, > 0; required\n    Number of nodes of one instance.\n") !=
        std::string::npos);
  CHECK(keys.out.find("model") == std::string::npos);
  CHECK(run_epsim(dir, "list keys plan_loads.kind").out.find("loads.kind\n") == 0);
  const Outcome unknown = run_epsim(dir, "list keys clutser");
  CHECK(unknown.exit_code == 2);
  CHECK(unknown.err.find("cluster") != std::string::npos);
  CHECK(run_epsim(dir, "list models x").exit_code == 2);
}

TEST_CASE("the schema is one of draft 2020-12 that has every key, and its references lead somewhere") {
  const TempDir dir;
  const auto schema = nlohmann::json::parse(run_epsim(dir, "schema").out);
  CHECK(schema.at("$schema") == "https://json-schema.org/draft/2020-12/schema");
  const std::function<void(const nlohmann::json&)> check = [&](const nlohmann::json& node) {
    if (node.is_object() && node.contains("$ref")) {
      const std::string target = node.at("$ref").get<std::string>().substr(1);
      CHECK_MESSAGE(schema.contains(nlohmann::json::json_pointer(target)), target);
    }
    for (const auto& below : node) {
      if (below.is_structured()) {
        check(below);
      }
    }
  };
  check(schema);
  const auto& cluster = schema.at("properties").at("cluster").at("properties");
  CHECK(cluster.at("nodes").at("exclusiveMinimum") == 0);
  CHECK(schema.at("properties").at("requests").at("properties").at("think_time").at("pattern").get<std::string>() ==
        "^[+-]?[0-9.]+([eE][+-]?[0-9]+)? *(s|ms|us|ns|min|h)$");
  const auto& policy = schema.at("properties").at("policies").at("additionalProperties").at("properties");
  CHECK(policy.at("rebalance").at("properties").contains("rule"));
}

TEST_CASE("without -o no run takes another's folder, and out/last is the newest") {
  const TempDir dir;
  for (const char* folder : {"out/small", "out/small-2", "out/small-3"}) {
    const Outcome done = run_epsim(dir, "run " + small_scenario() + " -q");
    REQUIRE_MESSAGE(done.exit_code == 0, done.err);
    CHECK(done.out.find(std::string("results: ") + folder + "\n") != std::string::npos);
    CHECK(std::filesystem::exists(dir / folder / "resolved.yaml"));
    CHECK(std::filesystem::read_symlink(dir / "out/last") == std::filesystem::path(folder).filename());
  }
  // A named folder is not taken twice, and does not become `last`.
  REQUIRE(run_epsim(dir, "run " + small_scenario() + " -q -o out/mine").exit_code == 0);
  const Outcome again = run_epsim(dir, "run " + small_scenario() + " -q -o out/mine");
  CHECK(again.exit_code == 2);
  CHECK(again.err.find("--overwrite") != std::string::npos);
  CHECK(std::filesystem::read_symlink(dir / "out/last") == "small-3");
  // With --overwrite the plain name is replaced.
  REQUIRE(run_epsim(dir, "run " + small_scenario() + " -q --overwrite").exit_code == 0);
  CHECK(std::filesystem::read_symlink(dir / "out/last") == "small");
}

TEST_CASE("a run that is refused leaves no folder behind") {
  const TempDir dir;
  CHECK(run_epsim(dir, "run " + small_scenario() + " -q --timeline 3:x").exit_code == 2);
  CHECK(run_epsim(dir, "run " + small_scenario() + " -q --set memory.static_fraction=0.01").exit_code == 2);
  CHECK_FALSE(std::filesystem::exists(dir / "out/small"));
  // A user's own folder `last` stays as it is.
  std::filesystem::create_directories(dir / "out/last");
  REQUIRE(run_epsim(dir, "run " + small_scenario() + " -q").exit_code == 0);
  CHECK_FALSE(std::filesystem::is_symlink(dir / "out/last"));
}

TEST_CASE("groups of uneven size are not called copies") {
  // grace_hg only groups experts; with copies of the hottest (DR) there are some, and the words say so.
  const TempDir dir;
  const std::string rest = " " + (epsim::test::source_dir() / "experiments/grace/olmoe.yaml").string() +
                           " --policies grace_hg,grace_hg_dr_wrr --set cluster.nodes=2";
  const Outcome balance = run_epsim(dir, "balance" + rest);
  REQUIRE_MESSAGE(balance.exit_code == 0, balance.err);
  CHECK(balance.out.find("grace_hg makes no copies: its fullest GPU has") != std::string::npos);
  const auto policies = nlohmann::json::parse(run_epsim(dir, "balance" + rest + " --json").out).at("policies");
  CHECK(policies[0].at("copies_per_gpu") == 0);
  CHECK(policies[0].at("uneven_experts") > 0);
  CHECK(policies[0].at("kv_lost_to_copies_share") > 0);
  CHECK(policies[1].at("copies_per_gpu") > 0);
  const Outcome validate = run_epsim(dir, "validate" + rest);
  REQUIRE_MESSAGE(validate.exit_code == 0, validate.err);
  const auto end_of_first = validate.out.find("grace_hg_dr_wrr:");
  REQUIRE(end_of_first != std::string::npos);
  CHECK(validate.out.substr(0, end_of_first).find("% lost to uneven experts") != std::string::npos);
  CHECK(validate.out.substr(end_of_first).find("% lost to copies") != std::string::npos);
}

TEST_CASE("every verb finds the installed files that it reads from any folder") {
  namespace fs = std::filesystem;
  const TempDir dir;
  for (const char* folder : {"bin", "share", "elsewhere"}) {
    fs::create_directory(dir / folder);
  }
  fs::copy_file(EPSIM_BINARY, dir / "bin/epsim");
  fs::create_directory_symlink(epsim::test::source_dir(), dir / "share/epsim");
  const auto ends_with = [&](const std::string& words) {
    const std::string command =
        "cd '" + (dir / "elsewhere").string() + "' && ../bin/epsim " + words + " >../out.txt 2>../err.txt </dev/null";
    return WEXITSTATUS(std::system(command.c_str()));
  };
  const std::string plan = "traces/samples/deepseek-r1-like-plan.json",
                    served = "validate --served experiments/served/vllm-h100.csv";
  for (const auto& [words, code] : {std::pair("trace info --top-k 8 " + plan, 0),
                                    {"trace import --top-k 8 -o t.h5 " + plan, 0},
                                    {"diagnose " + plan + " traces/samples/deepseek-r1-like-run.json --seeds 1", 12},
                                    {served + " --layout experiments/served/vllm-h100.yaml --set seed=x", 2}}) {
    CAPTURE(words);
    CHECK(ends_with(words) == code);
    CHECK(slurp(dir / "err.txt").find("no such file") == std::string::npos);
  }
  CHECK(slurp(dir / "err.txt").find("`seed`") != std::string::npos);
  CHECK(ends_with("plan " + plan + " -o p.json") == 2);
  CHECK(slurp(dir / "err.txt").find("`weights`") != std::string::npos);  // no request, but it was found
  fs::copy_file(epsim::test::data_dir() / "small.yaml", dir / "elsewhere/own.yaml");
  std::ofstream(dir / "elsewhere/own.yaml", std::ios::app) << "# of a user\n";
  const std::string recorded = "kind: azure_csv, path: experiments/gallery/azure-like.csv";
  CHECK(ends_with("validate own.yaml --set 'requests={" + recorded + "}'") == 0);
  std::ofstream(dir / "elsewhere/mine.yaml") << "extends: own.yaml\nloads: {path: no/such.json}\n";
  CHECK(ends_with("validate mine.yaml --set loads.kind=sglang_counts") == 2);
  CHECK(slurp(dir / "err.txt").find("no/such.json") != std::string::npos);
}
