// Load rows for files, windows to plan from, and the scenario sections of kind `model`.
#include <fmt/format.h>
#include <tbb/enumerable_thread_specific.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <tuple>

#include "sim/core/check.h"
#include "sim/core/last_made.h"
#include "sim/core/limits.h"
#include "sim/core/mapped.h"
#include "sim/domain/affinity.h"
#include "traces/routing_model/model_load_source.h"
#include "traces/routing_model/presets.h"
#include "traces/routing_model/token_sampler.h"

namespace epsim {

TraceInfo trace_info_of(const RoutingModel& model, const std::string& recipe) {
  TraceInfo info;
  info.model = model.model;
  info.model_layers = model.model_layers;
  for (const LayerRouting& layer : model.layers) {
    info.layer_numbers.push_back(layer.number);
  }
  info.experts = model.experts;
  info.top_k = model.top_k;
  info.source = fmt::format("generated from the routing model {}; its figures: {}", model.name, model.source);
  info.licence = model.licence;
  info.recipe = recipe;
  return info;
}

namespace {

void check_plan(const RowPlan& plan) {
  EPSIM_CHECK(plan.steps >= 1 && plan.sources >= 1 && plan.tokens >= 1 && plan.tokens <= kMostTokens,
              "a plan of load rows has steps, sources and tokens");
}

}  // namespace

void generate_loads(const RoutingLaw& law, const RowPlan& plan, Seed seed, TraceSink& sink) {
  check_plan(plan);
  // The law outlives the source: a shared pointer that owns nothing.
  const ModelLoadSource source({std::shared_ptr<const RoutingLaw>(), &law}, false, seed);
  const std::vector<std::int64_t> tokens(plan.sources, plan.tokens);
  std::vector<float> row(static_cast<std::size_t>(law.layers()) * tokens.size() * law.experts());
  std::vector<double> counts;
  sink.begin(trace_info_of(law.model(), fmt::format("load rows: steps {} to {}, {} sources of {} tokens, seed {}",
                                                    plan.first_step, plan.first_step + plan.steps - 1, plan.sources,
                                                    plan.tokens, static_cast<std::uint64_t>(seed))),
             plan.sources);
  for (std::int64_t s = 0; s < plan.steps; ++s) {
    source.draw_counts(plan.first_step + s, tokens, row);
    counts.assign(row.begin(), row.end());
    sink.loads({counts, tokens});
  }
}

namespace {

constexpr std::int64_t kTogether = 16;  // steps drawn side by side, and added as one

}  // namespace

LoadWindow window_of_model(const std::shared_ptr<const RoutingLaw>& law, const RowPlan& plan, bool batches, Seed seed) {
  check_plan(plan);
  const ModelLoadSource source(law, false, seed);
  const std::vector<std::int64_t> tokens(plan.sources, plan.tokens);
  const auto width = static_cast<std::size_t>(law->experts());
  const std::size_t cells = static_cast<std::size_t>(law->layers()) * width;
  tbb::enumerable_thread_specific<std::vector<float>> rows{cells * tokens.size()};
  std::vector<float> summed(static_cast<std::size_t>(kTogether) * cells);
  LoadWindow window(law->layers(), law->experts());
  if (batches) {
    window.reserve_batches(static_cast<int>(plan.steps));
  }
  for (std::int64_t first = 0; first < plan.steps; first += kTogether) {
    const std::int64_t n = std::min(kTogether, plan.steps - first);
    const auto draw = [&](std::int64_t k) {
      std::vector<float>& row = rows.local();
      source.draw_counts(plan.first_step + first + k, tokens, row);
      const std::span<float> sum = std::span(summed).subspan(static_cast<std::size_t>(k) * cells, cells);
      std::fill(sum.begin(), sum.end(), 0.0F);
      add_sources<float>(row, tokens.size(), width, sum);
    };
    // A thread that waits here must not begin another window of a caller that reads several at once.
    tbb::this_task_arena::isolate([&] { tbb::parallel_for(std::int64_t{0}, n, draw); });
    if (batches) {
      window.add_batches(std::span(summed).first(static_cast<std::size_t>(n) * cells), static_cast<int>(n));
      continue;
    }
    for (std::size_t i = 0; i < static_cast<std::size_t>(n) * cells; ++i) {
      window.layer(static_cast<int>(i % cells / width))[i % width] += static_cast<double>(summed[i]);
    }
  }
  return window;
}

namespace {

enum class Ranks { kEach, kOne };

}  // namespace

template <>
inline constexpr auto kNames<Ranks> = choice<Ranks>({{"each", Ranks::kEach}, {"one", Ranks::kOne}});

namespace {

constexpr KeyTable kModelLoadKeys({
    {"path", key::path(), key::by("required without preset"), "A fitted routing model."},
    {"preset", key::one_of([] { return entry_names(routing_presets()); }), key::by("required without path"),
     "A shipped routing model."},
    {"batches", key::flag(), key::by("in plan_loads true where a policy that runs uses steps; else false"),
     "Keep the window's steps apart for policies that plan from them (craft, flashlb), not from their sum."},
    {"sources", key::whole(Bound::kPositive), key::is(8), "DP ranks drawn in a planning window."},
    {"steps", key::whole(Bound::kPositive), key::is(256), "Steps drawn in a planning window."},
    {"tokens", key::whole(at_most(kMostTokens, Bound::kPositive)), key::is(RowPlan{}.tokens),
     "Tokens per rank and step in a planning window."},
    {"affinity_tokens", key::whole(), key::is(0),
     "Tokens drawn to find experts that serve the same tokens, for policies that group them and rows sent once; 0: "
     "none."},
    {"ranks", key::one_of<Ranks>(), key::is(Ranks::kEach), "Whether each DP rank has its own mix of topics."},
    {"hold_steps", key::whole(Bound::kPositive), key::is(1),
     "Steps in a row that take one draw of routing where they bring the same tokens: faster, with the same means."},
    {"topic_tokens", key::number(Bound::kPositive), key::by("the model's"), "Tokens of one topic in a row."},
    {"topic_steps", key::number(Bound::kPositive), key::by("the model's"), "Steps over which topics of a rank change."},
    {"domain_steps", key::number(Bound::kPositive), key::by("the model's"), "Steps over which domains change."},
    {"common", key::number(), key::by("the model's"), "Share of routing that all topics have in common."},
    {"overdispersion", key::number(), key::by("the model's"), "Variance of counts over that of independent tokens."},
    {"group_correlation", key::number(), key::by("the model's"),
     "How alike experts of one router group are in popularity; 0: hot experts lie at random."},
    {"drift", key::number(at_most(3)), key::by("the model's"),
     "Sigma of the factor by which each expert's load differs between windows."},
    {"window", key::whole(), key::by("0 in plan_loads, else 1"),
     "Number of the window, whose loads differ by `drift` from others."},
    {"sigma_scale", key::number(), key::is(1.0), "Scales the skew of every layer."},
    {"pattern_seed", key::whole(), key::by("the model's"),
     "Draws what the model leaves open, such as which expert is how hot: another one is another workload of its skew."},
    {"kind_share", key::number(kShare), key::by("the model's"),
     "Share of a token's choices that its kind decides on: how far experts go together."},
});

RoutingModel model_of_section(ConfigReader& in) {
  if (in.has("preset")) {
    in.check(!in.has("path"), "path", "a section names a preset or a path, not both.");
    return routing_preset(in.read<std::string>(kModelLoadKeys["preset"]));
  }
  return read_routing_model(in.path(kModelLoadKeys["path"]));
}

// A plan is made on another window than the one that it runs on, unless the scenario says otherwise.
std::uint64_t window_of_section(ConfigReader& in) {
  const bool plan = in.place("window").key.starts_with("plan_loads");
  return static_cast<std::uint64_t>(in.read<std::int64_t>(kModelLoadKeys["window"], plan ? 0 : 1));
}

// To calibrate a law takes longer than many a run.
std::shared_ptr<const RoutingLaw> law_of(RoutingModel model) {
  static LastMade<RoutingModel, RoutingLaw> laws(64);  // about 1 MiB each; a paper asks for dozens
  return laws.get(std::move(model), [](const RoutingModel& of) { return RoutingLaw(of); });
}

std::shared_ptr<const RoutingLaw> read_law(ConfigReader& in, const MoeSpec& spec, Seed seed) {
  RoutingModel m = model_of_section(in);
  const std::string key = in.has("preset") ? "preset" : "path";
  const std::vector<int> numbers = mapped(m.layers, &LayerRouting::number);
  in.check(
      m.experts == spec.experts && m.top_k == spec.top_k && numbers == spec.moe_layer_numbers(), key,
      fmt::format("{} has {} layers of {} experts, top-{}; {} has {} MoE layers of {} experts, top-{} (or other "
                  "layer numbers).",
                  m.name, numbers.size(), m.experts, m.top_k, spec.name, spec.moe_layers(), spec.experts, spec.top_k));
  m.topic_tokens = in.read<double>(kModelLoadKeys["topic_tokens"], m.topic_tokens);
  m.topic_steps = in.read<double>(kModelLoadKeys["topic_steps"], m.topic_steps);
  m.domain_steps = in.read<double>(kModelLoadKeys["domain_steps"], m.domain_steps);
  m.common = in.read<double>(kModelLoadKeys["common"], m.common);
  m.overdispersion = in.read<double>(kModelLoadKeys["overdispersion"], m.overdispersion);
  m.group_correlation = in.read<double>(kModelLoadKeys["group_correlation"], m.group_correlation);
  m.drift = in.read<double>(kModelLoadKeys["drift"], m.drift);
  m.pattern_seed = static_cast<std::uint64_t>(
      in.read<std::int64_t>(kModelLoadKeys["pattern_seed"], static_cast<std::int64_t>(m.pattern_seed)));
  m.kind_share = in.read<double>(kModelLoadKeys["kind_share"], m.kind_share);
  m.window = RandomStream(seed, "model.window", window_of_section(in)).bits();
  const double sigma_scale = in.read<double>(kModelLoadKeys["sigma_scale"]);
  for (LayerRouting& layer : m.layers) {
    layer.sigma *= sigma_scale;
  }
  m.validate(in.place(key).file);
  return law_of(std::move(m));
}

// Counts which experts the tokens use together.
struct AffinitySink final : TraceSink {
  std::shared_ptr<Affinity> affinity;
  int top_k = 0;
  void begin(const TraceInfo& info, int) override {
    affinity = std::make_shared<Affinity>(info.layers(), info.experts);
    top_k = info.top_k;
  }
  void loads(const LoadRow&) override {}
  void tokens(const TokenBlock& block) override { affinity->add_tokens(block.experts, top_k); }
  void table(const std::string&, const Table&) override {}
};

}  // namespace

std::span<const Key> model_load_keys() { return kModelLoadKeys; }

LoadWindow make_model_window(ConfigReader& in, const MoeSpec& model, Seed seed) {
  RowPlan plan;
  plan.steps = in.read<std::int64_t>(kModelLoadKeys["steps"]);
  plan.tokens = in.read<std::int64_t>(kModelLoadKeys["tokens"]);
  plan.sources = in.read<int>(kModelLoadKeys["sources"]);
  const bool batches = in.read<bool>(kModelLoadKeys["batches"], false);
  const auto affinity_tokens = in.read<std::int64_t>(kModelLoadKeys["affinity_tokens"]);
  const Seed stream{RandomStream(seed, "model.plan_window", window_of_section(in)).bits()};
  const auto law = read_law(in, model, seed);
  if (batches) {
    check_limit(limits::kStepValues, product_of({plan.steps, law->layers(), law->experts()}), in.place("batches"));
  }
  // Batches and tokens take too much memory to be kept.
  static LastMade<std::tuple<std::shared_ptr<const RoutingLaw>, RowPlan, Seed>, LoadWindow> sums(64);  // 0.2 MiB each
  const auto draw = [&] { return window_of_model(law, plan, batches, stream); };
  LoadWindow window = batches ? draw() : *sums.get({law, plan, stream}, [&](const auto&) { return draw(); });
  if (affinity_tokens > 0) {
    AffinitySink sink;
    generate_tokens(*law, {0, affinity_tokens}, stream, sink);
    window.set_affinity(sink.affinity);
  }
  return window;
}

std::unique_ptr<ExpertLoadSource> make_model_source(ConfigReader& in, const MoeSpec& model, Seed seed) {
  const bool one_mix = in.read<Ranks>(kModelLoadKeys["ranks"]) == Ranks::kOne;
  const Seed stream{RandomStream(seed, "model.run").bits()};
  const auto hold_steps = in.read<std::int64_t>(kModelLoadKeys["hold_steps"]);
  return std::make_unique<ModelLoadSource>(read_law(in, model, seed), one_mix, stream, hold_steps);
}

}  // namespace epsim
