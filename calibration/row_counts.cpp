#include "calibration/row_counts.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/core/check.h"
#include "sim/core/sorted_ids.h"

namespace epsim {
namespace {

void check_shape(const RoutingShape& s) {
  EPSIM_CHECK(
      s.tokens > 0 && s.experts > 0 && s.top_k > 0 && s.top_k <= s.experts && s.ranks > 0 && s.experts % s.ranks == 0,
      "a routing shape has tokens, experts, at most as many choices, and whole ranks");
}

// Inverse of the distribution function of a density x^-alpha between `low` and `high`.
double inverse_power_law(double u, double alpha, double low, double high) {
  const double a = 1 - alpha;
  return std::pow((std::pow(high, a) - std::pow(low, a)) * u + std::pow(low, a), 1 / a);
}

// Adds (step 1) or takes away (-1) rows one at a time, one rank after the other, at each rank's expert with the fewest
// rows (the most) that can take it.
void even_out(std::vector<std::int64_t>& rows, const RoutingShape& s, std::int64_t remaining, int step) {
  const std::ptrdiff_t each = s.experts / s.ranks;
  for (bool progressed = true; remaining > 0 && progressed;) {
    progressed = false;
    for (auto first = rows.begin(); first != rows.end() && remaining > 0; first += each) {
      const auto chosen = step > 0 ? std::min_element(first, first + each) : std::max_element(first, first + each);
      if (step > 0 ? *chosen < s.tokens : *chosen > 0) {
        *chosen += step;
        --remaining;
        progressed = true;
      }
    }
  }
}

// Popularities to whole rows that sum to the assignments, at most one per token and expert.
std::vector<std::int64_t> settle(const std::vector<double>& popularity, const RoutingShape& s) {
  const double sum = std::accumulate(popularity.begin(), popularity.end(), 0.0);
  const std::int64_t wanted = s.tokens * s.top_k;
  std::vector<std::int64_t> rows;
  std::int64_t overflow = 0;
  for (const double x : popularity) {
    const auto scaled = static_cast<std::int64_t>(std::nearbyint(x / sum * static_cast<double>(wanted)));
    overflow += std::max<std::int64_t>(0, scaled - s.tokens);
    rows.push_back(std::min(scaled, s.tokens));
  }
  even_out(rows, s, overflow, 1);
  const std::int64_t missing = wanted - std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  even_out(rows, s, std::abs(missing), missing > 0 ? 1 : -1);
  return rows;
}

template <class Uniform>
std::vector<std::int64_t> power_law(const RoutingShape& s, double alpha, Uniform uniform) {
  check_shape(s);
  EPSIM_CHECK(alpha > 0 && alpha != 1.0, "the exponent of a power law is positive and not 1");
  const bool many = s.tokens * s.top_k > s.experts;
  const double low = many ? 1 : 0.01, high = many ? static_cast<double>(s.tokens) * 0.8 : 2;
  std::vector<double> popularity;
  for (int e = 0; e < s.experts; ++e) {
    popularity.push_back(inverse_power_law(uniform(e), alpha, low, high));
  }
  return settle(popularity, s);
}

using Choices = std::vector<std::int64_t>;  // experts: [token][top_k]

Choices balanced_choices(const RoutingShape& s) {
  check_shape(s);
  const std::int64_t experts = s.experts, stride = (experts + s.top_k - 1) / s.top_k;
  Choices out;
  for (std::int64_t t = 0; t < s.tokens; ++t) {
    const std::int64_t first = s.tokens >= stride ? t : t * stride / s.tokens;
    for (std::int64_t i = 0; i < s.top_k; ++i) {
      out.push_back((first + i * stride) % experts);
    }
  }
  return out;
}

// Experts by falling rows, each as often as it has rows, in one list: token t takes those at t, t + tokens, ...
// (collector/helper.py, _assign_experts_from_counts).
Choices choices_of(const std::vector<std::int64_t>& rows, const RoutingShape& s) {
  std::vector<std::int64_t> list;
  for (const std::int64_t e : sorted_ids(std::ssize(rows), [&](auto a, auto b) { return rows[a] > rows[b]; })) {
    list.insert(list.end(), static_cast<std::size_t>(rows[e]), e);
  }
  Choices out;
  for (std::int64_t t = 0; t < s.tokens; ++t) {
    for (std::int64_t i = 0; i < s.top_k; ++i) {
      out.push_back(list[i * s.tokens + t]);
    }
  }
  return out;
}

// The groups that a token keeps, by which experts it wants: the best two of a group count.
std::vector<char> kept_groups(const std::vector<char>& wanted, const RouterGroups& router) {
  const std::ptrdiff_t each = static_cast<std::ptrdiff_t>(wanted.size()) / router.groups;
  std::vector<std::pair<std::ptrdiff_t, int>> worst_first;
  for (int g = 0; g < router.groups; ++g) {
    const auto first = wanted.begin() + g * each;
    worst_first.emplace_back(-std::min<std::ptrdiff_t>(2, std::count(first, first + each, 1)), g);
  }
  std::sort(worst_first.begin(), worst_first.end());
  std::vector<char> kept(router.groups, 0);
  for (int g = 0; g < router.kept; ++g) {
    kept[worst_first[g].second] = 1;
  }
  return kept;
}

std::vector<std::int64_t> routed_rows(const Choices& choices, const RoutingShape& s, const RouterGroups& router) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(s.experts), 0);
  std::vector<char> wanted(rows.size());
  const int each = s.experts / router.groups;
  for (auto token = choices.begin(); token != choices.end(); token += s.top_k) {
    std::fill(wanted.begin(), wanted.end(), 0);
    std::for_each(token, token + s.top_k, [&](std::int64_t e) { wanted[e] = 1; });
    const std::vector<char> kept = kept_groups(wanted, router);
    int left = s.top_k;
    for (const bool now : {true, false}) {  // the wanted ones, then the first of the others
      for (int e = 0; e < s.experts && left > 0; ++e) {
        if ((wanted[e] != 0) == now && kept[e / each] != 0) {
          ++rows[e];
          --left;
        }
      }
    }
  }
  return rows;
}

}  // namespace

