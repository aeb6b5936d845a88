#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "policies/placement/grace/grouping.h"
#include "sim/core/check.h"

namespace epsim {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr int kRestarts = 10;
constexpr int kMaxRounds = 100;  // Lloyd's algorithm ends long before on some hundred points

// One row per expert: its place in the space of the smallest eigenvectors.
Matrix spectral_embedding(const AffinityMatrix& affinity, int dimensions) {
  const Eigen::Index n = affinity.size();
  const Eigen::Map<const Matrix> a(affinity.values().data(), n, n);
  Eigen::VectorXd scale = a.rowwise().sum();
  scale = scale.unaryExpr([](double degree) { return degree > 0 ? 1 / std::sqrt(degree) : 0.0; });
  const Eigen::MatrixXd laplacian =
      Eigen::MatrixXd::Identity(n, n) - Eigen::MatrixXd(scale.asDiagonal() * a * scale.asDiagonal());
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(laplacian);
  EPSIM_CHECK(solver.info() == Eigen::Success, "a symmetric matrix has eigenvectors");
  Matrix rows = solver.eigenvectors().leftCols(dimensions);
  for (Eigen::Index i = 0; i < n; ++i) {
    const double length = rows.row(i).norm();
    if (scale[i] == 0.0 || length < 1e-12) {
      rows.row(i).setZero();
    } else {
      rows.row(i) /= length;
    }
  }
  return rows;
}

class KMeans {
 public:
  KMeans(const Matrix& points, int clusters, RandomStream random)
      : points_(points), centres_(clusters, points.cols()), label_(static_cast<std::size_t>(points.rows()), 0) {
    seed(random);
    for (int round = 0; round < kMaxRounds && assign(); ++round) {
      move_centres();
    }
  }
  const std::vector<int>& labels() const { return label_; }
  double inertia() const {
    double sum = 0;
    for (std::size_t i = 0; i < label_.size(); ++i) {
      sum += distance(i, label_[i]);
    }
    return sum;
  }

 private:
  double distance(std::size_t point, int cluster) const {
    return (points_.row(static_cast<Eigen::Index>(point)) - centres_.row(cluster)).squaredNorm();
  }

  // k-means++: the next centre is a point drawn by its squared distance from the nearest centre so far.
  void seed(RandomStream& random) {
    std::vector<double> nearest(label_.size(), std::numeric_limits<double>::infinity());
    std::size_t chosen = random.below(label_.size());
    for (int c = 0; c < centres_.rows(); ++c) {
      centres_.row(c) = points_.row(static_cast<Eigen::Index>(chosen));
      for (std::size_t i = 0; i < nearest.size(); ++i) {
        nearest[i] = std::min(nearest[i], distance(i, c));
      }
      const double mark = random.uniform() * std::accumulate(nearest.begin(), nearest.end(), 0.0);
      double passed = 0;
      chosen = 0;  // where every point is a centre already
      for (std::size_t i = 0; i < nearest.size() && passed <= mark; ++i) {
        passed += nearest[i];
        chosen = nearest[i] > 0 ? i : chosen;
      }
    }
  }

  // Every point to its nearest centre; true when something changed.
  bool assign() {
    const std::vector<int> before = label_;
    std::vector<int> size(static_cast<std::size_t>(centres_.rows()), 0);
    for (std::size_t i = 0; i < label_.size(); ++i) {
      int best = 0;
      for (int c = 1; c < centres_.rows(); ++c) {
        best = distance(i, c) < distance(i, best) ? c : best;
      }
      label_[i] = best;
      ++size[static_cast<std::size_t>(best)];
    }
    for (std::size_t c = 0; c < size.size(); ++c) {
      if (size[c] == 0) {
        reseed(static_cast<int>(c), size);
      }
    }
    return label_ != before || first_round_++ == 0;
  }

  // An empty cluster takes the point that is farthest from its own centre, out of a cluster that can spare it.
  void reseed(int cluster, std::vector<int>& size) {
    std::size_t farthest = label_.size();
    for (std::size_t i = 0; i < label_.size(); ++i) {
      const bool spare = size[static_cast<std::size_t>(label_[i])] > 1;
      if (spare && (farthest == label_.size() || distance(i, label_[i]) > distance(farthest, label_[farthest]))) {
        farthest = i;
      }
    }
    EPSIM_CHECK(farthest < label_.size(), "there are at least as many points as clusters");
    --size[static_cast<std::size_t>(label_[farthest])];
    label_[farthest] = cluster;
    size[static_cast<std::size_t>(cluster)] = 1;
    centres_.row(cluster) = points_.row(static_cast<Eigen::Index>(farthest));
  }

  void move_centres() {
    centres_.setZero();
    std::vector<int> size(static_cast<std::size_t>(centres_.rows()), 0);
    for (std::size_t i = 0; i < label_.size(); ++i) {
      centres_.row(label_[i]) += points_.row(static_cast<Eigen::Index>(i));
      ++size[static_cast<std::size_t>(label_[i])];
    }
    for (std::size_t c = 0; c < size.size(); ++c) {
      centres_.row(static_cast<Eigen::Index>(c)) /= size[c];
    }
  }

  const Matrix& points_;
  Matrix centres_;
  std::vector<int> label_;
  int first_round_ = 0;
};

}  // namespace

Grouping spectral_groups(const AffinityMatrix& affinity, int groups, Seed seed) {
  EPSIM_CHECK(groups >= 1 && groups <= affinity.size(), "every group gets an expert");
  const Matrix points = spectral_embedding(affinity, groups);
  std::vector<int> labels;
  double lowest = std::numeric_limits<double>::infinity();
  for (int restart = 0; restart < kRestarts; ++restart) {
    const KMeans attempt(points, groups, RandomStream(seed, "grace k-means", static_cast<std::uint64_t>(restart)));
    const double inertia = attempt.inertia();
    if (inertia < lowest) {
      lowest = inertia;
      labels = attempt.labels();
    }
  }
  Grouping out(static_cast<std::size_t>(groups));
  for (std::size_t e = 0; e < labels.size(); ++e) {
    out[static_cast<std::size_t>(labels[e])].push_back(static_cast<int>(e));
  }
  return out;
}

}  // namespace epsim
