#include "sim/study/capacity_chain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/core/check.h"
#include "sim/core/text.h"
#include "sim/scenario/scenario.h"
#include "sim/study/capacity_scenario.h"
#include "sim/study/job_runner.h"

namespace epsim {
namespace {

constexpr double kUsualShare = 0.35;  // of the peak rate, where a search without a best begins
// What a design must be better by to take the place of another of as many nodes: the logarithm of a latency's ratio to its
// bound, as the p99 of some hundred requests moves by as much from seed to seed, and a share of the time in steps, as
// runs differ in length.
constexpr double kClearly = 0.05, kLessBusy = 0.01;
constexpr double kSlack =
    -1;  // the least strain to guess from: far from its bounds a latency hardly depends on the rate
constexpr double kWider = 1.6, kWidest = 4;  // from one number of instances to the next while none holds

// The policy that stands for perfect balance, above any of a layout's own.
std::string perfect_balance() {
  for (const PlacementPolicyEntry& entry : ceilings()) {
    if (entry.ceiling == Ceiling::kPerfectBalance) {
      return std::string(entry.name);
    }
  }
  EPSIM_CHECK(false, "there is a ceiling of perfect balance");
}

// CapacityRow::room of a design whose run is refused.
std::optional<double> kv_room(const CapacityAnswer& refused) {
  return refused.refused.empty() || refused.kv_tokens == 0 ? std::nullopt
                                                           : std::optional(static_cast<double>(refused.kv_tokens));
}

}  // namespace

bool go_together(const CapacityDesign& a, const CapacityDesign& b) {
  return a.engine == b.engine && a.dtype == b.dtype && a.settings == b.settings;
}

int CapacityChain::paid(const CapacityPool& pool) const { return pool.nodes(question_.spare); }

const CapacityPool* CapacityChain::feeder_of(const CapacityDesign& design) const {
  const CapacityPool* out = nullptr;
  for (const CapacityPool& feeder : feeders_) {
    const bool feeds = feeder.design.policy == design.policy || design.policy == perfect_balance();
    if (feeds && go_together(feeder.design, design) && (out == nullptr || paid(feeder) < paid(*out))) {
      out = &feeder;
    }
  }
  return out;
}

int CapacityChain::offset_of(const CapacityDesign& design) const {
  const CapacityPool* feeder = feeder_of(design);
  return feeder == nullptr ? 0 : paid(*feeder);
}

int CapacityChain::nodes_of(const CapacityPool& pool) const { return paid(pool) + offset_of(pool.design); }

CapacityChain::Room CapacityChain::room_of(const CapacityDesign& design, bool as_many) const {
  as_many = as_many && (by_power(design.role) || !compared_by(design.role).terms.empty());
  const int nodes = out_.best ? nodes_of(*out_.best) - (as_many ? 0 : 1) : limit_.nodes;
  return {(nodes - offset_of(design)) / design.nodes * design.per_node - question_.spare,
          !out_.best ? limit_.words
          : as_many  ? "as many nodes as the best"
                     : "fewer nodes than the best",
          as_many};
}

// Without a best, or where designs are not compared, both are the same room, which is not `as_many`.
std::vector<CapacityChain::Room> CapacityChain::rooms_of(const CapacityRow& row) const {
  std::vector<Room> out;
  for (const bool as_many : {false, true}) {
    const Room room = room_of(row.design, as_many);
    if (row.bound <= room.instances && (out.empty() || room.instances > out.back().instances)) {
      out.push_back(room);
    }
  }
  return out;
}

std::vector<CapacityPool> CapacityChain::pools_for(const CapacityDesign& design, int instances) const {
  if (design.role == InstanceRole::kWhole) {
    return {{design, 1}};
  }
  if (design.role == InstanceRole::kPrefill) {  // two tokens an answer are no load for a decode instance
    CapacityDesign decode = design;
    decode.role = InstanceRole::kDecode;
    return {{design, 1}, {decode, 1}};
  }
  CapacityPool feeder = *feeder_of(design);
  feeder.design.policy = design.policy;
  feeder.instances = (feeder.instances + instances - 1) / instances;
  return {feeder, {design, 1}};
}

std::vector<CapacityPool> CapacityChain::deployment_of(const CapacityDesign& design, int instances) const {
  std::vector<CapacityPool> out;
  if (const CapacityPool* feeder = feeder_of(design)) {
    out.push_back(*feeder);
  }
  out.push_back({design, instances});
  return out;
}

CapacityAnswer CapacityChain::ask_share(const CapacityRow& row, int instances) {
  return runs_.ask(pools_for(row.design, instances), instances, row.alone,
                   row.design.role == InstanceRole::kPrefill ? AskedFor::kPrompts : AskedFor::kInstance);
}

CapacityAnswer CapacityChain::ask(const CapacityRow& row, int instances) {
  const std::vector<CapacityPool> pools = deployment_of(row.design, instances);
  if (const CapacityAnswer* whole = runs_.whole(pools)) {
    return *whole;
  }
  if (const CapacityAnswer* failure = failures_.find(pools)) {
    return *failure;
  }
  CapacityAnswer out = ask_share(row, instances);
  if (row.design.role != InstanceRole::kPrefill && row.design.policy != perfect_balance() &&
      misses_narrowly(out, question_.options.slo)) {
    out_.close.push_back({pools, question_.spare, row.alone, out, {}, {}});
  }
  return out;
}

std::string CapacityChain::failure(const CapacityRow& row, const std::string& where) const {
  const LoadPoint& p = row.answer->point;
  const std::string load = question_.in_flight > 0 && row.design.role != InstanceRole::kPrefill
                               ? fmt::format("with {:.4g} requests in flight each", question_.in_flight / row.instances)
                               : fmt::format("at {:.4g} requests/s each", p.offered / row.answer->instances);
  const std::string beside = count_of(row.instances, "instance") + (out_.best ? ", " + where + ", " : std::string(" "));
  const bool one = row.instances == 1;
  if (!row.answer->refused.empty()) {
    return row.answer->refused;
  }
  const double tokens = row.answer->input_tokens + row.answer->output_tokens;
  const double room = static_cast<double>(row.answer->kv_tokens) / tokens;
  const std::string admits = p.concurrency / row.answer->instances > 0.8 * room
                                 ? fmt::format("; its KV pool admits {:.0f} requests", std::floor(room))
                                 : "";
  if (p.slo.excess <= 0) {
    return fmt::format("{}{} overloaded {}{}", beside, one ? "is" : "are", load, admits);
  }
  const SloTerm& term = question_.options.slo.terms[static_cast<std::size_t>(p.slo.limit)];
  const double is = statistic_of(p, term);
  const bool grows = !p.stable || !p.enough_requests;  // the run ended before that was over
  return fmt::format("{}{} not hold {} {}: {} over {} requests{}", beside, one ? "does" : "do", name_of(term), load,
                     std::isfinite(is) ? fmt::format("{}{:.4g} ms", grows ? "more than " : "", 1e3 * is)
                                       : fmt::format("{:.3g} % keep all bounds", 100 * p.slo.attainment),
                     p.measured_requests, admits);
}

// Of prefill instances the bounds on TTFT, of decode ones the others: what another pool does is not theirs. None where a
// bound is each request's, as a share of late requests says little of how far the others are.
Slo CapacityChain::compared_by(InstanceRole role) const {
  Slo out = question_.options.slo;
  const auto each = [](const SloTerm& term) { return term.stat == LatencyStat::kEach; };
  const auto foreign = [&](const SloTerm& term) {
    return role != InstanceRole::kWhole && (term.metric == LatencyMetric::kTtft) == (role == InstanceRole::kDecode);
  };
  if (std::any_of(out.terms.begin(), out.terms.end(), each)) {
    out.terms.clear();
  } else if (!std::all_of(out.terms.begin(), out.terms.end(), foreign)) {
    std::erase_if(out.terms, foreign);
  }
  return out;
}

// Apart, pools of unlike sizes are asked beside unlike shares of the other, whose power is in theirs.
bool CapacityChain::by_power(InstanceRole role) const { return question_.power_counts && role == InstanceRole::kWhole; }

bool CapacityChain::draws_alike(const CapacityAnswer& share) const {
  return std::abs(share.busy - best_share_.busy) <= kLessBusy * best_share_.busy;
}

bool CapacityChain::beats_best(const CapacityRow& row, double by) {
  const CapacityAnswer answer = ask_share(row, row.instances);
  if (by_power(row.design.role) && !draws_alike(answer)) {
    return answer.busy < best_share_.busy;
  }
  const Slo slo = compared_by(row.design.role);
  return strain_of(answer.point, slo) < strain_of(best_share_.point, slo) - by;
}

// Why a row that holds is not the best.
std::string CapacityChain::beaten_words(const CapacityRow& row, const CapacityRow& best) {
  const int nodes = nodes_of({row.design, row.instances}), of_best = nodes_of({best.design, best.instances});
  const std::string held = "holds on " + count_of(nodes, "node"), name = name_of(best.design);
  if (nodes > of_best) {
    return fmt::format("{}; {} needs {}", held, name, of_best);
  }
  const CapacityAnswer share = ask_share(row, row.instances);
  if (by_power(row.design.role) && !draws_alike(share)) {
    return fmt::format("{}, in steps {:.1f} % of the time; {} is for {:.1f} % and draws less", held, 100 * share.busy,
                       name, 100 * best_share_.busy);
  }
  if (compared_by(row.design.role).terms.empty()) {
    return fmt::format("{}, as {} does, which draws no more", held, name);
  }
  const auto to_bounds = [&](const CapacityAnswer& answer) {
    return 100 * std::exp(strain_of(answer.point, compared_by(row.design.role)));
  };
  return fmt::format("{}, as {} does, at {:.0f} % of the bounds; that is at {:.0f} %", held, name, to_bounds(share),
                     to_bounds(best_share_));
}

// A node that instances share is rented as a whole: as many run as there is room for.
void CapacityChain::fill_nodes(CapacityRow& row) {
  const int all = paid({row.design, row.instances}) * row.design.per_node - question_.spare;
  if (row.design.per_node > 1 && all > row.instances) {
    CapacityAnswer answer = ask(row, all);
    if (answer.holds()) {
      row.answer = std::move(answer);
      row.instances = all;
    }
  }
}

void CapacityChain::set_best(CapacityRow row) {
  fill_nodes(row);
  if (best_row_) {
    CapacityRow& before = out_.rows[*best_row_];
    before.status = CapacityStatus::kHolds;
    before.reason.clear();  // told at the end of the search, when the best is known
  }
  out_.best = CapacityPool{row.design, row.instances};
  out_.answer = *row.answer;
  best_share_ = ask_share(row, row.instances);
  out_.alone = row.alone;
  row.status = CapacityStatus::kBest;
  row.reason.clear();
  best_row_ = out_.rows.size();
  const std::vector<CapacityPool> pools = deployment_of(row.design, row.instances);
  settle(std::move(row));
  if (pools.back().design.role == InstanceRole::kWhole) {  // of others the caller has the last word
    runs_.found(pools);
  }
}

// The fewest instances from `low` on that hold, where `row` says that row.instances do. `failed`: a number below `low`
// that fails, and its strain; 0 instances where none is known.
void CapacityChain::descend(CapacityRow row, int low, KnownFailure failed) {
  int high = row.instances;
  while (low < high) {
    int middle = low + (high - low) / 2;
    const double above = std::max(kSlack, strain_of(row.answer->point, question_.options.slo));
    if (failed.instances > 0 && failed.strain > 0 && above < 0) {
      const double span = std::log(1.0 * high / failed.instances);
      const double guess = failed.instances * std::exp(span * failed.strain / (failed.strain - above));
      middle = std::clamp(static_cast<int>(std::lround(guess)), low, high - 1);
    }
    CapacityAnswer answer = ask(row, middle);
    if (answer.holds()) {
      high = middle;
      row.answer = std::move(answer);
      row.instances = middle;
    } else {
      low = middle + 1;
      failed = {middle, answer.refused.empty() ? strain_of(answer.point, question_.options.slo) : 0};
    }
  }
  set_best(std::move(row));
}

// Where nothing holds yet: wider and wider steps up to the most nodes.
void CapacityChain::first_best(CapacityRow row) {
  const Room room = room_of(row.design, false);
  const int most = room.instances;
  if (row.bound > most) {
    reject_by_bound(std::move(row), room);
    return;
  }
  int low = row.bound;
  KnownFailure failed;
  int count = std::min(most, static_cast<int>(std::ceil(row.bound / kUsualShare)));
  for (;;) {
    row.answer = ask(row, count);
    row.instances = count;
    if (!row.answer->refused.empty() || row.answer->point.slo.holds || count >= most) {
      break;
    }
    low = count + 1;
    failed = {count, strain_of(row.answer->point, question_.options.slo)};
    const double wider = std::clamp(std::exp(failed.strain), kWider, kWidest);
    count = std::min(most, std::max(count + 1, static_cast<int>(std::ceil(count * wider))));
  }
  if (row.answer->holds()) {
    descend(std::move(row), low, failed);
    return;
  }
  row.status = row.answer->refused.empty() ? CapacityStatus::kFails : CapacityStatus::kDoesNotFit;
  row.room = kv_room(*row.answer);
  row.reason = failure(row, room.words);
  settle(std::move(row));
}

void CapacityChain::settle(CapacityRow row) {
  runs_.settled(row.design);
  out_.rows.push_back(std::move(row));
}

void CapacityChain::reject_by_bound(CapacityRow row, const Room& room) {
  row.status = CapacityStatus::kBound;
  row.reason = fmt::format("needs at least {} by {}; {} leave room for {}", count_of(row.bound, "instance"), row.reason,
                           room.words, std::max(0, room.instances));
  settle(std::move(row));
}

void CapacityChain::try_policy(CapacityRow row) {
  const std::vector<Room> rooms = rooms_of(row);
  if (rooms.empty()) {
    const Room most = room_of(row.design, true);
    reject_by_bound(std::move(row), most);
    return;
  }
  row.reason.clear();  // that of its bound
  for (const Room& room : rooms) {
    row.answer = ask(row, room.instances);
    row.instances = room.instances;
    const bool fits = row.answer->refused.empty();
    if (fits && row.answer->point.slo.holds && !room.as_many) {
      const int low = row.bound;
      descend(std::move(row), low, {});
      return;
    }
    if (fits && row.answer->point.slo.holds) {
      if (beats_best(row, kClearly)) {
        set_best(std::move(row));
        return;
      }
      row.status = CapacityStatus::kHolds;  // its reason, if any: why not with fewer
    } else {
      row.status = fits ? CapacityStatus::kFails : CapacityStatus::kDoesNotFit;
      row.room = kv_room(*row.answer);
      row.reason = failure(row, room.words);
    }
  }
  settle(std::move(row));
}

// In perfect balance: what no policy of the layout can beat. What places no experts has one policy.
CapacityRow CapacityChain::layout_row(const CapacityDesign& layout) {
  CapacityRow row{.design = layout};
  row.design.policy = question_.dense           ? question_.policies.front()
                      : layout.places_experts() ? perfect_balance()
                                                : std::string(experts_in_order().name);
  try {
    row.bound = runs_.bound({row.design, 1});
  } catch (const InputError& e) {
    if (const auto* misfit = dynamic_cast<const DoesNotFit*>(&e)) {
      row.room = to_gib(misfit->have - misfit->need);
    }
    row.status = CapacityStatus::kDoesNotFit;
    row.reason = refusal(e);
    return row;
  }
  row.reason = "the peak rate of their GPUs";
  const CapacityAnswer alone = runs_.alone(pools_for(row.design, limit_.nodes), layout.role == InstanceRole::kPrefill);
  if (!alone.refused.empty()) {
    row.status = CapacityStatus::kDoesNotFit;
    row.reason = alone.refused;
    row.room = kv_room(alone);
    return row;
  }
  if (!alone.point.slo.holds) {
    row.status = CapacityStatus::kAlone;
    row.answer = alone;
    row.reason =
        fmt::format("a request that is alone takes {:.3g} times what {} allows", std::exp(alone.point.slo.excess),
                    name_of(question_.options.slo.terms[static_cast<std::size_t>(alone.point.slo.limit)]));
    return row;
  }
  row.alone = alone;
  const double room = static_cast<double>(alone.kv_tokens);
  if (const int by_room = static_cast<int>(std::ceil(question_.rate * alone.held_token_s / room));
      by_room > row.bound) {
    row.bound = by_room;
    row.reason = fmt::format("their KV room of {:.4g} tokens each, of which requests hold {:.4g} at least", room,
                             question_.rate * alone.held_token_s);
  }
  row.status = CapacityStatus::kHolds;
  return row;
}

void CapacityChain::try_layout(const CapacityRow& layout, const std::vector<std::string>& policies) {
  std::size_t next = 0;
  const auto of_policy = [&](const std::string& policy) {
    CapacityRow row = layout;
    row.design.policy = policy;
    return row;
  };
  if (layout.status != CapacityStatus::kHolds) {
    for (const std::string& policy : policies) {
      settle(of_policy(policy));
    }
    return;
  }
  if (!out_.best) {
    first_best(of_policy(policies[next++]));
  }
  // With a best, or where not even the most nodes were enough.
  const std::optional<CapacityRow> beaten = policies.size() - next > 1 ? beaten_ceiling(layout) : std::nullopt;
  for (; next < policies.size(); ++next) {
    if (beaten) {
      CapacityRow row = *beaten;
      row.design.policy = policies[next];
      settle(std::move(row));
    } else {
      try_policy(of_policy(policies[next]));
    }
  }
}

// The layout's row in perfect balance where not even that is better than the best.
std::optional<CapacityRow> CapacityChain::beaten_ceiling(const CapacityRow& layout) {
  const std::vector<Room> rooms = rooms_of(layout);
  CapacityRow row = layout;
  for (const Room& room : rooms) {
    row.answer = ask(layout, room.instances);
    row.instances = room.instances;
    const bool holds = row.answer->point.slo.holds;
    if (!row.answer->refused.empty() || misses_narrowly(*row.answer, question_.options.slo) ||
        (holds && (!room.as_many || by_power(row.design.role) || beats_best(row, 0)))) {
      return std::nullopt;
    }
    row.reason = "in perfect balance " + (holds ? "it holds on as many nodes as the best, no further from its bounds"
                                                : failure(row, room.words));
  }
  row.status = CapacityStatus::kCeiling;
  return rooms.empty() ? std::nullopt : std::optional(row);
}

std::vector<std::string> CapacityChain::fed(const CapacityDesign& layout, std::vector<std::string> policies) const {
  policies = policies_of(layout, std::move(policies));
  std::erase_if(policies, [&](const std::string& policy) {
    CapacityDesign design = layout;
    design.policy = policy;
    return design.role == InstanceRole::kDecode && feeder_of(design) == nullptr;
  });
  return policies;
}

ChainResult CapacityChain::search(const std::vector<CapacityDesign>& layouts,
                                  const std::vector<std::string>& policies) {
  std::vector<CapacityRow> rows;
  for (const CapacityDesign& layout : layouts) {
    if (!fed(layout, policies).empty()) {
      rows.push_back({.design = layout});
    }
  }
  run_jobs(all_jobs(rows.size()), {}, [&](std::size_t i, const Abandoned&) { rows[i] = layout_row(rows[i].design); });
  // The fewest nodes by the bounds first: a good answer early leaves the others one question each.
  const auto key = [&](const CapacityRow& row) {
    return std::pair(paid({row.design, row.bound}), row.alone.point.e2e_s.mean);
  };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const CapacityRow& a, const CapacityRow& b) { return key(a) < key(b); });
  for (const CapacityRow& row : rows) {
    try_layout(row, fed(row.design, policies));
  }
  for (const CapacityDesign& layout : layouts) {
    for (const std::string& policy : policies_of(layout, policies)) {
      CapacityRow row{.design = layout};
      row.design.policy = policy;
      if (fed(layout, {policy}).empty()) {
        row.status = CapacityStatus::kFails;
        row.reason = "no prefill instances with its settings and policy are left to feed it; their rows say why";
        settle(std::move(row));
      }
    }
  }
  for (CapacityRow& row : out_.rows) {
    if (row.status == CapacityStatus::kHolds) {
      const std::string fewer = row.reason.empty() ? "" : "; " + row.reason;
      row.reason = beaten_words(row, out_.rows[*best_row_]) + fewer;
    }
  }
  std::erase_if(out_.close,
                [&](const CapacityOption& close) { return out_.best && close.nodes() >= nodes_of(*out_.best); });
  return std::move(out_);
}

}  // namespace epsim
