// The report as a text: what it takes in, what it refuses, and that nothing in it can escape. That it draws is tested
// in a browser (tests/app/report_browser.sh).
#include "sim/report/html_report.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "policies/registry.h"
#include "sim/core/error.h"
#include "sim/core/files.h"
#include "sim/core/text.h"
#include "sim/report/goodput_writer.h"
#include "sim/report/writer.h"
#include "tests/report/sample_run.h"
#include "tests/report/sample_study.h"
#include "tests/support/errors.h"
#include "tests/support/paths.h"

namespace epsim {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

const RunInfo kInfo{"0.1.0", "</script><img src=x onerror=alert(1)>", 7, "seed: 7\n", {}};

// A comparison as `epsim compare` leaves it.
void write_sample(const fs::path& folder) {
  for (const char* label : {"base", "eplb"}) {
    fs::create_directories(folder / label);
    write_run(folder / label, test::sample_run(label), summarize(test::sample_run(label)), kInfo);
  }
  const std::vector runs{summarize(test::sample_run("base")), summarize(test::sample_run("eplb"))};
  write_comparison(folder, one_seed(runs), kInfo);
}

// What stands between two texts, each of which is there once.
std::string between(const std::string& text, const std::string& before, const std::string& after) {
  const std::size_t start = text.find(before);
  REQUIRE(start != std::string::npos);
  REQUIRE(text.find(before, start + 1) == std::string::npos);
  const std::size_t end = text.find(after, start + before.size());
  REQUIRE(end != std::string::npos);
  return text.substr(start + before.size(), end - start - before.size());
}

Json data_in(const std::string& html) {
  return Json::parse(between(html, "<script type=\"application/json\" id=\"data\">", "</script>"));
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t out = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++out;
  }
  return out;
}

}  // namespace

TEST_CASE("report: holds every file that it shows, unchanged, and not those that it does not show") {
  const test::TempDir dir;
  write_sample(dir / "out");
  const std::string html = html_report(read_report_input(dir / "out"), "0.1.0");
  const Json files = data_in(html)["files"];
  for (const char* name : {"comparison.json", "base/summary.json", "base/layers.csv", "base/layer_gpu.csv",
                           "eplb/layer_steps.csv", "eplb/memory.csv", "eplb/links.csv", "eplb/resolved.yaml"}) {
    CAPTURE(name);
    REQUIRE(files.contains(name));
    const bool map = std::string(name).find("layer_") != std::string::npos;  // of these six digits of each number
    CHECK((map || files[name] == read_file(dir / "out" / name)));
  }
  CHECK_FALSE(files.contains("base/requests.csv"));
  CHECK(html == html_report(read_report_input(dir / "out"), "0.1.0"));
}

TEST_CASE("report: maps keep six digits, latencies go in as quantiles, the scenario as what the first screen says") {
  const test::TempDir dir;
  write_sample(dir / "out");
  std::ofstream(dir / "out/base/layer_gpu.csv") << "layer,gpu,assignments\n3,0,285353.9766296033\n3,12345678,0.125\n";
  std::ofstream requests(dir / "out/base/requests.csv");
  requests << "request,ttft_ms,tpot_ms,e2e_ms\n0,,,\n";  // one that got no token
  for (int i = 1; i <= 1000; ++i) {
    requests << i << ',' << 1001 - i << ",,\n";
  }
  requests.close();
  Json summary = Json::parse(read_file(dir / "out/base/summary.json"));
  summary["requests"]["offered_requests"] = 1001;
  std::ofstream(dir / "out/base/summary.json") << summary;
  std::ofstream(dir / "out/base/resolved.yaml")
      << "cluster: {node: p4de.24xlarge, nodes: 8}\nserving: {engine: vllm_v1}\n";
  fs::remove(dir / "out/eplb/resolved.yaml");
  ReportInput input = read_report_input(dir / "out");
  input.nodes = {{"p4de.24xlarge", "A100-80", 8}};
  const Json data = data_in(html_report(input, "0.1.0"));
  CHECK(data["files"]["base/layer_gpu.csv"] == "layer,gpu,assignments\n3,0,285354\n3,12345678,0.125\n");
  const Json ttft = data["quantiles"]["base"]["ttft_ms"];
  REQUIRE(ttft.size() == kQuantiles);
  CHECK(ttft[0] == 1);
  CHECK(ttft[kQuantiles - 1] == 1000);
  CHECK(ttft[100] == 1 + 100 * 999 / 199);  // values 1 to 1000: the one at 100/199 of their places
  CHECK(data["scenarios"]["base"]["serving"]["engine"] == "vllm_v1");
  CHECK(data["hardware"]["p4de.24xlarge"] == Json({{"gpu", "A100-80"}, {"gpus", 8}}));
  CHECK_FALSE(data["scenarios"].contains("eplb"));
}

