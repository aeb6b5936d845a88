#include "sim/report/goodput_branches.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/core/mapped.h"
#include "sim/report/format.h"
#include "sim/report/goodput_summary.h"
#include "sim/report/tables.h"
#include "sim/report/text_table.h"

namespace epsim {
namespace {

constexpr const char* kHeld = "held until all DP ranks have one";

// The points of one place among branch_rates(), of all seeds that have it.
std::vector<BranchPoint> points_at(const GoodputStudy& study, std::size_t policy, std::size_t place) {
  std::vector<BranchPoint> out;
  for (const GoodputSearch& search : searches_of(study, policy)) {
    const std::vector<double> rates = branch_rates(search, study.options);
    for (const BranchPoint& point : branch_points(search, study.options)) {
      if (place < rates.size() && point.empty->offered == rates[place]) {
        out.push_back(point);
      }
    }
  }
  return out;
}

StartFigures start_figures_of(const std::vector<BranchPoint>& points, bool at_knee) {
  const auto over_seeds = [&](auto figure) { return estimate(mapped(points, figure)); };
  StartFigures out;
  out.at_knee = at_knee;
  out.rate = over_seeds([](const BranchPoint& p) { return p.empty->offered; });
  out.empty_completed = over_seeds([](const BranchPoint& p) { return p.empty->completed; });
  out.empty_ttft_ms = over_seeds([](const BranchPoint& p) { return p.empty->ttft_s.mean * 1e3; });
  out.backlog_completed = over_seeds([](const BranchPoint& p) { return p.backlog->completed; });
  out.backlog_ttft_ms = over_seeds([](const BranchPoint& p) { return p.backlog->ttft_s.mean * 1e3; });
  out.seeds = static_cast<int>(points.size());
  for (const BranchPoint& point : points) {
    const std::optional<bool> matters = point.start_matters();
    out.told_seeds += matters ? 1 : 0;
    out.apart_seeds += matters.value_or(false) ? 1 : 0;
    out.empty_steady = out.empty_steady && point.empty_steady;
    out.backlog_steady = out.backlog_steady && point.backlog_steady;
  }
  return out;
}

std::string seconds_text(const Estimate& ms) { return rounded(ms.mean / 1e3); }

bool mostly_apart(const StartFigures& f) { return 2 * f.apart_seeds > f.told_seeds; }

std::string start_matters_text(const StartFigures& f) {
  return f.told_seeds == 0               ? "unclear"
         : f.apart_seeds == 0            ? "no"
         : f.apart_seeds == f.told_seeds ? "yes"
                                         : fmt::format("in {} of {} seeds", f.apart_seeds, f.told_seeds);
}

std::string list_text(const std::vector<std::string>& words) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    out += fmt::format("{}{}", i == 0 ? "" : i + 1 == words.size() ? " and " : ", ", words[i]);
  }
  return out;
}

// "at 1.9 and 2.6 requests/s, where the mean TTFT is 80 and 200 s from empty, 20 and 30 s after a backlog"
std::string rates_text(const std::vector<StartFigures>& apart) {
  std::vector<std::string> rates, empty, backlog;
  for (const StartFigures& f : apart) {
    rates.push_back(rounded(f.rate.mean));
    empty.push_back(seconds_text(f.empty_ttft_ms));
    backlog.push_back(seconds_text(f.backlog_ttft_ms));
  }
  return fmt::format("at {} requests/s: there the mean TTFT is {} s from an empty instance, {} s after a backlog",
                     list_text(rates), list_text(empty), list_text(backlog));
}

// `subject`: "base: its knee".
std::string knee_sentence(const StartFigures& at_knee, const std::string& subject) {
  if (at_knee.told_seeds == 0) {
    return subject + " is that of an instance that starts empty; the run after a backlog was not steady.";
  }
  return mostly_apart(at_knee) ? fmt::format("{} is that of an instance that starts empty; the start matters {}.",
                                             subject, rates_text({at_knee}))
                               : subject + " holds from an empty instance and after a backlog.";
}

