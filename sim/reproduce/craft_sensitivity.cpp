#include "sim/reproduce/craft_sensitivity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "sim/core/check.h"
#include "sim/report/csv_table.h"

namespace epsim {
namespace {

constexpr std::string_view kSensitivitySetups[] = {"de8", "dl8", "ke6", "ke8", "ke12"};
constexpr std::size_t kTold = 2;  // movements told beside a verdict

using Overrides = std::vector<std::string>;

// Every node at these shares of its speed, from the start on.
Overrides all_nodes_at(const CraftSetup& setup, const char* speeds) {
  std::string list;
  for (int node = 0; node < setup.nodes(); ++node) {
    list += fmt::format("{}{{at: 0s, node: {}, {}}}", node > 0 ? ", " : "", node, speeds);
  }
  return {"faults=[" + list + "]"};
}
Overrides slower_links(const CraftSetup& setup) { return all_nodes_at(setup, "link_speed: 0.8"); }
Overrides slower_kernels(const CraftSetup& setup) { return all_nodes_at(setup, "speed: 0.9"); }

// Another made-up preset of the same class.
Overrides other_preset(const CraftSetup& setup) {
  const std::string_view other = setup.name[1] == 'e'   ? "j"
                                 : setup.name[1] == 'j' ? "e"
                                 : setup.name[1] == 'l' ? "a"
                                                        : "l";
  const std::string preset = fmt::format("{}-{}", setup.kimi() ? "kimi-k2" : "deepseek-r1", other);
  return {"loads.preset=" + preset, "plan_loads.preset=" + preset};
}
Overrides shorter_answers(const CraftSetup&) { return {"requests.output_tokens=192"}; }
Overrides busiest_link(const CraftSetup&) { return {"network.model=two_tier"}; }
// Fair sharing does not know how rows fan out inside a node.
Overrides once_per_node(const CraftSetup&) { return {"dispatch.dedup=node", "network.model=two_tier"}; }
Overrides smaller_chunks(const CraftSetup&) { return {"serving.chunked_prefill_size=512"}; }
Overrides gaps_between_steps(const CraftSetup&) { return {"serving.step_gap=5ms"}; }
Overrides unchanged(const CraftSetup&) { return {}; }

CraftMemory other_memory(CraftMemory now) {
  return now == CraftMemory::kPaper ? CraftMemory::kOneRule : CraftMemory::kPaper;
}

constexpr CraftInput kInputs[] = {
    {"speed of the links", "20 % less", "no all-to-all on p4de is public: p5's efficiency is carried over",
     slower_links},
    {"speed of kernels", "10 % less", "A100 operators outside the fits' data, see epsim calibrate show a100",
     slower_kernels},
    {"memory preset", "the other one", "the fraction was set by hand and is not in the paper", unchanged, other_memory},
    {"load presets", "others of the same class", "what the paper does not say of its loads is made up", other_preset},
    {"length of answers", "192 for 256", "how far a stated figure carries", shorter_answers},
    {"sends that share NICs", "the busiest link alone", "NCCL serves its peers by turns, between the two",
     busiest_link},
    {"sends per token", "once per node, by the busiest link", "the paper does not say how tokens are dispatched",
     once_per_node},
    {"chunk of a rank", "512 for 4096", "SGLang divides the figure by the ranks, 8 of them in most setups",
     smaller_chunks},
    {"host between steps", "5 ms for none", "SGLang overlaps its scheduler, how well is not known", gaps_between_steps},
    {"k of the knee", "2.5 for 5", "the paper does not define its knee", unchanged, nullptr, 2.5},
    {"k of the knee", "16 for 5", "the paper does not define its knee", unchanged, nullptr, 16},
};

constexpr CraftInput kPlain{"nothing", "changed", "", unchanged};

CraftEvidence gather_under(const CraftInput& input, const std::string& prefix, const std::vector<CraftNeed>& needs,
                           CraftStudyOptions options, const GatherControl& control) {
  options.overrides_of = input.overrides;
  options.memory = input.memory != nullptr ? input.memory(options.memory) : options.memory;
  GatherControl own = control;
  if (control.on_setup) {
    own.on_setup = [&](const std::string& setup, std::size_t all) {
      control.on_setup(fmt::format("{} with {} {}", setup, input.name, input.change), all);
    };
  }
  own.key_prefix = prefix;
  return gather_craft_evidence(needs, options, own);
}

// The same searches read at another k.
CraftEvidence at_k(CraftEvidence evidence, double k) {
  for (auto& [name, setup] : evidence) {
    for (auto& [policy, found] : setup.policies) {
      for (GoodputSearch& search : found.searches) {
        const auto at = std::find_if(search.sensitivity.begin(), search.sensitivity.end(),
                                     [&](const Knee& knee) { return knee.k == k; });
        EPSIM_CHECK(at != search.sensitivity.end(), "searches report the knee at every k that is asked for");
        search.knee = *at;
      }
    }
  }
  return evidence;
}

std::vector<ClaimRow> priced_rows(const std::vector<CraftClaim>& claims, const CraftEvidence& evidence,
                                  const CraftScope& scope) {
  std::vector<ClaimRow> out;
  for (const CraftClaim& claim : claims) {
    for (ClaimRow& row : claim.rows(evidence, scope)) {
      if (row.kind == ClaimKind::kCalibrated) {
        out.push_back(std::move(row));
      }
    }
  }
  return out;
}

}  // namespace

std::span<const CraftInput> craft_inputs() { return kInputs; }

std::vector<ClaimMovement> craft_movements(const std::vector<CraftClaim>& claims, const CraftStudyOptions& options,
                                           const GatherControl& control) {
  const CraftScope scope{.quick = false, .only = kSensitivitySetups};
  std::vector<CraftClaim> told;
  std::vector<CraftNeed> needs;
  for (const CraftClaim& claim : claims) {
    // Those that sweep R would take as long as all the others; those that need plans alone have no prices.
    const std::vector<CraftNeed> more =
        claim.id == "C02" || claim.id == "C27" ? std::vector<CraftNeed>{} : claim.needs(scope);
    const bool priced =
        std::any_of(more.begin(), more.end(), [](const CraftNeed& need) { return need.searched || need.saturated; });
    if (priced) {
      told.push_back(claim);
      needs.insert(needs.end(), more.begin(), more.end());
    }
  }
  if (told.empty()) {
    return {};
  }
  CraftStudyOptions first_seed = options;
  first_seed.seeds = 1;
  const CraftEvidence before = gather_under(kPlain, "", needs, first_seed, control);
  const std::vector<ClaimRow> plain = priced_rows(told, before, scope);
  std::vector<ClaimMovement> out;
  for (std::size_t i = 0; i < std::size(kInputs); ++i) {
    const CraftInput& input = kInputs[i];
    const CraftEvidence after =
        input.k ? at_k(before, *input.k)
                : gather_under(input, fmt::format("sensitivity-{}-", i), needs, first_seed, control);
    const std::vector<ClaimRow> moved = priced_rows(told, after, scope);
    EPSIM_CHECK(moved.size() == plain.size(), "the same claims give the same figures");
    for (std::size_t r = 0; r < plain.size(); ++r) {
      out.push_back({plain[r].id, plain[r].what, std::string(input.name), std::string(input.change), plain[r].value,
                     moved[r].value});
    }
  }
  std::stable_sort(out.begin(), out.end(), [](const ClaimMovement& a, const ClaimMovement& b) {
    return std::tie(a.claim, a.statement) < std::tie(b.claim, b.statement);
  });
  return out;
}

void add_movements(std::vector<ClaimRow>& rows, std::span<const ClaimMovement> movements) {
  const auto size = [](const ClaimMovement& m) { return std::abs(m.after - m.before); };
  for (ClaimRow& row : rows) {
    std::vector<ClaimMovement> mine;
    std::copy_if(movements.begin(), movements.end(), std::back_inserter(mine), [&](const ClaimMovement& m) {
      return m.claim == row.id && m.statement == row.what && std::isfinite(size(m)) && m.after != m.before;
    });
    std::stable_sort(mine.begin(), mine.end(),
                     [&](const ClaimMovement& a, const ClaimMovement& b) { return size(a) > size(b); });
    for (const ClaimMovement& m : mine) {
      const bool told = std::any_of(row.moved_by.begin(), row.moved_by.end(),
                                    [&](const InputMovement& known) { return known.input == m.input; });
      if (!told && row.moved_by.size() < kTold) {  // an input that is changed both ways is told once
        row.moved_by.push_back({m.input, m.change, m.before, m.after});
      }
    }
  }
}

void write_sensitivity_csv(std::ostream& out, std::span<const ClaimMovement> movements) {
  CsvTable csv(out, {"claim", "statement", "input", "input_change", "value_before", "value_after"});
  for (const ClaimMovement& m : movements) {
    csv.text(m.claim).text(m.statement).text(m.input).text(m.change).number(m.before).number(m.after).end_row();
  }
}

}  // namespace epsim
