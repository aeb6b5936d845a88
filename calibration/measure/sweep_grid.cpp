#include <algorithm>
#include <array>
#include <set>

#include "calibration/measure/rows.h"
#include "calibration/measure/shapes.h"
#include "calibration/measure/sweep_plan.h"
#include "sim/core/check.h"

namespace epsim::measure {
namespace {

constexpr std::int64_t kMostRows = 8192;  // of one group
constexpr double kMostFlops = 8e13;       // of one execution: a fifth of a second on an A100
constexpr double kMostShare = 0.4;        // of device memory for one buffer set

std::vector<double> powers(double from, double to, double factor) {
  std::vector<double> out;
  for (double x = from; x <= to; x *= factor) {
    out.push_back(x);
  }
  return out;
}

struct Grid {
  const OpSpec& op;
  const GpuFacts& facts;
  std::vector<PlannedPoint> points = {};

  void add(std::vector<double> values, std::vector<std::int64_t> rows = {}) {
    EPSIM_CHECK(values.size() == op.columns.size(), "one value per column");
    const Work work = op.work(values);
    const bool fits = facts.memory.count() <= 0 || work.bytes.count() <= kMostShare * facts.memory.count();
    if (work.flops.count() <= kMostFlops && fits) {
      points.push_back({&op, std::move(values), std::move(rows), {}, {}});
    }
  }
};

void add_rows(Grid& grid, const ExpertShape& e, int groups, std::int64_t total, RowDistribution distribution,
              std::span<const double> load) {
  const std::vector<double> weights =
      distribution == RowDistribution::kTrace ? busiest_block(load, groups) : std::vector<double>{};
  std::vector<std::int64_t> rows = split_rows(distribution, groups, total, weights);
  const RowShape s = shape_of(rows);
  if (s.rows_max > kMostRows) {
    return;
  }
  const auto number = [](auto x) { return static_cast<double>(x); };
  grid.add({number(s.rows), number(s.groups_hit), number(s.rows_max), number(e.hidden), number(e.intermediate),
            number(s.rows), number(groups), number(s.tiles_64), number(s.tiles_128), number(distribution)},
           std::move(rows));
}

void grouped_grid(Grid& grid, const SweepShapes& shapes, std::span<const double> load) {
  std::set<std::pair<int, int>> seen;
  for (const ExpertShape& e : shapes.experts) {
    if (!seen.insert({e.hidden, e.intermediate}).second) {
      continue;
    }
    for (int groups = 1; groups <= std::min(64, e.experts); groups *= 2) {
      for (std::int64_t rows = 1; rows <= kMostRows; rows *= 2) {
        add_rows(grid, e, groups, rows * groups, RowDistribution::kEven, load);
        if (groups > 1) {
          add_rows(grid, e, groups, rows * groups, RowDistribution::kZipf, load);
          add_rows(grid, e, groups, rows, RowDistribution::kOneHot, load);
        }
        if (groups > 1 && load.size() >= static_cast<std::size_t>(groups)) {
          const auto block = busiest_block(load, groups);
          if (std::any_of(block.begin(), block.end(), [](double w) { return w > 0; })) {
            add_rows(grid, e, groups, rows * groups, RowDistribution::kTrace, load);
          }
        }
      }
    }
  }
}

void gemm_grid(Grid& grid, const SweepShapes& shapes) {
  for (const Projection& p : shapes.projections) {
    for (const double m : powers(1, 16384, 2)) {
      grid.add({m, static_cast<double>(p.n), static_cast<double>(p.k)});
    }
  }
  for (const Projection& p : shapes.heads) {
    for (const double m : powers(1, 1024, 2)) {  // sequences that get a token, not tokens
      grid.add({m, static_cast<double>(p.n), static_cast<double>(p.k)});
    }
  }
}

void token_grid(Grid& grid, const SweepShapes& shapes) {
  std::set<std::vector<double>> seen;
  const auto add_once = [&](std::vector<double> values) {
    if (seen.insert(values).second) {
      grid.add(std::move(values));
    }
  };
  for (const ExpertShape& e : shapes.experts) {
    const double hidden = e.hidden, inner = e.intermediate, experts = e.experts, top_k = e.top_k;
    for (const double rows : powers(1, 65536, 2)) {
      if (grid.op.name == "gate" && rows <= 16384) {
        add_once({rows, hidden, experts, top_k});
      } else if (grid.op.name == "permute" || grid.op.name == "unpermute") {
        add_once({rows, hidden, top_k});
        add_once({rows, hidden, 1});  // rows that came from other GPUs: each has one place here
      } else if (grid.op.name == "activation") {
        add_once({rows, inner});
      } else if (grid.op.name == "norm") {
        add_once({rows, hidden});
      }
    }
  }
}

// Inside a node and between nodes apart: all sizes of one node, one GPU of each node, and all GPUs of all nodes.
std::vector<std::array<int, 2>> communicators(const GpuFacts& facts) {
  std::vector<std::array<int, 2>> out;
  for (int ranks = 2; ranks < facts.gpus; ranks *= 2) {
    out.push_back({ranks, 1});
  }
  out.push_back({facts.gpus, 1});
  if (facts.nodes > 1) {
    out.push_back({facts.nodes, facts.nodes});
    if (facts.gpus > 1) {
      out.push_back({facts.gpus * facts.nodes, facts.nodes});
    }
  }
  return out;
}

void collective_grid(Grid& grid) {
  for (const auto& [ranks, nodes] : communicators(grid.facts)) {
    if (ranks > 1) {
      for (const double bytes : powers(512, 1 << 30, 2)) {
        grid.add({bytes, static_cast<double>(ranks), static_cast<double>(nodes)});
      }
    }
  }
}

void simple_grid(Grid& grid) {
  for (const double x : powers(512, 1 << 30, 2)) {
    grid.add({x});
  }
}

}  // namespace

std::vector<PlannedPoint> grid_of(const OpSpec& op, const SweepRequest& request, const GpuFacts& facts) {
  const SweepShapes shapes = shapes_of(request.models);
  Grid grid{op, facts};
  if (op.name.starts_with("grouped_gemm")) {
    grouped_grid(grid, shapes, request.expert_load);
  } else if (op.name.starts_with("dense_gemm")) {
    gemm_grid(grid, shapes);
  } else if (op.kind == OpKind::kCollective) {
    collective_grid(grid);
  } else if (op.columns.size() == 1) {
    simple_grid(grid);
  } else {
    token_grid(grid, shapes);
  }
  return std::move(grid.points);
}

}  // namespace epsim::measure
