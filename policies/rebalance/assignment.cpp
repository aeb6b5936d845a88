#include "policies/rebalance/assignment.h"

#include <cstddef>
#include <limits>

namespace epsim {
namespace {

// Rows are assigned one after another, each by the cheapest chain of reassignments. Index 0 stands for "no row" and "no
// column", so that rows and columns count from 1. cost = -gain; row_price + column_price <= cost throughout.
class Assignment {
 public:
  explicit Assignment(const std::vector<std::vector<int>>& gain)
      : gain_(gain), row_price_(gain.size() + 1, 0), column_price_(gain.size() + 1, 0), row_of_(gain.size() + 1, 0) {}

  void assign(std::size_t row) {
    row_of_[0] = row;
    slack_.assign(row_of_.size(), kInfinity);
    from_.assign(row_of_.size(), 0);
    reached_.assign(row_of_.size(), false);
    std::size_t column = 0;
    while (row_of_[column] != 0) {
      column = extend(column);
    }
    while (column != 0) {  // hand the columns along the chain over
      row_of_[column] = row_of_[from_[column]];
      column = from_[column];
    }
  }

  std::vector<int> columns() const {
    std::vector<int> out(gain_.size());
    for (std::size_t column = 1; column < row_of_.size(); ++column) {
      out[row_of_[column] - 1] = static_cast<int>(column) - 1;
    }
    return out;
  }

 private:
  static constexpr long kInfinity = std::numeric_limits<long>::max();

  // Marks `column` as reached and returns the cheapest column not yet reached.
  std::size_t extend(std::size_t column) {
    reached_[column] = true;
    const std::size_t row = row_of_[column];
    long step = kInfinity;
    std::size_t next = 0;
    for (std::size_t j = 1; j < row_of_.size(); ++j) {
      if (reached_[j]) {
        continue;
      }
      const long reduced = -static_cast<long>(gain_[row - 1][j - 1]) - row_price_[row] - column_price_[j];
      if (reduced < slack_[j]) {
        slack_[j] = reduced;
        from_[j] = column;
      }
      if (slack_[j] < step) {
        step = slack_[j];
        next = j;
      }
    }
    for (std::size_t j = 0; j < row_of_.size(); ++j) {
      if (reached_[j]) {
        row_price_[row_of_[j]] += step;
        column_price_[j] -= step;
      } else if (slack_[j] != kInfinity) {
        slack_[j] -= step;
      }
    }
    return next;
  }

  const std::vector<std::vector<int>>& gain_;
  std::vector<long> row_price_, column_price_, slack_;
  std::vector<std::size_t> row_of_, from_;
  std::vector<bool> reached_;
};

}  // namespace

std::vector<int> best_assignment(const std::vector<std::vector<int>>& gain) {
  Assignment problem(gain);
  for (std::size_t row = 1; row <= gain.size(); ++row) {
    problem.assign(row);
  }
  return problem.columns();
}

}  // namespace epsim