// Whose start the rate of a policy belongs to, and at which rates past it the start matters.
std::string start_sentence(const GoodputStudy& study, std::size_t policy) {
  const std::vector<StartFigures> all = start_figures(study, policy);
  const std::string name = plain_name(study.policies[policy]), word = study.options.slo.any() ? "rate" : "knee";
  if (all.empty()) {
    return name +
           ": no rate was served after a backlog: too few requests, or a rate too near the saturation "
           "throughput to work one off.";
  }
  std::string out;
  std::vector<StartFigures> past = all;
  if (all.front().at_knee) {
    past.erase(past.begin());
    out = knee_sentence(all.front(), fmt::format("{}: its {}", name, word));
  }
  std::vector<std::string> untold;
  for (const StartFigures& f : past) {
    if (f.told_seeds == 0) {
      untold.push_back(rounded(f.rate.mean));
    }
  }
  const std::size_t told = past.size() - untold.size();
  std::erase_if(past, [](const StartFigures& f) { return !mostly_apart(f); });
  if (!past.empty()) {
    out += fmt::format("{}Past it the start matters {}.", out.empty() ? name + ": " : " ", rates_text(past));
  } else if (told > 0) {
    out += fmt::format("{}The start does not matter past it.", out.empty() ? name + ": " : " ");
  }
  if (!untold.empty()) {
    out += fmt::format(
        " Runs at {} requests/s are not steady, and too short to decide; --min-requests-ratio lengthens "
        "them.",
        list_text(untold));
  }
  return out;
}

std::string alignment_sentence(const GoodputStudy& study) {
  const std::string word = study.options.slo.any() ? "rate" : "knee";
  if (study.aligned.empty()) {
    return fmt::format("Prompts {}: not searched, since {}.", kHeld, study.alignment);
  }
  std::string out = fmt::format("With prompts {} ({})", kHeld, study.alignment);
  for (std::size_t p = 0; p < study.policies.size(); ++p) {
    const AlignedFigures f = aligned_figures(study, p);
    out += fmt::format("{} {} sustains {} requests/s, {} times its {} without", p == 0 ? "" : ";",
                       plain_name(study.policies[p]), rounded(f.rate.mean), fixed(f.gain.mean, 2), word);
    if (p > 0) {
      out += fmt::format(", and {} times what {} does then ({} without)", fixed(f.ratio.mean, 3),
                         plain_name(study.policies[0]), fixed(summarize(study)[p].ratio.mean, 3));
    }
  }
  return out + ".";
}

// Where a study without branches leaves rates of which it cannot tell.
std::string branches_hint(const GoodputStudy& study) {
  std::vector<std::string> policies;
  for (std::size_t p = 0; p < study.policies.size(); ++p) {
    std::vector<double> saturation, over;
    for (const GoodputSearch& search : searches_of(study, p)) {
      if (outruns_knee(search, study.options)) {
        saturation.push_back(search.saturation);
        over.push_back(search.saturation / search.knee.rate);
      }
    }
    if (2 * std::ssize(over) > study.seeds) {
      const std::string name = study.policies.size() > 1 ? plain_name(study.policies[p]) + " " : "";
      policies.push_back(fmt::format("{}{} requests/s ({} times its knee)", name, rounded(estimate(saturation).mean),
                                     fixed(estimate(over).mean, 2)));
    }
  }
  return policies.empty()
             ? ""
             : fmt::format(
                   "These knees hold for an instance that starts empty. With a queue on every rank it serves more: {}. "
                   "Between the two rates the wait may depend on how the instance got there; --branches serves such "
                   "rates from both starts, and searches the knees with prompts {}.",
                   list_text(policies), kHeld);
}

std::string served(const Estimate& completed, bool steady) {
  return fmt::format("{}{}", rounded(completed.mean), steady ? "" : "*");
}

// Empty where no rate was served after a backlog, which the conclusions say.
std::string starts_table(const GoodputStudy& study) {
  bool any = false;
  TextTable table;
  table.add_column({"", "", "policy"}, Align::kLeft);
  table.add_columns({{"", "rate", "req/s"}, {"from empty:", "completed", "req/s"}, {"", "TTFT", "ms"}});
  table.add_columns({{"after a backlog:", "completed", "req/s"}, {"", "TTFT", "ms"}});
  table.add_column({"start", "", "matters"}, Align::kLeft);
  for (std::size_t p = 0; p < study.policies.size(); ++p) {
    for (const StartFigures& f : start_figures(study, p)) {
      table.add_row({shortened(printable(study.policies[p]), kLabelColumns), rounded(f.rate.mean),
                     served(f.empty_completed, f.empty_steady), rounded(f.empty_ttft_ms.mean),
                     served(f.backlog_completed, f.backlog_steady), rounded(f.backlog_ttft_ms.mean),
                     start_matters_text(f)});
      any = true;
    }
  }
  return any ? table.render() : "";
}

