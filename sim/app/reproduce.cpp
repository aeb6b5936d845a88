// `epsim reproduce`: a paper's claims beside what the same setups come to here.
#include <fmt/format.h>
#include <tbb/global_control.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "sim/app/command_line.h"
#include "sim/app/goodput_options.h"
#include "sim/app/inputs.h"
#include "sim/core/files.h"
#include "sim/report/folder_report.h"
#include "sim/report/format.h"
#include "sim/reproduce/evaluate.h"
#include "sim/reproduce/paper_folder.h"
#include "sim/study/job_runner.h"

namespace epsim::app {

namespace po = boost::program_options;
namespace fs = std::filesystem;

namespace {

constexpr StoreKind kReproduceStore{"reproduction", "reproduce.json", "searches"};
constexpr int kReproduceFormat = 2;  // of reproduce.json

// The papers that experiments/ has.
std::vector<std::string> known_papers() {
  std::vector<std::string> out;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(shipped_file("experiments"), none)) {
    if (fs::exists(entry.path() / "claims.yaml", none)) {
      out.push_back(entry.path().filename().string());
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

// A file, or the name of a paper of experiments/.
fs::path claims_file(const po::variables_map& values) {
  if (values.count("paper") == 0) {
    throw InputError({}, "name the paper, or a file of claims, as in: epsim reproduce craft --quick");
  }
  const std::string paper = values["paper"].as<std::string>();
  if (paper.ends_with(".yaml")) {
    return shipped_file(paper);
  }
  const fs::path file = shipped_file("experiments/" + paper + "/claims.yaml");
  std::error_code none;
  if (paper.find('/') != std::string::npos || !fs::exists(file, none)) {
    const std::vector<std::string> known = known_papers();
    throw InputError(
        {}, known.empty()
                ? fmt::format("no paper '{}': epsim finds papers in experiments/ of the working folder or of its "
                              "installation, and neither has one. A study of your own is a file, FILE.yaml.",
                              paper)
                : unknown_name("paper", paper, known) + " A study of your own is a file, FILE.yaml.");
  }
  return file;
}

std::vector<PaperClaim> chosen_claims(const PaperStudy& paper, const po::variables_map& values) {
  const std::vector<PaperClaim>& all = paper.claims;
  if (values.count("only") == 0) {
    return all;
  }
  std::vector<std::string> names;
  for (const PaperClaim& claim : all) {
    names.emplace_back(claim.id);
  }
  std::vector<PaperClaim> out;
  for (const std::string& id : split_list(values["only"].as<std::string>())) {
    const auto found = std::find_if(all.begin(), all.end(), [&](const PaperClaim& c) { return c.id == id; });
    if (found == all.end()) {
      throw InputError({"", 0, "only"}, unknown_name("claim", id, names));
    }
    if (std::any_of(out.begin(), out.end(), [&](const PaperClaim& c) { return c.id == id; })) {
      throw InputError({"", 0, "only"}, fmt::format("{} is there twice; name each claim once.", id));
    }
    out.push_back(*found);
  }
  if (out.empty()) {
    throw InputError({"", 0, "only"}, "it names no claim; give ids, as in --only C09,C17.");
  }
  return out;
}

GatherOptions study_options(const PaperStudy& paper, const po::variables_map& values, bool quick) {
  GatherOptions out;
  out.seeds = values.count("seeds") > 0 ? values["seeds"].as<int>() : quick ? 1 : paper.seeds;
  if (out.seeds < 1 || out.seeds > 100) {
    throw InputError({"", 0, "seeds"}, fmt::format("{} seeds; 1 to 100 are allowed.", out.seeds));
  }
  out.goodput = quick ? paper.quick_goodput : paper.goodput;
  out.overrides = quick ? paper.quick_set : std::vector<std::string>{};  // the caller's own come later and win
  const std::vector<std::string> own = assignments_of(values);
  out.overrides.insert(out.overrides.end(), own.begin(), own.end());
  return out;
}

bool searches_any(const PaperNeeds& needs) {
  return std::any_of(needs.begin(), needs.end(), [](const auto& setup) {
    return std::any_of(setup.second.begin(), setup.second.end(),
                       [](const auto& policy) { return policy.second[static_cast<std::size_t>(PaperJob::kGoodput)]; });
  });
}

std::string setting_of(const GatherOptions& options, const PaperNeeds& needs, bool quick) {
  std::string out = fmt::format("{} seed{}", options.seeds, options.seeds == 1 ? "" : "s");
  if (searches_any(needs)) {
    out += fmt::format(", knee at k = {:g}", options.goodput.k);
  }
  for (const std::string& assignment : options.overrides) {
    out += ", " + assignment;
  }
  return out + (quick ? " (quick)" : "");
}

// Every file that the setups and the overrides name. Refuses overrides that a setup cannot be read with, before a folder is
// made.
std::vector<InputFile> inputs_of(const PaperStudy& paper, const PaperNeeds& needs, const GatherOptions& options) {
  std::vector<fs::path> files;
  const auto add = [&](const fs::path& file) {
    if (std::find(files.begin(), files.end(), file) == files.end()) {
      files.push_back(file);
    }
  };
  for (const PaperSetup& setup : paper.setups) {
    add(setup.scenario);
    for (const fs::path& file : Config::from_file(setup.scenario).files()) {
      add(file);
    }
  }
  for (const auto& [setup, unused] : needs) {
    for (const fs::path& file : scenario_of(paper, setup, options, {}, {}, true).input_files) {
      add(file);
    }
  }
  std::vector<InputFile> out;
  std::transform(files.begin(), files.end(), std::back_inserter(out), describe_file);
  return out;
}

nlohmann::ordered_json sets_of(const PaperStudy& paper) {
  nlohmann::ordered_json out{{"all", paper.set},
                             {"below_knee_share", paper.below_knee_share},
                             {"below_knee", paper.below_knee},
                             {"saturated_rate", paper.saturated_rate}};
  for (const PaperSetup& setup : paper.setups) {
    out["setups"][setup.name] = setup.set;
  }
  for (const InputChange& change : paper.changes) {
    out["changes"].push_back({change.set, change.set_of});
  }
  return out;
}

// What finished searches depend on; which claims are asked for is not part of it.
std::string manifest_of(const PaperStudy& paper, const GatherOptions& options, const std::vector<InputFile>& inputs) {
  nlohmann::ordered_json out = manifest_head(kReproduceFormat);
  out["paper"] = paper.name;
  out["seeds"] = options.seeds;
  out["set"] = sets_of(paper);
  out["overrides"] = options.overrides;
  out["goodput"] = goodput_options_json(options.goodput);
  out["inputs"] = nlohmann::ordered_json::array();
  for (const InputFile& file : inputs) {
    out["inputs"].push_back({{"file_name", file.name}, {"content_hash", file.hash}});
  }
  return document_text(out);
}

// Ids of the claims that a folder's result holds and `claims` do not; of a result that cannot be read, those that can.
std::vector<std::string> claims_lost(const fs::path& folder, const std::vector<PaperClaim>& claims) {
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
    const bool asked = std::any_of(claims.begin(), claims.end(), [&](const PaperClaim& c) { return c.id == id; });
    if (!asked && std::find(out.begin(), out.end(), id) == out.end()) {
      out.push_back(id);
    }
  }
  return out;
}

// A result is not to shrink to the claims asked for now.
void check_keeps_claims(const fs::path& folder, const std::vector<PaperClaim>& claims) {
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
void check_tells_something(const std::vector<PaperClaim>& claims, const PaperNeeds& needs, bool quick) {
  if (needs.empty()) {
    const bool figures =
        std::any_of(claims.begin(), claims.end(), [](const PaperClaim& c) { return !c.figures.empty(); });
    throw InputError({"", 0, "only"}, quick && figures
                                          ? "--quick leaves out the setups that these claims need; run without it."
                                          : "nothing is run for these claims; without --only the table says what "
                                            "holds them.");
  }
}

std::string what_must_hold(const std::vector<ClaimRow>& rows) {
  const auto must = std::count_if(rows.begin(), rows.end(), [](const ClaimRow& row) { return row.must_hold; });
  const auto held = std::count_if(rows.begin(), rows.end(), [](const ClaimRow& row) {
    return row.must_hold && row.verdict() == Verdict::kReproduced;
  });
  return fmt::format("{} of the {} figures that must hold are within their tolerance.\n", held, must);
}

// The figures of all claims; those without any go to `info`.
std::vector<ClaimRow> all_rows(const std::vector<PaperClaim>& claims, const PaperEvidence& evidence,
                               const GatherOptions& options, const PaperScope& scope, ClaimsInfo& info) {
  std::vector<ClaimRow> out;
  for (const PaperClaim& claim : claims) {
    if (claim.figures.empty()) {
      info.elsewhere.push_back({claim.id, claim.statement, claim.where, claim.held_by, claim.open});
      continue;
    }
    std::vector<ClaimRow> more = rows_of(claim, evidence, options, scope);
    for (ClaimRow& row : more) {  // few requests and one seed decide nothing that needs prices
      row.must_hold = row.must_hold && !(scope.setups && row.needs_prices());
    }
    out.insert(out.end(), more.begin(), more.end());
    if (more.empty()) {
      info.not_run.push_back(claim.id);
    }
  }
  return out;
}

void tell(const fs::path& folder, const std::vector<ClaimRow>& rows, const ClaimsInfo& info) {
  const fs::path page = folder / "report.html";
  write_file_atomically(page, report_of(folder, EPSIM_VERSION));
  std::cout << fmt::format("{}, re-run: {}\n\n", info.study, info.setting) << claims_table(rows, true)
            << what_must_hold(rows) << elsewhere_text(info.elsewhere);
  if (!info.not_run.empty()) {
    std::cout << fmt::format("not run with --quick: {}\n", fmt::join(info.not_run, ", "));
  }
  std::cout << fmt::format("\nresults: {}\nreport:  {} (open it in a browser; it needs no network)\n", folder.string(),
                           page.string());
}

int reproduce(const po::variables_map& values) {
  const PaperStudy paper = read_paper_study(claims_file(values));
  interrupted();  // from here on, Ctrl-C is ours
  const JsonOutput json(values);
  const bool quick = values["quick"].as<bool>();
  const PaperScope scope{quick ? std::optional(paper.quick_setups) : std::nullopt};
  const std::vector<PaperClaim> claims = chosen_claims(paper, values);
  const GatherOptions options = study_options(paper, values, quick);
  const PaperNeeds needs = needs_of(paper, claims, scope);
  check_tells_something(claims, needs, quick);
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, workers_of(values));
  const std::vector<InputFile> inputs = inputs_of(paper, needs, options);
  const fs::path target = named_folder(values).value_or(fs::path("out") / paper.name);
  const JobStore store(target, kReproduceStore, manifest_of(paper, options, inputs), values["overwrite"].as<bool>());
  check_keeps_claims(store.path(), claims);
  const bool quiet = values["quiet"].as<bool>();
  PlanCache plans;
  PaperEvidence evidence;
  std::vector<ClaimMovement> movements;
  try {
    evidence = gather(paper, needs, options, control_of(store, plans, quiet));
    if (values["sensitivity"].as<bool>()) {
      movements = movements_of(paper, claims, options, control_of(store, plans, quiet));
    }
  } catch (const StudyInterrupted&) {
    std::cout << "interrupted: finished searches are kept, and the same command goes on from there\n";
    return kInterrupted;
  }
  ClaimsInfo info{EPSIM_VERSION, paper.title, setting_of(options, needs, quick), {}};
  std::vector<ClaimRow> rows = all_rows(claims, evidence, options, scope, info);
  add_movements(rows, movements);
  write_paper_folder(store.path(), rows, info, paper, evidence, options, movements);
  tell(store.path(), rows, info);
  json.print(read_file(store.path() / "claims.json"));
  return all_hold(rows) ? 0 : 1;
}

}  // namespace

int reproduce_verb(const std::vector<std::string>& words) {
  po::options_description options("options");
  options.add_options()("only", po::value<std::string>(), "claims to check, separated by commas, as in C09,C17")(
      "quick", po::bool_switch(), "the setups, and the fewer requests, that the file names for it; one seed")(
      "sensitivity", po::bool_switch(),
      "also change one input at a time, as the file says, and tell which two move each figure most")(
      "seeds", po::value<int>(), "seeds of requests and routing; default: the file's")(
      "set", po::value<std::vector<std::string>>(), "override a key of every setup, as in --set dispatch.dedup=node");
  add_output_options(options);
  add_json_option(options, "the claims with value, tolerance and verdict, as claims.json");
  const auto values = parse_words(words,
                                  "epsim reproduce PAPER|FILE.yaml [options]\n\n"
                                  "Re-runs the evaluation of a paper in simulation and holds its claims against the "
                                  "result, each with its tolerance.\n"
                                  "PAPER is a folder of experiments/ that has a claims.yaml; its README.md says what "
                                  "is assumed. docs/your-paper.md\n"
                                  "tells how to write a study of your own. Ends with 1 when a claim that must hold is "
                                  "missed. Each finished search\n"
                                  "is kept at once: after a kill the same command goes on where it stopped.\n",
                                  options, {"paper"});
  return values ? reproduce(*values) : 0;
}

}  // namespace epsim::app
