#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <set>
#include <stdexcept>

#include "sim/core/check.h"
#include "sim/core/config.h"
#include "sim/report/metric.h"
#include "sim/reproduce/measure.h"
#include "sim/reproduce/paper_study.h"

namespace epsim {
namespace {

using Names = std::vector<std::string>;
constexpr Range kAnyNumber = Bound::kAny;

// In the results, beside the folder of finished searches.
bool is_folder_name(const std::string& name) {
  return name != "searches" && std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '-' || c == '_';
         });
}

class PaperReader {
 public:
  explicit PaperReader(const std::filesystem::path& file) : config_(Config::from_file(file)), root_(config_.root()) {
    out_.file = file;
  }

  PaperStudy read() {
    out_.name = root_.required<std::string>("name");
    out_.title = root_.required<std::string>("study");
    out_.set = root_.optional<Names>("set", {});
    out_.seeds = root_.optional<int>("seeds", 2, Range::between(1, 100));
    read_setups();
    out_.goodput = goodput(root_.section("goodput"), {});
    read_quick();
    read_rates();
    ConfigReader shorts = root_.section("metrics");
    for (const std::string& name : shorts.keys()) {
      shorts_[name] = shorts.required<std::string>(name);
    }
    for (ConfigReader& claim : root_.list_of_sections("claims")) {
      read_claim(claim);
    }
    root_.check(!out_.claims.empty(), "claims", "at least one claim is needed.");
    read_sensitivity();
    root_.finish();
    return std::move(out_);
  }

 private:
  void read_setups() {
    ConfigReader setups = root_.required_section("setups");
    for (const std::string& name : setups.keys()) {
      setups.check(is_folder_name(name), name,
                   "a setup's name is that of a folder: letters, digits, '-' and '_', and not 'searches'.");
      ConfigReader one = setups.section(name);
      out_.setups.push_back({name, one.path("scenario"), one.optional<Names>("set", {})});
    }
    ConfigReader groups = root_.section("groups");
    for (const std::string& name : groups.keys()) {
      groups_[name] = setups_named(groups, name, groups.required<Names>(name));
    }
  }

  // Setups and groups of them, as a key names them.
  Names setups_named(const ConfigReader& in, const std::string& key, const Names& given) const {
    Names out;
    for (const std::string& name : given) {
      if (const auto group = groups_.find(name); group != groups_.end()) {
        out.insert(out.end(), group->second.begin(), group->second.end());
        continue;
      }
      Names known;
      for (const PaperSetup& setup : out_.setups) {
        known.push_back(setup.name);
      }
      if (std::find(known.begin(), known.end(), name) == known.end()) {
        in.fail(key, unknown_name("setup", name, known));
      }
      out.push_back(name);
    }
    return out;
  }

  static GoodputOptions goodput(ConfigReader in, GoodputOptions out) {
    out.k = in.optional<double>("k", out.k, Bound::kPositive);
    out.tolerance = in.optional<double>("tolerance", out.tolerance, Bound::kPositive);
    out.min_requests_ratio = in.optional<double>("min_requests_ratio", out.min_requests_ratio, Bound::kPositive);
    out.sensitivity = in.optional<std::vector<double>>("other_k", out.sensitivity, Bound::kPositive);
    out.sensitivity_of_first_seed = true;
    return out;
  }

  void read_quick() {
    ConfigReader quick = root_.section("quick");
    out_.quick_setups = setups_named(quick, "setups", quick.optional<Names>("setups", {}));
    out_.quick_set = quick.optional<Names>("set", {});
    out_.quick_goodput = goodput(quick.section("goodput"), out_.goodput);
  }

  void read_rates() {
    ConfigReader below = root_.section("below_knee");
    out_.below_knee_share = below.optional<double>("share", 0.9, kPositiveShare);
    ConfigReader policies = below.section("policies");
    for (const std::string& group : policies.keys()) {
      const auto names = policies.required<Names>(group);
      policies.check(!names.empty(), group, "name the policies whose knees count.");
      for (const std::string& setup : setups_named(policies, group, {group})) {
        out_.below_knee[setup] = names;
      }
    }
    out_.saturated_rate =
        root_.optional<RequestsPerSecond>("saturated_rate", RequestsPerSecond(50), Bound::kPositive).count();
  }

  // ---- claims ----

