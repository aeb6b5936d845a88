#include "traces/expert_loads/collaborators.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "sim/core/check.h"

namespace epsim {
namespace {

// Where the choices of each expert go: [layer][from][to], shares that sum to 1.
struct Rerouting {
  int layers, experts;
  std::vector<float> shares;

  std::span<const float> from(int l, int e) const {
    const auto width = static_cast<std::size_t>(experts);
    return std::span(shares).subspan((static_cast<std::size_t>(l) * width + static_cast<std::size_t>(e)) * width,
                                     width);
  }
  std::span<float> from(int l, int e) {
    const std::span<const float> row = std::as_const(*this).from(l, e);
    return {shares.data() + (row.data() - shares.data()), row.size()};
  }
};

// Of a sample and the same tokens rerouted. An expert that none of them chose keeps its choices.
Rerouting measure_rerouting(const TokenSample& before, const TokenSample& after, int experts) {
  Rerouting out{before.layers, experts, {}};
  out.shares.resize(static_cast<std::size_t>(before.layers) * static_cast<std::size_t>(experts) *
                    static_cast<std::size_t>(experts));
  for (std::size_t i = 0; i < before.experts.size(); ++i) {
    const int l = static_cast<int>(i / static_cast<std::size_t>(before.top_k) % static_cast<std::size_t>(out.layers));
    out.from(l, before.experts[i])[after.experts[i]] += 1.0F;
  }
  for (int l = 0; l < out.layers; ++l) {
    for (int e = 0; e < experts; ++e) {
      const std::span<float> row = out.from(l, e);
      const float total = std::accumulate(row.begin(), row.end(), 0.0F);
      if (total > 0) {
        std::ranges::transform(row, row.begin(), [total](float n) { return n / total; });
      } else {
        row[static_cast<std::size_t>(e)] = 1.0F;
      }
    }
  }
  return out;
}

// Of MoE layer l; returns what went elsewhere.
template <class T>
double apply(const Rerouting& map, int l, std::span<const T> loads, std::span<T> out) {
  std::ranges::fill(out, T{});
  double moved = 0;
  for (int e = 0; e < map.experts; ++e) {
    const T load = loads[static_cast<std::size_t>(e)];
    const std::span<const float> shares = map.from(l, e);
    for (std::size_t to = 0; to < out.size(); ++to) {
      out[to] += load * static_cast<T>(shares[to]);
    }
    moved += static_cast<double>(load) * (1.0 - static_cast<double>(shares[static_cast<std::size_t>(e)]));
  }
  return moved;
}

// No expert serves a token twice: what is above 1 goes to the others, in proportion to their room.
void cap_chances(std::span<float> row) {
  float over = 0, room = 0;
  for (const float x : row) {
    over += std::max(0.0F, x - 1.0F);
    room += std::max(0.0F, 1.0F - x);
  }
  if (over > 0) {
    for (float& x : row) {
      x = x >= 1.0F ? 1.0F : std::min(1.0F, x + over * (1.0F - x) / room);
    }
  }
}

class ReroutedSource final : public ExpertLoadSource {
 public:
  ReroutedSource(std::shared_ptr<const ExpertLoadSource> inner, Collaborators lists, Rerouting map, Seed seed)
      : inner_(std::move(inner)), lists_(std::move(lists)), map_(std::move(map)), seed_(seed) {}

  int layers() const override { return inner_->layers(); }
  int experts() const override { return inner_->experts(); }
  bool recorded() const override { return inner_->recorded(); }
  bool changes() const override { return inner_->changes(); }
  std::int64_t hold_steps() const override { return inner_->hold_steps(); }
  std::int64_t replayed_steps() const override { return inner_->replayed_steps(); }
  void draw(const StepAt& at, std::span<const std::int64_t> tokens, StepLoads& out) const override {
    draw_mixed(at, tokens, {}, out);
  }
  void draw_mixed(const StepAt& at, std::span<const std::int64_t> tokens, std::span<const std::int64_t> decodes,
                  StepLoads& out) const override {
    inner_->draw_mixed(at, tokens, decodes, out);
    out.rerouted.assign(static_cast<std::size_t>(out.sources), 0.0);
    out.recorded.source != nullptr ? reroute_tokens(out) : reroute_shares(out);
  }