TEST_CASE("report: text from files cannot leave its script element, nor the title its own") {
  const test::TempDir dir;
  const fs::path hostile = dir / "<img src=x onerror=alert(1)>";
  write_sample(hostile);
  const std::string html = html_report(read_report_input(hostile), "0.1.0");
  CHECK(html.find("<img") == std::string::npos);
  CHECK(html.find("onerror=alert(1)&gt;</title>") != std::string::npos);
  CHECK(data_in(html)["files"]["base/summary.json"].get<std::string>().find("</script><img") != std::string::npos);
  CHECK(count(html, "</script>") == 3);  // the data, the library, the program
}

TEST_CASE("report: asks for nothing outside of itself") {
  const test::TempDir dir;
  write_sample(dir / "out");
  const std::string html = html_report(read_report_input(dir / "out"), "0.1.0");
  CHECK(html.find("Content-Security-Policy\" content=\"default-src 'none'") != std::string::npos);
  for (const char* outside : {"<link", "<iframe", "<img", "@import", "src=\"http", "href=\"http", "url(http"}) {
    CAPTURE(outside);
    CHECK(html.find(outside) == std::string::npos);
  }
  // D3 goes with its notice and its licence.
  CHECK(html.find("Copyright 2010-2022 Mike Bostock") != std::string::npos);
  CHECK(html.find("THIS SOFTWARE IS PROVIDED BY THE COPYRIGHT HOLDERS") != std::string::npos);
}

TEST_CASE("report: a colour for every item of a GPU's memory, and no table breaks inside words") {
  const test::TempDir dir;
  write_sample(dir / "out");
  const std::string html = html_report(read_report_input(dir / "out"), "0.1.0");
  const std::string palette = between(html, "const palette = [", "]");
  std::set<std::string> colours;
  for (std::size_t at = palette.find('#'); at != std::string::npos; at = palette.find('#', at + 1)) {
    colours.insert(palette.substr(at, 7));
  }
  CHECK(colours.size() == 12);  // the items of memory.csv, "left over" among them
  CHECK(count(palette, "#") == colours.size());
  const Json policies = Json::parse("[" + between(html, "const policyOrder = [", "]") + "]");
  CHECK(policies.size() == colours.size());
  const std::vector<std::string> kinds = policy_kinds();
  for (const Json& name : policies) {
    CHECK(std::ranges::count(kinds, name.get<std::string>()) == 1);
  }
  CHECK(between(html, "<style>", "</style>").find("anywhere") == std::string::npos);
}

TEST_CASE("report: defines every figure of its tables") {
  Json known = data_in(html_report({}, "0.1.0"))["definitions"];
  CHECK(known.size() > 200);
  CHECK(known["balancedness_worst_layer"]["index"] == true);
  CHECK(known["ttft_mean_ms"] == Json({{"unit", "ms"}, {"text", "TTFT: mean."}, {"better", "lower"}}));
  CHECK(known["knee_ttft_mean_ms"] == Json({{"unit", "ms"}, {"text", "Mean TTFT at the knee."}}));
  CHECK(known["straggler_share"]["text"] == "straggler_s / step time.");  // without Markdown's marks
  for (const auto& item : known.items()) {
    CAPTURE(item.key());
    CHECK_FALSE(item.value()["text"].get<std::string>().empty());
  }
}

TEST_CASE("report: a goodput study, and several outputs in one folder") {
  const test::TempDir dir;
  write_sample(dir / "runs");
  fs::create_directory(dir / "goodput");
  write_goodput(dir / "goodput", test::sample_study(), kInfo);
  const ReportInput input = read_report_input(dir.path());
  const Json files = data_in(html_report(input, "0.1.0"))["files"];
  CHECK(files.contains("goodput/curve.csv"));
  CHECK(files.contains("runs/eplb/gpus.csv"));
  CHECK(input.plans.empty());
}

TEST_CASE("report: a file too large for a report is left out, and the report says so") {
  const test::TempDir dir;
  write_sample(dir / "out");
  std::ofstream(dir / "out/base/links.csv") << "link\n" << std::string(kMostReportFileBytes, 'x');
  const ReportInput input = read_report_input(dir / "out");
  REQUIRE(input.left_out.size() == 1);
  CHECK(input.left_out[0] == "base/links.csv is not in this report: it takes 8 MB.");
}

