#include "traces/routing_model/token_sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/core/check.h"
#include "traces/routing_model/model_load_source.h"
#include "traces/routing_model/quick_sum.h"
#include "traces/routing_model/topics.h"

namespace epsim {

namespace {

constexpr double kMostSigma = 4;  // as RoutingModel allows
constexpr float kLeastRate = 1e-7F;

constexpr float kMostExpertChance = 0.9995F;  // of an expert within an open group
constexpr float kHeavy = 1.5F;                // rate (draws per choice) from which an expert would come again and again

// Kinds decide on most of a token's experts, so topics must act more strongly to show as much in a sequence's loads.
RoutingLaw token_law(const RoutingLaw& law) {
  if (law.model().kind_topics == 1) {
    return law;
  }
  RoutingModel m = law.model();
  for (LayerRouting& layer : m.layers) {
    layer.sigma = std::min(kMostSigma, layer.sigma * m.kind_topics);
  }
  return RoutingLaw(std::move(m));
}

}  // namespace

// Takes up to kMostHeavies experts of at least this weight out of a group's weights.
TokenSampler::Heavies TokenSampler::take_heavies(std::span<float> weights, std::uint16_t first, float least) {
  Heavies out;
  for (std::size_t i = 0; i < weights.size() && out.count < std::min(kMostHeavies, weights.size() - 1); ++i) {
    if (weights[i] >= least) {
      out.weight[out.count] = weights[i];
      out.expert[out.count++] = static_cast<std::uint16_t>(first + i);
      weights[i] = 0;
    }
  }
  return out;
}

TokenSampler::TokenSampler(const RoutingLaw& law, Seed seed)
    : law_(token_law(law)),
      seed_(seed),
      topic_{std::vector<float>(law.factors()), 0},
      padded_chances_(law.stride()),
      chances_(static_cast<std::size_t>(law.experts())),
      rates_(chances_.size()),
      taken_(chances_.size(), 0),
      group_chance_(static_cast<std::size_t>(law.model().expert_groups), 1.0F),
      group_order_(group_chance_.size()),
      open_(static_cast<std::size_t>(law.model().top_groups)),
      open_sums_(open_.size()),
      group_of_(chances_.size()),
      group_size_(chances_.size() / group_chance_.size()),
      kinds_(law),
      weights_(chances_.size()),
      kinds_count_(law.model().kind_share > 0 ? static_cast<std::size_t>(law.model().kinds) : 1),
      cells_(kinds_count_ * chances_.size()),
      light_sums_(kinds_count_ * group_chance_.size()),
      heavies_(light_sums_.size()),
      heavy_weight_(open_.size() * kMostHeavies),
      heavy_expert_(heavy_weight_.size()),
      kind_of_(static_cast<std::size_t>(law.model().stretch_tokens), 0) {
  const RoutingModel& m = law.model();
  const double stretch2 = m.stretch_ratio * m.stretch_ratio;
  topic_.variance = static_cast<float>(1 + m.domain_ratio * m.domain_ratio + stretch2);
  std::iota(group_order_.begin(), group_order_.end(), 0);
  for (std::size_t e = 0; e < group_of_.size(); ++e) {
    group_of_[e] = static_cast<std::uint16_t>(e / group_size_);
  }
}

std::int64_t TokenSampler::length(std::int64_t sequence) const {
  const RoutingModel& m = law_.model();
  const double mu = std::log(m.sequence_tokens) - 0.5 * m.sequence_log_sigma * m.sequence_log_sigma;
  RandomStream random(seed_, "model.length", static_cast<std::uint64_t>(sequence));
  const auto drawn = static_cast<std::int64_t>(std::min(1e12, std::round(random.lognormal(mu, m.sequence_log_sigma))));
  return std::max(std::int64_t{1}, m.longest_sequence > 0 ? std::min(drawn, m.longest_sequence) : drawn);
}

void TokenSampler::set_topic(std::int64_t sequence, std::int64_t stretch) {
  const RoutingModel& m = law_.model();
  const auto s = static_cast<std::uint64_t>(sequence);
  std::fill(topic_.z.begin(), topic_.z.end(), 0.0F);
  // Domains come in opposite pairs: a trace has only a few, and so its mean stays close to the popularity.
  const std::uint64_t domain = s / static_cast<std::uint64_t>(m.domain_sequences);
  add_normal(topic_.z, domain % 2 == 0 ? m.domain_ratio : -m.domain_ratio, seed_, "model.token_domain", domain / 2, 0);
  add_normal(topic_.z, 1.0, seed_, "model.token_sequence", s, 0);
  add_normal(topic_.z, m.stretch_ratio, seed_, "model.token_stretch", s, static_cast<std::uint64_t>(stretch));
}

// The race of the current topic: rates of all experts, given that their group is open.
void TokenSampler::set_chances(int layer) {
  law_.chances(layer, topic_, padded_chances_);
  std::copy_n(padded_chances_.begin(), chances_.size(), chances_.begin());
  if (group_chance_.size() > 1) {
    set_groups();
  }
  for (std::size_t e = 0; e < chances_.size(); ++e) {
    // Any expert can be drawn, if only when the open groups have no other left.
    rates_[e] = std::max(kLeastRate, race_rate(chances_[e] / group_chance_[group_of_[e]]));
  }
  const std::size_t width = rates_.size(), groups = group_chance_.size(), size = group_size_;
  for (std::size_t kind = 0; kind < kinds_count_; ++kind) {
    if (kinds_count_ > 1) {
      kinds_.weights(layer, kind, rates_, weights_);
    } else {
      weights_ = rates_;
    }
    const float heavy = kHeavy * quick_sum(weights_) / quick_sum(rates_);
    for (std::size_t g = 0; g < groups; ++g) {
      const std::span<float> weights = std::span(weights_).subspan(g * size, size);
      const auto first = static_cast<std::uint16_t>(g * size);
      if (groups > 1) {
        heavies_[kind * groups + g] = take_heavies(weights, first, heavy);
      }
      light_sums_[kind * groups + g] =
          builder_.build(weights, first, std::span(cells_).subspan(kind * width + g * size, size));
    }
  }
}

// Chance of each group to be open: in proportion to its load, at most 1, together top_groups.
void TokenSampler::set_groups() {
  std::fill(group_chance_.begin(), group_chance_.end(), 0.0F);
  for (std::size_t e = 0; e < chances_.size(); ++e) {
    group_chance_[group_of_[e]] += chances_[e];
  }
  for (float& q : group_chance_) {
    q = std::max(q, 1e-6F);
  }
  scale_capped(group_chance_, law_.model().top_groups);
  // A group that is open no more often than its hottest expert is taken would have to give it every time, and more.
  for (std::size_t e = 0; e < chances_.size(); ++e) {
    group_chance_[group_of_[e]] =
        std::max(group_chance_[group_of_[e]], std::min(1.0F, chances_[e] / kMostExpertChance));
  }
}

// Systematic sampling in a random order: exactly the stated chances, and exactly top_groups groups while these sum to
// it; lifted ones may sum to a little more, which then is one group more now and then, and cut back to top_groups.
void TokenSampler::draw_groups(RandomStream& random) {
  // Any order gives the same chances; one at random, to a byte's precision, keeps groups from going together.
  std::uint64_t bits = 0;
  for (std::size_t i = group_order_.size(), used = 0; i > 1; --i, ++used) {
    bits = used % 8 == 0 ? random.bits() : bits >> 8;
    std::swap(group_order_[i - 1], group_order_[((bits & 0xffU) * i) >> 8]);
  }
  const std::size_t wanted = open_.size();
  auto reached = static_cast<float>(random.uniform());
  std::size_t open = 0;
  for (std::size_t i = 0; i < group_order_.size() && open < wanted; ++i) {
    reached += group_chance_[group_order_[i]];  // at most 1: crosses one whole number at most
    open_[open] = static_cast<std::uint16_t>(group_order_[i]);
    open += reached >= 1.0F ? 1 : 0;
    reached -= reached >= 1.0F ? 1.0F : 0.0F;
  }
  for (std::size_t i = 0; open < wanted; ++i) {  // rounding lost one
    const auto g = static_cast<std::uint16_t>(group_order_[i]);
    const auto end = open_.begin() + open;
    open_[open] = g;
    open += std::find(open_.begin(), end, g) == end ? 1 : 0;
  }
}

// Experts that the token takes over from the one before it; returns how many. Sixteen random bits decide on each.
int TokenSampler::keep(RandomStream& random, const std::uint16_t* before, std::uint16_t* to) {
  const double chance = law_.model().repeat;
  const bool grouped = group_chance_.size() > 1;
  // With groups, the open ones are taken over first, with chance sqrt(repeat), then experts with the same.
  const auto threshold = static_cast<std::uint64_t>((grouped ? std::sqrt(chance) : chance) * 65536.0);
  if (grouped && (random.bits() & 0xffffU) >= threshold) {
    draw_groups(random);
    return 0;
  }
  int kept = 0;
  std::uint64_t bits = 0;
  for (int k = 0; k < law_.top_k(); ++k, bits >>= 16) {
    bits = k % 4 == 0 ? random.bits() : bits;
    if ((bits & 0xffffU) < threshold) {
      to[kept++] = before[k];
      taken_[before[k]] = choice_;
    }
  }
  return kept;
}

// Draws experts until the choice has top-k different ones. Which draw is taken already is a coin toss that no processor
// foresees: every draw is written, and counts only if it is new.
void TokenSampler::fill(RandomStream& random, std::span<const AliasCell> table, std::size_t have, std::uint16_t* to) {
  const std::uint32_t choice = choice_;
  std::uint32_t* taken = taken_.data();
  RandomStream stream = random;  // in registers
  for (const auto k = static_cast<std::size_t>(law_.top_k()); have < k;) {
    const std::uint16_t expert = AliasTable::draw(table, stream.bits());
    to[have] = expert;
    have += taken[expert] != choice ? 1 : 0;
    taken[expert] = choice;
  }
  random = stream;
}

// The open groups' heavy experts that the token does not have yet.
TokenSampler::Race TokenSampler::gather_race(std::size_t kind) {
  Race race;
  const std::size_t groups = group_chance_.size();
  for (std::size_t i = 0; i < open_.size(); ++i) {
    const std::size_t table = kind * groups + open_[i];
    open_sums_[i] = race.light += light_sums_[table];
    const Heavies& heavies = heavies_[table];
    for (std::size_t h = 0; h < heavies.count; ++h) {
      const bool there = taken_[heavies.expert[h]] != choice_;
      heavy_weight_[race.heavies] = heavies.weight[h];
      heavy_expert_[race.heavies] = heavies.expert[h];
      race.heavy += there ? heavies.weight[h] : 0.0F;
      race.heavies += there ? 1 : 0;
    }
  }
  return race;
}

// The heavy expert at `u` of the race's heavy weight, which then is out of it.
std::uint16_t TokenSampler::take_heavy(Race& race, float u) {
  std::size_t at = 0;
  for (; at + 1 < race.heavies && u >= heavy_weight_[at]; ++at) {
    u -= heavy_weight_[at];
  }
  const std::uint16_t expert = heavy_expert_[at];
  --race.heavies;
  race.heavy = race.heavies == 0 ? 0.0F : std::max(0.0F, race.heavy - heavy_weight_[at]);
  heavy_weight_[at] = heavy_weight_[race.heavies];
  heavy_expert_[at] = heavy_expert_[race.heavies];
  return expert;
}

// The same among the open groups: a heavy expert, or first a group by the weight of its light experts, then one of
// these. Heavy ones leave the race once drawn; light ones seldom come twice.
void TokenSampler::fill_from_groups(RandomStream& random, std::size_t kind, std::size_t have, std::uint16_t* to) {
  Race race = gather_race(kind);
  const std::size_t open = open_.size(), group_size = group_size_;
  const std::uint16_t* group = open_.data();
  const float* sums = open_sums_.data();
  const AliasCell* cells = &cells_[kind * chances_.size()];
  const std::uint32_t choice = choice_;
  std::uint32_t* taken = taken_.data();
  RandomStream stream = random;
  for (const auto k = static_cast<std::size_t>(law_.top_k()); have < k;) {
    const std::uint64_t bits = stream.bits();
    const float u =
        static_cast<float>(static_cast<std::int32_t>(bits >> 40)) * ((race.light + race.heavy) * 0x1.0p-24F);
    if (race.heavies > 0 && u >= race.light) {
      const std::uint16_t expert = take_heavy(race, u - race.light);
      taken[expert] = choice;
      to[have++] = expert;
      continue;
    }
    std::size_t at = 0;
    for (std::size_t i = 0; i + 1 < open; ++i) {
      at += u >= sums[i] ? 1 : 0;
    }
    // 32 bits do for the few experts of a group: what the choice of a cell leaves of them decides within it.
    const std::uint64_t scaled = (bits & 0xffffffffU) * group_size;
    const auto cell = static_cast<std::uint32_t>(group[at] * group_size + (scaled >> 32));
    const std::uint32_t expert = cells[cell].pick(cell, static_cast<std::uint32_t>(scaled));
    to[have] = static_cast<std::uint16_t>(expert);
    have += taken[expert] != choice ? 1 : 0;
    taken[expert] = choice;
  }
  random = stream;
}

void TokenSampler::draw_layer(RandomStream& random, int layer, std::int64_t tokens,
                              std::span<const std::uint16_t> before, std::span<std::uint16_t> out) {
  const auto k = static_cast<std::size_t>(law_.top_k());
  const std::size_t token_size = static_cast<std::size_t>(law_.layers()) * k;
  const bool grouped = group_chance_.size() > 1, repeats = law_.model().repeat > 0;
  std::uint16_t* to = out.data() + static_cast<std::size_t>(layer) * k;
  // Which groups were open at the end of the last stretch is not remembered: grouped tokens start anew.
  const bool starts = before.empty() || grouped;
  const std::uint16_t* last = starts ? nullptr : before.data() + static_cast<std::size_t>(layer) * k;
  for (std::int64_t t = 0; t < tokens; ++t, last = to, to += token_size) {
    if (++choice_ == 0) {  // wrapped: forget the choices of 2^32 ago
      std::fill(taken_.begin(), taken_.end(), 0U);
      choice_ = 1;
    }
    std::size_t have = 0;
    if (repeats && last != nullptr) {
      have = static_cast<std::size_t>(keep(random, last, to));
    } else if (grouped) {
      draw_groups(random);
    }
    const std::size_t kind = kind_of_[t];
    if (grouped) {
      fill_from_groups(random, kind, have, to);
    } else {
      fill(random, std::span(cells_).subspan(kind * taken_.size(), taken_.size()), have, to);
    }
  }
}

void TokenSampler::sample(std::int64_t sequence, std::int64_t tokens, std::span<std::uint16_t> out) {
  const std::size_t token_size = static_cast<std::size_t>(law_.layers()) * law_.top_k();
  EPSIM_CHECK(out.size() == static_cast<std::size_t>(tokens) * token_size, "one id per token, layer and choice");
  streams_.clear();
  for (int l = 0; l < law_.layers(); ++l) {
    streams_.emplace_back(seed_, "model.token_experts", static_cast<std::uint64_t>(sequence),
                          static_cast<std::uint64_t>(l));
  }
  const std::int64_t stretch = law_.model().stretch_tokens;
  RandomStream kinds(seed_, "model.token_kinds", static_cast<std::uint64_t>(sequence));
  for (std::int64_t first = 0; first < tokens; first += stretch) {
    const std::int64_t count = std::min(stretch, tokens - first);
    set_topic(sequence, first / stretch);
    for (std::int64_t t = 0; t < count && kinds_count_ > 1; ++t) {
      kind_of_[t] = kinds.below(kinds_count_);
    }
    const auto at = static_cast<std::size_t>(first) * token_size;
    const std::span<const std::uint16_t> before =
        first == 0 ? std::span<const std::uint16_t>() : out.subspan(at - token_size, token_size);
    for (int l = 0; l < law_.layers(); ++l) {
      set_chances(l);
      draw_layer(streams_[l], l, count, before, out.subspan(at, static_cast<std::size_t>(count) * token_size));
    }
  }
}

void generate_tokens(const RoutingLaw& law, const TokenPlan& plan, Seed seed, TraceSink& sink) {
  TokenSampler sampler(law, seed);
  sink.begin(trace_info_of(law.model(), fmt::format("tokens: {} from sequence {} on, seed {}", plan.tokens,
                                                    plan.first_sequence, static_cast<std::uint64_t>(seed))),
             1);
  const std::size_t token_size = static_cast<std::size_t>(law.layers()) * law.top_k();
  std::vector<std::uint16_t> experts;
  std::vector<std::int32_t> rows, positions;
  std::vector<std::int64_t> ids, starts, lengths, domains;
  // One sequence at a time.
  for (std::int64_t done = 0, sequence = plan.first_sequence; done < plan.tokens; ++sequence) {
    const std::int64_t n = std::min(sampler.length(sequence), plan.tokens - done);
    experts.resize(static_cast<std::size_t>(n) * token_size);
    rows.assign(n, static_cast<std::int32_t>(ids.size()));
    positions.resize(n);
    std::iota(positions.begin(), positions.end(), 0);
    sampler.sample(sequence, n, experts);
    sink.tokens({experts, {}, rows, positions});
    ids.push_back(sequence);
    starts.push_back(done);
    lengths.push_back(n);
    domains.push_back(sequence / law.model().domain_sequences);
    done += n;
  }
  Table table;
  table.columns = {{"sequence", ids}, {"first_row", starts}, {"num_tokens", lengths}, {"domain", domains}};
  sink.table("sequences", table);
}

}  // namespace epsim