 private:
  void reroute_tokens(StepLoads& out) const {
    RecordedTokens& recorded = out.recorded;
    auto experts = std::make_shared<std::vector<std::uint16_t>>(recorded.experts.begin(), recorded.experts.end());
    RandomStream random(seed_, "collaborators", static_cast<std::uint64_t>(recorded.row));
    const auto k = static_cast<std::size_t>(recorded.top_k), layer_count = static_cast<std::size_t>(out.layers);
    const std::size_t count = experts->size() / (k * layer_count);
    const auto tokens = static_cast<float>(count);
    out.rerouted[0] =
        static_cast<double>(lists_.reroute(*experts, recorded.top_k, random)) / static_cast<double>(tokens);
    std::ranges::fill(out.per_token, 0.0F);
    for (std::size_t i = 0; i < experts->size(); ++i) {
      out.row(static_cast<int>(i / k % layer_count), 0)[(*experts)[i]] += 1.0F;
    }
    std::ranges::transform(out.per_token, out.per_token.begin(), [tokens](float n) { return n / tokens; });
    recorded.source = this;
    recorded.experts = *experts;
    recorded.owner = std::move(experts);
  }

  // What moves goes to each collaborator in part: chances from here on.
  void reroute_shares(StepLoads& out) const {
    out.counted = false;
    std::vector<float> loads(static_cast<std::size_t>(out.experts));
    for (int l = 0; l < out.layers; ++l) {
      for (int r = 0; r < out.sources; ++r) {
        const std::span<float> row = out.row(l, r);
        std::ranges::copy(row, loads.begin());
        out.rerouted[static_cast<std::size_t>(r)] += apply<float>(map_, l, loads, row);
        cap_chances(row);
      }
    }
  }