std::vector<std::int64_t> balanced_rows(const RoutingShape& shape) { return balanced_rows(shape, {}); }

std::vector<std::int64_t> balanced_rows(const RoutingShape& shape, const RouterGroups& router) {
  return routed_rows(balanced_choices(shape), shape, router);
}

std::vector<std::int64_t> first_rank_with_remotes(const RoutingShape& shape) {
  check_shape(shape);
  const std::int64_t experts = shape.experts, stride = (experts + shape.top_k - 1) / shape.top_k;
  const std::int64_t local = experts / shape.ranks;
  std::vector<std::int64_t> rows(static_cast<std::size_t>(local), 0);
  for (std::int64_t t = 0; t < shape.tokens; ++t) {
    const std::int64_t first = shape.tokens >= stride ? t : t * stride / shape.tokens;
    std::int64_t here = 0;
    for (std::int64_t i = 0; i < shape.top_k; ++i) {
      if (const std::int64_t e = (first + i * stride) % experts; e < local) {
        ++rows[static_cast<std::size_t>(e)];
        ++here;
      }
    }
    rows.front() += here > 0 ? shape.top_k - here : 0;
  }
  return rows;
}

std::vector<std::int64_t> power_law_quantiles(const RoutingShape& shape, double alpha) {
  return power_law(shape, alpha, [&](int e) { return (e + 0.5) / shape.experts; });
}

std::vector<std::int64_t> power_law_drawn(const RoutingShape& shape, double alpha, RandomStream& random) {
  return power_law(shape, alpha, [&](int) { return random.uniform(); });
}

std::vector<std::int64_t> power_law_rows(const RoutingShape& shape, double alpha, const RouterGroups& router,
                                         RandomStream& order) {
  std::vector<std::int64_t> rows = power_law_quantiles(shape, alpha);
  for (std::size_t left = rows.size(); left > 1; --left) {
    std::swap(rows[left - 1], rows[order.below(left)]);
  }
  return routed_rows(choices_of(rows, shape), shape, router);
}

std::vector<std::int64_t> busiest_rank(const std::vector<std::int64_t>& rows, int ranks) {
  const std::ptrdiff_t each = static_cast<std::ptrdiff_t>(rows.size()) / ranks;
  auto best = rows.begin();
  std::int64_t most = -1;
  for (auto first = rows.begin(); first != rows.end(); first += each) {
    const std::int64_t sum = std::accumulate(first, first + each, std::int64_t{0});
    if (sum > most) {
      most = sum;
      best = first;
    }
  }
  return {best, best + each};
}

GroupRows summarise_rows(const std::vector<std::int64_t>& rows) {
  GroupRows out;
  for (const std::int64_t r : rows) {
    out.rows += static_cast<double>(r);
    out.groups += r > 0 ? 1 : 0;
    out.rows_max = std::max(out.rows_max, static_cast<double>(r));
  }
  return out;
}

}  // namespace epsim
