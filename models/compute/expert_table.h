// Prices of the grouped expert GEMM on a grid: every GPU of every layer of every step asks for one.
//
//   Models : rows per touched expert from 1 to 2^20 in eighths of an octave, touched experts from 1 to 2^10 in
//            quarters; linear between. A price is as certain as the weakest of the grid's prices that it is made
//            from. Tokens that come in and go out beside the rows cost the same each, at a point of the grid, and a price
//            is no less than the least there.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "sim/domain/cost.h"

namespace epsim {

class ExpertTable {
 public:
  // Nothing in it; at() is not to be called.
  ExpertTable() = default;
  // At every point of the grid (rows per expert, experts): the price, the time that each token adds to it, and the least that
  // both together can be.
  struct Point {
    Price price;
    Seconds each_token{}, least{};
  };
  explicit ExpertTable(const std::function<Point(double, double)>& point);

  bool empty() const { return seconds_.empty(); }
  // `rows` rows on `touched` experts, fewer than one of which count as one; no rows take no time.
  Price at(double rows, double touched, double tokens = 0) const;
  // The same for several GPUs: rows[i] and touched[i] give out[i].
  void at(std::span<const double> rows, std::span<const double> touched, double tokens, PriceRow& out) const;

 private:
  std::vector<double> seconds_, each_token_, least_;  // [experts][rows per expert]
  // [place][0: on the grid; 1: between two numbers of rows; 2: between two numbers of experts; 3: both] the weakest.
  // Last of all, that of no work.
  std::vector<Origin> origin_;
};

}  // namespace epsim