  std::shared_ptr<const ExpertLoadSource> inner_;
  Collaborators lists_;
  Rerouting map_;
  Seed seed_;
};

TokenSample reroute_sample(const Collaborators& lists, TokenSample sample, Seed seed) {
  RandomStream random(seed, "collaborators.sample");
  lists.reroute(sample.experts, sample.top_k, random);
  return sample;
}

LoadWindow reroute_window(const LoadWindow& window, const Rerouting& map, const TokenSample* tokens) {
  LoadWindow out(window.layers(), window.experts());
  if (window.batches() > 0) {  // beside the sums, which are the same without them
    const auto width = static_cast<std::size_t>(window.experts());
    std::vector<float> before(width), after(width * static_cast<std::size_t>(window.layers()));
    out.reserve_batches(window.batches());
    for (int b = 0; b < window.batches(); ++b) {
      for (int l = 0; l < window.layers(); ++l) {
        for (int e = 0; e < window.experts(); ++e) {
          before[static_cast<std::size_t>(e)] = window.batches_of(l, e)[static_cast<std::size_t>(b)];
        }
        apply<float>(map, l, before, std::span(after).subspan(static_cast<std::size_t>(l) * width, width));
      }
      out.add_batch(after);
    }
  }
  for (int l = 0; l < window.layers(); ++l) {
    apply<double>(map, l, window.layer(l), out.layer(l));
  }
  if (tokens != nullptr) {
    auto affinity = std::make_shared<Affinity>(window.layers(), window.experts());
    affinity->add_tokens(tokens->experts, tokens->top_k);
    out.set_affinity(std::move(affinity));
  }
  return out;
}

}  // namespace

Collaborators::Collaborators(const Affinity& profile, int count)
    : layers_(profile.layers()), experts_(profile.experts()), count_(count) {
  EPSIM_CHECK(count > 0 && count < experts_, "an expert's collaborators are some of the others");
  std::vector<std::uint16_t> others;
  for (int l = 0; l < layers_; ++l) {
    for (int e = 0; e < experts_; ++e) {
      others.resize(static_cast<std::size_t>(experts_));
      std::iota(others.begin(), others.end(), std::uint16_t{0});
      others.erase(others.begin() + e);
      std::ranges::stable_sort(others, [&](int a, int b) { return profile.at(l, e, a) > profile.at(l, e, b); });
      for (int i = 0; i < count; ++i) {
        lists_.push_back(others[static_cast<std::size_t>(i)]);
        together_.push_back(profile.at(l, e, lists_.back()));
      }
    }
  }
}

std::size_t Collaborators::list(int layer, int expert) const {
  return (static_cast<std::size_t>(layer) * static_cast<std::size_t>(experts_) + static_cast<std::size_t>(expert)) *
         static_cast<std::size_t>(count_);
}

std::int64_t Collaborators::reroute(std::span<std::uint16_t> experts, int top_k, RandomStream& random) const {
  const auto k = static_cast<std::size_t>(top_k);
  std::int64_t changed = 0;
  for (std::size_t at = 0; at < experts.size(); at += k) {
    const int layer = static_cast<int>(at / k % static_cast<std::size_t>(layers_));
    changed += reroute_choices(layer, experts.subspan(at, k), random);
  }
  return changed;
}

std::int64_t Collaborators::reroute_choices(int layer, std::span<std::uint16_t> choices, RandomStream& random) const {
  const std::size_t first = list(layer, choices[0]);
  const std::span<const std::uint16_t> experts = std::span(lists_).subspan(first, static_cast<std::size_t>(count_));
  const auto place = [&](std::uint16_t e) { return std::ranges::find(experts, e) - experts.begin(); };
  const auto listed = [&](std::uint16_t e) { return place(e) < std::ssize(experts); };
  const auto others = choices.subspan(1);
  if (std::ranges::all_of(others, listed)) {
    return 0;
  }
  constexpr double kTaken = -1;
  std::vector<double> open(together_.begin() + static_cast<std::ptrdiff_t>(first),
                           together_.begin() + static_cast<std::ptrdiff_t>(first) + count_);
  for (const std::uint16_t e : others) {
    if (listed(e)) {
      open[static_cast<std::size_t>(place(e))] = kTaken;
    }
  }
  std::int64_t changed = 0;
  for (std::uint16_t& e : others) {
    if (listed(e)) {
      continue;
    }
    const double total =
        std::accumulate(open.begin(), open.end(), 0.0, [](double sum, double n) { return sum + std::max(0.0, n); });
    double left = random.uniform() * total;
    // Where the profile has none of them with the first, the list's order decides.
    auto chosen = std::ranges::find_if(open, [&](double n) { return n >= 0 && (left -= n) <= 0; });
    if (chosen == open.end()) {  // by rounding
      chosen = std::ranges::max_element(open);
    }
    e = experts[static_cast<std::size_t>(chosen - open.begin())];
    *chosen = kTaken;
    ++changed;
  }
  return changed;
}

ReroutedLoads reroute_loads(int collaborators, const LoadWindow& plan, const LoadWindow& run,
                            std::shared_ptr<const ExpertLoadSource> loads, Seed seed) {
  const TokenSample* const planned = plan.tokens();
  const TokenSample* const own = run.tokens();
  EPSIM_CHECK(planned != nullptr, "the loads that are planned from have tokens");
  const Collaborators lists(*plan.affinity(), collaborators);
  const TokenSample plan_sample = reroute_sample(lists, *planned, seed);
  const TokenSample run_sample = own != nullptr ? reroute_sample(lists, *own, seed) : plan_sample;
  const Rerouting of_plan = measure_rerouting(*planned, plan_sample, plan.experts());
  Rerouting of_run = own != nullptr ? measure_rerouting(*own, run_sample, run.experts()) : of_plan;
  ReroutedLoads out{reroute_window(plan, of_plan, &plan_sample),
                    reroute_window(run, of_run, own != nullptr ? &run_sample : nullptr), nullptr};
  out.loads = std::make_shared<ReroutedSource>(std::move(loads), lists, std::move(of_run), seed);
  return out;
}

}  // namespace epsim