std::string aligned_table(const GoodputStudy& study) {
  const std::string word = study.options.slo.any() ? "rate" : "knee";
  const std::string first = shortened(printable(study.policies[0]), kLabelColumns);
  TextTable table;
  table.add_column({"", "", "policy"}, Align::kLeft);
  table.add_columns({{word + ":", "each rank", "req/s"}, {"", "together", "req/s"}});
  table.add_columns({{"together /", "each rank", "times"}, {"against " + first + ":", "each rank", "times"}});
  table.add_column({"", "together", "times"});
  const std::vector<PolicyGoodput> own = summarize(study);
  for (std::size_t p = 0; p < own.size(); ++p) {
    const AlignedFigures f = aligned_figures(study, p);
    table.add_row({shortened(printable(own[p].policy), kLabelColumns), rounded(own[p].rate.mean), rounded(f.rate.mean),
                   fixed(f.gain.mean, 3), fixed(own[p].ratio.mean, 3), fixed(f.ratio.mean, 3)});
  }
  return table.render();
}

}  // namespace

std::vector<StartFigures> start_figures(const GoodputStudy& study, std::size_t policy) {
  std::size_t places = 0;
  for (const GoodputSearch& search : searches_of(study, policy)) {
    places = std::max(places, branch_rates(search, study.options).size());
  }
  std::vector<StartFigures> out;
  for (std::size_t place = 0; place < places; ++place) {
    if (const std::vector<BranchPoint> points = points_at(study, policy, place); !points.empty()) {
      out.push_back(start_figures_of(points, place == 0));
    }
  }
  return out;
}

AlignedFigures aligned_figures(const GoodputStudy& study, std::size_t policy) {
  const auto rates_of = [&](std::span<const GoodputSearch> searches) {
    return mapped(searches, [&](const GoodputSearch& search) { return rate_of(study, search); });
  };
  const std::vector<double> rates = rates_of(aligned_of(study, policy));
  const double bracket = study.options.tolerance;
  return {searched_estimate(rates, bracket, 1),
          searched_estimate(ratios(rates, rates_of(searches_of(study, policy))), bracket, 2),
          searched_estimate(ratios(rates, rates_of(aligned_of(study, 0))), policy == 0 ? 0 : bracket, 2)};
}

std::vector<std::string> branch_conclusions(const GoodputStudy& study) {
  std::vector<std::string> out;
  if (!study.options.branches) {
    if (const std::string hint = study.options.slo.any() ? "" : branches_hint(study); !hint.empty()) {
      out.push_back(hint);
    }
    return out;
  }
  for (std::size_t p = 0; p < study.policies.size(); ++p) {
    out.push_back(start_sentence(study, p));
  }
  out.push_back(alignment_sentence(study));
  return out;
}

std::string branch_tables(const GoodputStudy& study) {
  if (!study.options.branches) {
    return "";
  }
  const auto paragraph = [](const std::string& text) { return wrapped(text, kColumns, 0) + "\n"; };
  std::string out;
  if (const std::string starts = starts_table(study); !starts.empty()) {
    out = "\nthe same rates from an empty instance, and after a backlog that came at once\n" + starts +
          paragraph(
              "First the highest acceptable rate that was probed, then rates between the knee and the saturation. The "
              "backlog: twice as many requests as are in the system at the first, 500 at least; figures are of what "
              "comes when it has been worked off. The start matters where the mean TTFTs are more than twice apart. * "
              "= not steady, or more arrives than is completed: the TTFT depends on the length of the run.");
  }
  if (!study.aligned.empty()) {
    out += fmt::format("\nprompts {}, by {}\n", kHeld, study.alignment) + aligned_table(study);
  }
  return out;
}

}  // namespace epsim