  void read_claim(ConfigReader& in) {
    PaperClaim out;
    out.id = in.required<std::string>("id");
    out.statement = in.required<std::string>("claim");
    in.check(std::none_of(out_.claims.begin(), out_.claims.end(), [&](const PaperClaim& c) { return c.id == out.id; }),
             "id", fmt::format("{} is there twice.", out.id));
    out.where = in.required<std::string>("where");
    out.held_by = in.optional<std::string>("held_by", "");
    out.open = in.optional<std::string>("open", "");
    out.takes_long = in.optional<bool>("long", false);
    if (in.has("best")) {
      ConfigReader best = in.section("best");
      const Expression of = expression(best, "of", best.required<std::string>("of") + "(any)");
      best.check(of.op == 'm', "of", "name one metric.");
      out.best = BestPolicy{of.metric, best.required<Names>("policies")};
      best.check(!out.best->policies.empty(), "policies", "name the policies of which one is best.");
    }
    for (ConfigReader& figure : in.list_of_sections("figures")) {
      out.figures.push_back(read_figure(figure, in, out.best));
    }
    in.check((out.figures.empty() ? 0 : 1) + (out.held_by.empty() ? 0 : 1) + (out.open.empty() ? 0 : 1) == 1, "figures",
             "a claim has `figures`, or `held_by`: the file that checks it, or `open`: why nothing does yet.");
    out_.claims.push_back(std::move(out));
  }

  // A key of the figure, or of its claim, which gives what its figures share.
  template <class T>
  static std::optional<T> shared(ConfigReader& figure, ConfigReader& claim, const std::string& key) {
    const std::optional<T> of_claim = claim.maybe<T>(key), own = figure.maybe<T>(key);
    return own ? own : of_claim;
  }

  ClaimFigure read_figure(ConfigReader& in, ConfigReader& claim, const std::optional<BestPolicy>& best) {
    ClaimFigure out;
    out.what = in.required<std::string>("what");
    out.paper = in.required<std::string>("paper");
    out.unit = shared<std::string>(in, claim, "unit").value_or("");
    out.note = shared<std::string>(in, claim, "note").value_or("");
    out.told = in.optional<bool>("told", false);
    const std::string kind = shared<std::string>(in, claim, "kind").value_or("calibrated");
    out.kind = static_cast<ClaimKind>(place_among(in, "kind", kind, kClaimKindNames));
    out.over = static_cast<Over>(place_among(in, "over", in.optional<std::string>("over", "mean"), kOverNames));
    const auto value = shared<std::string>(in, claim, "value");
    in.check(value.has_value(), "value", "this key is required and missing, here and in the claim.");
    out.value = expression(in, "value", *value);
    bool measures = false;
    out.value.each_metric([&](const MetricOf&) { measures = true; });
    in.check(measures, "value",
             "it has no metric; a figure is of runs or plans. Arithmetic alone is `held_by` a test.");
    ConfigReader beside = in.section("beside");
    for (const std::string& name : beside.keys()) {
      out.beside.emplace_back(name, expression(beside, name, beside.required<std::string>(name)));
    }
    read_setups_of(in, claim, out);
    check_metrics_of(in, best, out);
    read_tolerance(in, claim, out);
    return out;
  }

  void read_setups_of(ConfigReader& in, ConfigReader& claim, ClaimFigure& out) {
    ConfigReader others = in.section("others");
    const auto one_setup = [&](const std::string& key, const std::string& name) {
      const Names named = setups_named(others, key, {name});
      others.check(named.size() == 1, key, "`others` pairs one setup with one other.");
      return named.front();
    };
    for (const std::string& name : others.keys()) {
      const auto other = others.required<std::string>(name);
      out.setups.emplace_back(one_setup(name, name), one_setup(name, other));
    }
    const Names names = shared<Names>(in, claim, "setups").value_or(Names{});
    const std::string key = out.setups.empty() ? "setups" : "others";
    in.check(names.empty() != out.setups.empty(), "setups",
             "a figure names its `setups`, here or in the claim, or `others`: pairs of setups.");
    for (const std::string& name : setups_named(in, "setups", names)) {
      out.setups.emplace_back(name, "");
    }
    std::set<std::string> once;
    for (const auto& [setup, unused] : out.setups) {
      in.check(once.insert(setup).second, key, fmt::format("{} is there twice, alone or in groups.", setup));
    }
  }

  // What a figure's formulas, and the metric that says which policy is best, ask for on its setups.
  void check_metrics_of(const ConfigReader& in, const std::optional<BestPolicy>& best,
                        const ClaimFigure& figure) const {
    const auto check = [&](const std::string& key, const Expression& formula) {
      formula.each_metric([&](const MetricOf& metric) {
        const bool by_best = best && metric.policy == "best" && best->of.study == "below_knee";
        for (const auto& [setup, other] : figure.setups) {
          in.check(!metric.other || !other.empty(), key, "`other` needs `others`, which names the other setups.");
          in.check(
              (metric.study != "below_knee" && !by_best) || out_.below_knee.contains(metric.other ? other : setup), key,
              fmt::format("below_knee.policies does not say whose knees count on {}.", metric.other ? other : setup));
        }
      });
    };
    check("value", figure.value);
    for (const auto& [name, formula] : figure.beside) {
      check("beside", formula);
    }
  }

