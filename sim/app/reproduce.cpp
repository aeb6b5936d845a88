// `epsim reproduce craft`: a paper's claims beside what the same setups come to here.
#include <fmt/format.h>
#include <tbb/global_control.h>

#include <algorithm>
#include <iostream>
#include <set>

#include "sim/app/command_line.h"
#include "sim/app/report_verb.h"
#include "sim/core/files.h"
#include "sim/report/format.h"
#include "sim/reproduce/craft_claims.h"
#include "sim/reproduce/craft_folder.h"

namespace epsim::app {

namespace po = boost::program_options;
namespace fs = std::filesystem;

namespace {

constexpr const char* kMarker = "claims.json";
// Searches that tell ratios between policies, not each knee to the last per cent.
constexpr double kTolerance = 0.04;
const std::vector<double> kSensitivity{2.5, 4, 8, 16};

std::vector<CraftClaim> chosen_claims(const po::variables_map& values) {
  const auto all = craft_claims();
  if (values.count("only") == 0) {
    return {all.begin(), all.end()};
  }
  std::vector<std::string> names;
  for (const CraftClaim& claim : all) {
    names.emplace_back(claim.id);
  }
  std::vector<CraftClaim> out;
  for (const std::string& id : split_list(values["only"].as<std::string>())) {
    const auto found = std::find_if(all.begin(), all.end(), [&](const CraftClaim& c) { return c.id == id; });
    if (found == all.end()) {
      throw InputError({"", 0, "only"}, unknown_name("claim", id, names));
    }
    out.push_back(*found);
  }
  return out;
}

CraftStudyOptions study_options(const po::variables_map& values, bool quick) {
  CraftStudyOptions out;
  const std::string memory = values["memory"].as<std::string>();
  if (memory != "one_rule" && memory != "paper") {
    throw InputError({"", 0, "memory"}, unknown_name("memory preset", memory, {"one_rule", "paper"}));
  }
  out.memory = memory == "paper" ? CraftMemory::kPaper : CraftMemory::kOneRule;
  out.seeds = values.count("seeds") > 0 ? values["seeds"].as<int>() : quick ? 1 : 2;
  if (out.seeds < 1 || out.seeds > 100) {
    throw InputError({"", 0, "seeds"}, fmt::format("{} seeds; 1 to 100 are allowed.", out.seeds));
  }
  out.goodput.tolerance = kTolerance;
  out.goodput.sensitivity = kSensitivity;
  if (quick) {
    out.overrides = {"requests.count=1500"};
    out.goodput.min_requests_ratio = 1;
    out.goodput.tolerance = 0.08;
  }
  if (values.count("set") > 0) {
    const auto& assignments = values["set"].as<std::vector<std::string>>();
    out.overrides.insert(out.overrides.end(), assignments.begin(), assignments.end());
  }
  return out;
}

std::string setting_of(const CraftStudyOptions& options, bool quick) {
  std::string out =
      fmt::format("memory preset {}, {} seed{}, knee at k = {:g}", kCraftMemoryNames[static_cast<int>(options.memory)],
                  options.seeds, options.seeds == 1 ? "" : "s", options.goodput.k);
  for (const std::string& assignment : options.overrides) {
    out += ", " + assignment;
  }
  return out + (quick ? " (quick)" : "");
}

CraftEvidence gather(const std::vector<CraftClaim>& claims, const CraftScope& scope, const CraftStudyOptions& options,
                     bool quiet) {
  std::vector<CraftNeed> needs;
  for (const CraftClaim& claim : claims) {
    const std::vector<CraftNeed> more = claim.needs(scope);
    needs.insert(needs.end(), more.begin(), more.end());
  }
  std::size_t done = 0;
  return gather_craft_evidence(needs, options, &interrupted(), [&](const std::string& setup, std::size_t all) {
    ++done;
    if (!quiet) {
      std::cerr << fmt::format("{} is done ({} of {} setups)\n", setup, done, all);
    }
  });
}

int reproduce(const po::variables_map& values) {
  if (const std::string& paper = values["paper"].as<std::string>(); paper != "craft") {
    throw InputError({}, unknown_name("paper", paper, {"craft"}));
  }
  interrupted();  // from here on, Ctrl-C is ours
  const bool quick = values["quick"].as<bool>();
  const CraftScope scope{quick};
  const std::vector<CraftClaim> claims = chosen_claims(values);
  const CraftStudyOptions options = study_options(values, quick);
  const fs::path target =
      values.count("output") > 0 ? fs::path(values["output"].as<std::string>()) : fs::path("out") / "craft";
  OutputFolder folder(target, values["overwrite"].as<bool>(), kMarker);
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, workers_of(values));
  CraftEvidence evidence;
  try {
    evidence = gather(claims, scope, options, values["quiet"].as<bool>());
  } catch (const SearchInterrupted&) {
    std::cout << "interrupted: nothing was written\n";
    return kInterrupted;
  }
  std::vector<ClaimRow> rows;
  std::vector<std::string> left_out;
  for (const CraftClaim& claim : claims) {
    std::vector<ClaimRow> more = claim.rows(evidence, scope);
    for (ClaimRow& row : more) {  // few requests and one seed decide nothing that needs prices
      row.must_hold = row.must_hold && !(quick && row.kind == ClaimKind::kCalibrated);
    }
    rows.insert(rows.end(), more.begin(), more.end());
    if (more.empty()) {
      left_out.emplace_back(claim.id);
    }
  }
  const std::string setting = setting_of(options, quick);
  const ClaimsInfo info{EPSIM_VERSION, "CRAFT (arXiv 2603.28768)", setting, left_out};
  write_craft_folder(folder.path(), rows, info, evidence, options);
  folder.commit();
  const fs::path page = folder.target() / "report.html";
  write_report(folder.target(), page, true);
  std::cout << fmt::format("{}, re-run: {}\n\n", info.study, setting) << claims_table(rows, true);
  if (!left_out.empty()) {
    std::cout << fmt::format("not run with --quick: {}\n", fmt::join(left_out, ", "));
  }
  std::cout << fmt::format("\nresults: {}\nreport:  {} (open it in a browser; it needs no network)\n", target.string(),
                           (target / "report.html").string());
  return all_hold(rows) ? 0 : 1;
}

}  // namespace

int reproduce_verb(const std::vector<std::string>& words) {
  po::options_description options("options");
  options.add_options()("only", po::value<std::string>(), "claims to check, separated by commas, as in C09,C17")(
      "quick", po::bool_switch(), "three setups, one seed, fewer requests: half a minute instead of minutes")(
      "memory", po::value<std::string>()->default_value("one_rule"),
      "memory preset: one_rule, or paper (a fraction per setup)")("seeds", po::value<int>(),
                                                                  "seeds of requests and routing; default 2")(
      "set", po::value<std::vector<std::string>>(), "override a key of every setup, as in --set dispatch.dedup=node");
  add_output_options(options);
  const auto values = parse_words(
      words,
      "epsim reproduce craft [options]\n\n"
      "Re-runs the evaluation of CRAFT (arXiv 2603.28768) in simulation and holds its claims against the result, each\n"
      "with its tolerance. experiments/craft/README.md says what is assumed. Ends with 1 when a claim that must hold "
      "is "
      "missed.\n",
      options, {"paper"});
  return values ? reproduce(*values) : 0;
}

}  // namespace epsim::app