TEST_CASE("report: what it cannot be made from is refused") {
  const test::TempDir dir;
  const auto refused = [&](const fs::path& place, std::initializer_list<const char*> says) {
    test::check_contains(test::error_of<InputError>([&] { read_report_input(place); }).what(), says);
  };
  refused(dir / "absent", {"absent", "no such folder"});
  refused(dir.path(), {"nothing to report on", "summary.json"});
  fs::create_directories(dir / "begun/searches");
  std::ofstream(dir / "begun/reproduce.json") << "{\"format\": 1}";
  refused(dir / "begun", {"not finished", "to continue"});
  write_sample(dir / "begun/example-run");
  refused(dir / "begun", {"not finished", "to continue"});  // for its claims are missing
  std::ofstream(dir / "begun/claims.json") << "{\"format\": 1, \"claims\": [";
  refused(dir / "begun", {"claims.json", "not valid JSON"});
  std::ofstream(dir / "begun/claims.json") << "{\"format\": \"epsim-claims\"}";
  refused(dir / "begun", {"claims.json", "epsim-claims", "not a format"});
  fs::remove_all(dir / "begun");
  std::ofstream(dir / "notes.json") << "{}";
  refused(dir / "notes.json", {"not a plan"});
  std::ofstream(dir / "plan.json") << "{\"format\": \"epsim-plan-v1\", \"policy\": \"eplb\"}";
  refused(dir / "plan.json", {"num_gpus", "missing"});
  fs::rename(dir / "plan.json", dir / "p.plan");  // a plan whatever it is called
  refused(dir / "p.plan", {"num_gpus", "missing"});
  fs::remove(dir / "p.plan");
  write_sample(dir / "out");
  std::ofstream(dir / "out/base/summary.json") << "{\"format\": 1,\n \"policy\": ";
  refused(dir / "out", {"base/summary.json:2", "not valid JSON"});
  std::ofstream(dir / "out/base/summary.json") << "{\"format\": 2}";
  refused(dir / "out", {"base/summary.json", "format", "2 is not a format"});
}

TEST_CASE("report: a file that is there but damaged is refused with its name and line") {
  const test::TempDir dir;
  write_sample(dir / "out");
  const fs::path base = dir / "out/base";
  const std::string requests = read_file(base / "requests.csv"), series = read_file(base / "series.csv");
  const std::string second = requests.substr(0, requests.find('\n', requests.find('\n') + 1));  // header and a row
  const auto refused = [&](const char* name, const std::string& content, std::initializer_list<const char*> says) {
    CAPTURE(content);
    const std::string whole = read_file(base / name);
    std::ofstream(base / name) << content;
    test::check_contains(test::error_of<InputError>([&] { read_report_input(dir / "out"); }).what(), says);
    std::ofstream(base / name) << whole;
    read_report_input(dir / "out");
  };
  refused("requests.csv", "", {"requests.csv:1", "empty"});
  refused("requests.csv", second, {"requests.csv:2", "cut short"});
  refused("requests.csv", second + "\n", {"requests.csv:2", "has 1 requests, summary.json"});
  refused("requests.csv", second.substr(0, second.rfind(',')) + "\n", {"requests.csv:2", "fields"});
  refused("requests.csv", replaced(requests, "ttft_ms", "tfft_ms"), {"requests.csv:1", "ttft_ms", "no such column"});
  refused("requests.csv", requests + replaced("a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a\n", "a", "?"), {"`?` is not a number"});
  refused("series.csv", "\x1f\x8b garbage\n", {"series.csv:1", "start_s"});
  refused("series.csv", series + "0,1,2,nan,4,5,6\n", {"series.csv", "queued_requests", "`nan`"});
  refused("layers.csv", "layer,\"total\nus\"\n1\n", {"layers.csv:3", "1 fields, the header 2"});
  refused("resolved.yaml", "", {"resolved.yaml:1", "empty"});
  refused("resolved.yaml", "cluster: [\n", {"resolved.yaml:", "not YAML"});
  // What is absent is left out; tables of no run may have any content.
  for (const char* name : {"requests.csv", "series.csv", "layers.csv", "resolved.yaml"}) {
    fs::remove(base / name);
  }
  fs::create_directories(dir / "out/inputs");
  std::ofstream(dir / "out/inputs/requests.csv") << "start,tokens\n1\n";
  std::ofstream(dir / "out/inputs/results.csv") << "a\n1,2\n";
  CHECK(read_report_input(dir / "out").quantiles.size() == 1);
}

}  // namespace epsim