  void read_tolerance(ConfigReader& in, ConfigReader& claim, ClaimFigure& out) {
    const auto within = in.maybe<std::vector<double>>("within", kAnyNumber);
    const auto least = in.maybe<double>("at_least", kAnyNumber), most = in.maybe<double>("at_most", kAnyNumber);
    const auto exactly = in.maybe<std::string>("exactly");
    in.check((within ? 1 : 0) + (least || most ? 1 : 0) + (exactly ? 1 : 0) == 1, "within",
             "a figure has one tolerance: `within: [low, high]`, `at_least`, `at_most` or `exactly`.");
    if (within) {
      in.check(within->size() == 2 && within->front() <= within->back(), "within", "write it as [low, high].");
    }
    out.exact = exactly.has_value();
    out.low = within ? within->front() : exactly ? constant(in, "exactly", *exactly) : least.value_or(-kUnbounded);
    out.high = within ? within->back() : exactly ? out.low : most.value_or(kUnbounded);
    if (const auto text = shared<std::string>(in, claim, "no_effect")) {
      out.no_effect = constant(in, "no_effect", *text);
    }
    const auto stated = in.maybe<double>("stated", kAnyNumber);
    out.stated = stated.value_or(0);
    if (!stated && out.no_effect) {
      const auto [end, error] = std::from_chars(out.paper.data(), out.paper.data() + out.paper.size(), out.stated);
      in.check(error == std::errc{}, "stated", "with `no_effect` the paper's value is needed as a number.");
    }
  }

  template <std::size_t N>
  static std::size_t place_among(const ConfigReader& in, const std::string& key, const std::string& name,
                                 const std::string_view (&names)[N]) {
    const auto found = std::find(std::begin(names), std::end(names), name);
    if (found == std::end(names)) {
      in.fail(key, unknown_name(key, name, Names(std::begin(names), std::end(names))));
    }
    return static_cast<std::size_t>(found - std::begin(names));
  }

  Expression expression(const ConfigReader& in, const std::string& key, const std::string& text) const {
    try {
      Expression out = parse_expression(text, shorts_);
      out.each_metric([](const MetricOf& metric) { check_metric(metric); });
      return out;
    } catch (const std::invalid_argument& e) {
      in.fail(key, e.what());
    }
  }

  static double constant(const ConfigReader& in, const std::string& key, const std::string& text) {
    try {
      return parse_expression(text, {})
          .value([](const MetricOf&) -> Measured { throw std::invalid_argument("a number is needed here."); })
          .value;
    } catch (const std::invalid_argument& e) {
      in.fail(key, e.what());
    }
  }

  void read_sensitivity() {
    ConfigReader in = root_.section("sensitivity");
    out_.sensitivity_setups = setups_named(in, "setups", in.optional<Names>("setups", {}));
    for (ConfigReader& change : in.list_of_sections("changes")) {
      InputChange out;
      out.input = change.required<std::string>("input");
      out.change = change.required<std::string>("change");
      out.because = change.required<std::string>("because");
      out.set = change.optional<Names>("set", {});
      ConfigReader by_setup = change.section("set_of");
      for (const std::string& name : by_setup.keys()) {
        out.set_of[setups_named(by_setup, name, {name}).front()] = by_setup.required<Names>(name);
      }
      out.k = change.maybe<double>("k");
      const std::vector<double>& known = out_.goodput.sensitivity;
      change.check(!out.k || std::find(known.begin(), known.end(), *out.k) != known.end(), "k",
                   "it has to be among goodput.other_k.");
      out_.changes.push_back(std::move(out));
    }
  }

  static constexpr std::string_view kOverNames[] = {"mean", "largest", "smallest"};

  Config config_;
  ConfigReader root_;
  PaperStudy out_;
  std::map<std::string, Names> groups_;
  std::map<std::string, std::string> shorts_;
};

}  // namespace

const PaperSetup& PaperStudy::setup(const std::string& wanted) const {
  const auto found = std::ranges::find(setups, wanted, &PaperSetup::name);
  EPSIM_CHECK(found != setups.end(), "claims name setups that exist");
  return *found;
}

PaperStudy read_paper_study(const std::filesystem::path& file) { return PaperReader(file).read(); }

}  // namespace epsim
