#include "sim/reproduce/reproduction.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/core/files.h"
#include "sim/core/mapped.h"
#include "sim/core/refuse.h"
#include "sim/report/html_report.h"
#include "sim/reproduce/evaluate.h"
#include "sim/reproduce/gather.h"
#include "sim/reproduce/paper_folder.h"
#include "sim/reproduce/sensitivity.h"
#include "sim/study/job_runner.h"
#include "sim/study/study_manifest.h"

namespace epsim {

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

std::vector<PaperClaim> chosen_claims(const PaperStudy& paper, const std::optional<std::vector<std::string>>& only) {
  const std::vector<PaperClaim>& all = paper.claims;
  if (!only) {
    return all;
  }
  const std::vector<std::string> names = mapped(all, &PaperClaim::id);
  std::vector<PaperClaim> out;
  for (const std::string& id : *only) {
    const auto found = std::ranges::find(all, id, &PaperClaim::id);
    refuse_if(found == all.end(), "only", unknown_name("claim", id, names));
    refuse_if(std::any_of(out.begin(), out.end(), [&](const PaperClaim& c) { return c.id == id; }), "only",
              fmt::format("{} is there twice; name each claim once.", id));
    out.push_back(*found);
  }
  refuse_if(out.empty(), "only", "it names no claim; give ids, as in --only C09,C17.");
  return out;
}

GatherOptions study_options(const PaperStudy& paper, const ReproductionRequest& request) {
  GatherOptions out;
  out.seeds = request.seeds.value_or(request.quick ? 1 : paper.seeds);
  refuse_if(out.seeds < 1 || out.seeds > 100, "seeds", fmt::format("{} seeds; 1 to 100 are allowed.", out.seeds));
  out.goodput = request.quick ? paper.quick_goodput : paper.goodput;
  out.overrides = request.quick ? paper.quick_set : std::vector<std::string>{};  // the caller's own come later and win
  out.overrides.insert(out.overrides.end(), request.overrides.begin(), request.overrides.end());
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

// Every file that the setups and the overrides name. Refuses overrides that a setup cannot be read with, before a
// folder is made.
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
  return mapped(files, describe_file);
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
  const std::vector<std::string> lost = claims_lost(folder, claims);
  refuse_if(!lost.empty(), "only",
            fmt::format("{} has a result with {} too, which would be lost. Name another folder with -o, or leave "
                        "--only out: finished searches are not made again.",
                        folder.string(), fmt::join(lost, ", ")));
}

// Nothing that was asked for can be told: a success would say nothing.
void check_tells_something(const PaperStudy& paper, const ReproductionRequest& request,
                           const std::vector<PaperClaim>& claims, const PaperNeeds& needs) {
  refuse_if(
      request.sensitivity && (paper.changes.empty() || paper.sensitivity_setups.empty()), "sensitivity",
      fmt::format(
          "{} changes no input of any setup: its `sensitivity` needs `setups` and `changes` (docs/your-paper.md).",
          paper.name));
  refuse_if(needs.empty() && !request.only, request.quick ? "quick" : "",
            request.quick
                ? fmt::format("{} names no setups for --quick (`quick.setups`) that its claims need; run without it.",
                              paper.name)
                : paper.name + " has no claim with a figure to run.");
  if (needs.empty()) {
    const bool figures =
        std::any_of(claims.begin(), claims.end(), [](const PaperClaim& c) { return !c.figures.empty(); });
    throw InputError({"", 0, "only"}, request.quick && figures
                                          ? "--quick leaves out the setups that these claims need; run without it."
                                          : "nothing is run for these claims; without --only the table says what "
                                            "holds them.");
  }
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

// Calls `on_setup` with how many are done.
GatherControl gather_control(const JobStore& store, PlanCache& plans, const ReproductionControl& control) {
  GatherControl out;
  out.stop = control.stop;
  out.store = &store;
  out.plans = &plans;
  if (control.on_setup) {
    out.on_setup = [on_setup = control.on_setup, done = std::size_t{0}](const std::string& setup,
                                                                        std::size_t all) mutable {
      ++done;
      on_setup(setup, (done - 1) % all + 1, all);
    };
  }
  return out;
}

std::string what_must_hold(const std::vector<ClaimRow>& rows) {
  const auto must = std::count_if(rows.begin(), rows.end(), [](const ClaimRow& row) { return row.must_hold; });
  const auto held = std::count_if(rows.begin(), rows.end(), [](const ClaimRow& row) {
    return row.must_hold && row.verdict() == Verdict::kReproduced;
  });
  return must == 0 ? "None of these figures must hold: a miss does not fail the reproduction.\n"
                   : fmt::format("{} of the {} figures that must hold are within their tolerance.\n", held, must);
}

}  // namespace

fs::path claims_file(const std::string& paper) {
  if (paper.ends_with(".yaml")) {
    return shipped_file(paper);
  }
  fs::path file = shipped_file("experiments/" + paper + "/claims.yaml");
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

Reproduction reproduce(const PaperStudy& paper, const ReproductionRequest& request, const fs::path& folder,
                       const ReproductionControl& control) {
  refuse_if(!control.sharing.shard.whole() && request.sensitivity, "shard",
            "--sensitivity is not split into parts: start the command several times with the same -o instead, and the "
            "processes share the work.");
  const bool quick = request.quick;
  const PaperScope scope{quick ? std::optional(paper.quick_setups) : std::nullopt};
  const std::vector<PaperClaim> claims = chosen_claims(paper, request.only);
  const GatherOptions options = study_options(paper, request);
  const PaperNeeds needs = needs_of(paper, claims, scope);
  check_tells_something(paper, request, claims, needs);
  const std::vector<InputFile> inputs = inputs_of(paper, needs, options);
  const JobStore store(folder, kReproduceStore, manifest_of(paper, options, inputs), request.overwrite,
                       control.sharing);
  check_keeps_claims(store.path(), claims);
  PlanCache plans;
  const PaperEvidence evidence = gather(paper, needs, options, gather_control(store, plans, control));
  std::vector<ClaimMovement> movements;
  if (request.sensitivity) {
    movements = movements_of(paper, claims, options, gather_control(store, plans, control));
  }
  store.finish();
  Reproduction out;
  out.info = {EPSIM_VERSION, paper.title, setting_of(options, needs, quick), {}};
  out.rows = all_rows(claims, evidence, options, scope, out.info);
  add_movements(out.rows, movements);
  write_paper_folder(store.path(), out.rows, out.info, paper, evidence, options, movements);
  write_file_atomically(store.path() / "report.html", report_of(store.path(), EPSIM_VERSION));
  return out;
}

std::string reproduction_text(const Reproduction& done) {
  const ClaimsInfo& info = done.info;
  return fmt::format("{}, re-run: {}\n\n", info.study, info.setting) + claims_table(done.rows, true) +
         what_must_hold(done.rows) + elsewhere_text(info.elsewhere) +
         (info.not_run.empty() ? "" : fmt::format("not run with --quick: {}\n", fmt::join(info.not_run, ", ")));
}

}  // namespace epsim
