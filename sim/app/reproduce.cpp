// `epsim reproduce craft`: a paper's claims beside what the same setups come to here.
#include <fmt/format.h>
#include <tbb/global_control.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "sim/app/command_line.h"
#include "sim/app/goodput_options.h"
#include "sim/app/inputs.h"
#include "sim/app/report_verb.h"
#include "sim/app/reproduce_example.h"
#include "sim/core/files.h"
#include "sim/report/format.h"
#include "sim/reproduce/craft_claims.h"
#include "sim/reproduce/craft_folder.h"
#include "sim/reproduce/craft_gather.h"
#include "sim/reproduce/craft_sensitivity.h"

namespace epsim::app {

namespace po = boost::program_options;
namespace fs = std::filesystem;

namespace {

constexpr StoreKind kReproduceStore{"reproduction", "reproduce.json", "searches"};
constexpr int kReproduceFormat = 1;  // of reproduce.json
// Searches that tell ratios between policies, not each knee to the last per cent.
constexpr double kTolerance = 0.06;
const std::vector<double> kSensitivity{2.5, 4, 8, 16};
// Requests per request in the system: as many times as long as requests stay, of which warm-up and drain are a tenth
// each.
constexpr double kRequestsRatio = 6;

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
    if (std::any_of(out.begin(), out.end(), [&](const CraftClaim& c) { return c.id == id; })) {
      throw InputError({"", 0, "only"}, fmt::format("{} is there twice; name each claim once.", id));
    }
    out.push_back(*found);
  }
  if (out.empty()) {
    throw InputError({"", 0, "only"}, "it names no claim; give ids, as in --only C09,C17.");
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
  out.goodput.sensitivity_of_first_seed = true;
  out.goodput.min_requests_ratio = kRequestsRatio;
  out.overrides = assignments_of(values);
  if (quick) {
    make_quick(out);
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

// What finished searches depend on; which claims are asked for is not part of it. The setups are part of the program:
// `inputs` are files that overrides name.
std::string manifest_of(const CraftStudyOptions& options, const std::vector<InputFile>& inputs) {
  nlohmann::ordered_json out = manifest_head(kReproduceFormat);
  out["paper"] = "craft";
  out["memory"] = kCraftMemoryNames[static_cast<int>(options.memory)];
  out["seeds"] = options.seeds;
  out["overrides"] = options.overrides;
  out["goodput"] = goodput_options_json(options.goodput);
  out["inputs"] = nlohmann::ordered_json::array();
  for (const InputFile& file : inputs) {
    out["inputs"].push_back({{"file_name", file.name}, {"content_hash", file.hash}});
  }
  return document_text(out);
}

std::vector<CraftNeed> needs_of(const std::vector<CraftClaim>& claims, const CraftScope& scope) {
  std::vector<CraftNeed> out;
  for (const CraftClaim& claim : claims) {
    const std::vector<CraftNeed> more = claim.needs(scope);
    out.insert(out.end(), more.begin(), more.end());
  }
  return out;
}

// The files that overrides name, the same for every setup. Refuses overrides that no setup can be read with, before a
// folder is made.
std::vector<InputFile> inputs_of(const std::vector<CraftNeed>& needs, const CraftStudyOptions& options) {
  for (const CraftSetup& setup : craft_setups()) {
    if (std::any_of(needs.begin(), needs.end(), [&](const CraftNeed& need) { return need.setup == setup.name; })) {
      std::vector<std::string> overrides = options.overrides;
      overrides.emplace_back("plan_loads.steps=2");  // reading is quick then
      std::vector<InputFile> out;
      for (const fs::path& file : craft_scenario(setup, options.memory, overrides, {}).input_files) {
        out.push_back(describe_file(file));
      }
      return out;
    }
  }
  return {};
}

// Ids of the claims that a folder's result holds and `claims` do not; of a result that cannot be read, those that can.
std::vector<std::string> claims_lost(const fs::path& folder, const std::vector<CraftClaim>& claims) {
  std::vector<std::string> out;
  if (!fs::exists(folder / "claims.json")) {
    return out;
  }
  const auto before = nlohmann::json::parse(read_file(folder / "claims.json"), nullptr, false);
  const nlohmann::json none, rows = before.is_object() && before.contains("claims") ? before["claims"] : none;
  for (const nlohmann::json& row : rows) {
    if (!row.is_object() || !row.contains("claim") || !row["claim"].is_string()) {
      continue;
    }
    const auto id = row["claim"].get<std::string>();
    const bool asked = std::any_of(claims.begin(), claims.end(), [&](const CraftClaim& c) { return c.id == id; });
    if (!asked && std::find(out.begin(), out.end(), id) == out.end()) {
      out.push_back(id);
    }
  }
  return out;
}

// A result is not to shrink to the claims asked for now.
void check_keeps_claims(const fs::path& folder, const std::vector<CraftClaim>& claims) {
  if (const std::vector<std::string> lost = claims_lost(folder, claims); !lost.empty()) {
    throw InputError({"", 0, "only"},
                     fmt::format("{} has a result with {} too, which would be lost. Name another folder with -o, or "
                                 "leave --only out: finished searches are not made again.",
                                 folder.string(), fmt::join(lost, ", ")));
  }
}

// Tells of each setup that is done.
GatherControl control_of(const JobStore& store, PlanCache& plans, bool quiet) {
  GatherControl out;
  out.stop = &interrupted();
  out.store = &store;
  out.plans = &plans;
  if (!quiet) {
    out.on_setup = [done = std::size_t{0}](const std::string& setup, std::size_t all) mutable {
      ++done;
      std::cerr << fmt::format("{} is done ({} of {} setups)\n", setup, (done - 1) % all + 1, all);
    };
  }
  return out;
}

// Nothing that was asked for can be told: a success would say nothing.
void check_tells_something(const std::vector<CraftClaim>& claims, const CraftScope& scope) {
  const bool none = std::all_of(claims.begin(), claims.end(), [&](const CraftClaim& claim) {
    return claim.needs(scope).empty() && claim.rows({}, scope).empty();
  });
  if (none) {
    throw InputError({"", 0, "only"}, "--quick leaves out the setups that these claims need; run without it.");
  }
}

std::string what_must_hold(const std::vector<ClaimRow>& rows) {
  const auto must = std::count_if(rows.begin(), rows.end(), [](const ClaimRow& row) { return row.must_hold; });
  const auto held = std::count_if(rows.begin(), rows.end(), [](const ClaimRow& row) {
    return row.must_hold && row.verdict() == Verdict::kReproduced;
  });
  return fmt::format("{} of the {} figures that must hold are within their tolerance.\n", held, must);
}

// The figures of all claims; ids of those without any go to `not_run`.
std::vector<ClaimRow> rows_of(const std::vector<CraftClaim>& claims, const CraftEvidence& evidence,
                              const CraftScope& scope, std::vector<std::string>& not_run) {
  std::vector<ClaimRow> out;
  for (const CraftClaim& claim : claims) {
    std::vector<ClaimRow> more = claim.rows(evidence, scope);
    for (ClaimRow& row : more) {  // few requests and one seed decide nothing that needs prices
      row.must_hold = row.must_hold && !(scope.quick && row.kind == ClaimKind::kCalibrated);
    }
    out.insert(out.end(), more.begin(), more.end());
    if (more.empty()) {
      not_run.emplace_back(claim.id);
    }
  }
  return out;
}

void check_paper(const po::variables_map& values) {
  if (values.count("paper") == 0) {
    throw InputError({}, "name the paper, as in: epsim reproduce craft --quick");
  }
  if (const std::string& paper = values["paper"].as<std::string>(); paper != "craft") {
    throw InputError({}, unknown_name("paper", paper, {"craft"}));
  }
}

int reproduce(const po::variables_map& values) {
  check_paper(values);
  interrupted();  // from here on, Ctrl-C is ours
  const JsonOutput json(values);
  const CraftScope scope{values["quick"].as<bool>()};
  const std::vector<CraftClaim> claims = chosen_claims(values);
  const CraftStudyOptions options = study_options(values, scope.quick);
  check_tells_something(claims, scope);
  const std::vector<CraftNeed> needs = needs_of(claims, scope);
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, workers_of(values));
  const std::vector<InputFile> inputs = inputs_of(needs, options);
  const fs::path target = named_folder(values).value_or(fs::path("out") / "craft");
  const JobStore store(target, kReproduceStore, manifest_of(options, inputs), values["overwrite"].as<bool>());
  check_keeps_claims(store.path(), claims);
  const bool quiet = values["quiet"].as<bool>();
  PlanCache plans;
  CraftEvidence evidence;
  std::vector<ClaimMovement> movements;
  try {
    evidence = gather_craft_evidence(needs, options, control_of(store, plans, quiet));
    if (values["sensitivity"].as<bool>()) {
      movements = craft_movements(claims, options, control_of(store, plans, quiet));
    }
    keep_example_run(store.path(), evidence, plans);
  } catch (const StudyInterrupted&) {
    std::cout << "interrupted: finished searches are kept, and the same command goes on from there\n";
    return kInterrupted;
  }
  ClaimsInfo info{EPSIM_VERSION, "CRAFT (arXiv 2603.28768)", setting_of(options, scope.quick), {}};
  std::vector<ClaimRow> rows = rows_of(claims, evidence, scope, info.not_run);
  add_movements(rows, movements);
  write_craft_folder(store.path(), rows, info, evidence, options, movements);
  const fs::path page = store.path() / "report.html";
  write_file_atomically(page, report_of(store.path()));
  json.print(read_file(store.path() / "claims.json"));
  std::cout << fmt::format("{}, re-run: {}\n\n", info.study, info.setting) << claims_table(rows, true)
            << what_must_hold(rows);
  if (!info.not_run.empty()) {
    std::cout << fmt::format("not run with --quick: {}\n", fmt::join(info.not_run, ", "));
  }
  std::cout << fmt::format("\nresults: {}\nreport:  {} (open it in a browser; it needs no network)\n",
                           store.path().string(), page.string());
  return all_hold(rows) ? 0 : 1;
}

}  // namespace

int reproduce_verb(const std::vector<std::string>& words) {
  po::options_description options("options");
  options.add_options()("only", po::value<std::string>(), "claims to check, separated by commas, as in C09,C17")(
      "quick", po::bool_switch(), "three setups, one seed, fewer requests: a minute on two cores")(
      "sensitivity", po::bool_switch(),
      "also change one input at a time and tell which two move each figure most: on five setups, takes twice as long "
      "again")("memory", po::value<std::string>()->default_value("paper"),
               "memory preset: paper (a fraction per setup, from its KV losses), or one_rule")(
      "seeds", po::value<int>(), "seeds of requests and routing; default 2")(
      "set", po::value<std::vector<std::string>>(), "override a key of every setup, as in --set dispatch.dedup=node");
  add_output_options(options);
  add_json_option(options, "the claims with value, tolerance and verdict, as claims.json");
  const auto values = parse_words(
      words,
      "epsim reproduce craft [options]\n\n"
      "Re-runs the evaluation of CRAFT (arXiv 2603.28768) in simulation and holds its claims against the result, each\n"
      "with its tolerance. experiments/craft/README.md says what is assumed. Ends with 1 when a claim that must hold "
      "is "
      "missed. Each finished search is kept at once: after a kill the same command goes on where it stopped.\n",
      options, {"paper"});
  return values ? reproduce(*values) : 0;
}

}  // namespace epsim::app
