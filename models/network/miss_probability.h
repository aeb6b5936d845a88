// The chance that a token uses none of some copies, when it uses exactly top-k different experts.
//
//   Models : a token that uses expert e with chance pi_e and one of its copies with that copy's share. Experts would be
//            missed independently, with chance prod (1 - pi_e * share), if their number were free. It is fixed: who
//            missed some is more likely to use the others, which makes any two experts a little exclusive, by
//            1 - pi_i (1 - pi_i) pi_j (1 - pi_j) / V in the chance to use both, V = sum of pi (1 - pi) over all
//            experts. All pairs of a set of copies together: exp(-(s^2 - sum u^2) / 2V), s = sum u, where u is pi for
//            an expert that the set holds wholly and less where other copies share its tokens (their choice is
//            independent).
//   Source : J. Hajek, Asymptotic theory of rejective sampling with varying probabilities from a finite population,
//            Ann. Math. Statist. 35 (1964), theorem 5.2 (the chance of pairs); the product over pairs is derived here.
//   Valid  : V of a few units or more, as for top-k of many experts: within 1 % of the chance to be reached for sets
//            of up to half of all experts. For deterministic routing (V = 0) the product is exact.
#pragma once

#include <cmath>
#include <span>

#include "sim/core/vector_exp.h"

namespace epsim {

class MissProbability {
 public:
  // A copy of an expert used with chance `pi` that takes `share` of its tokens. Every expert once: copies of one expert
  // exclude each other and are added as one, with the sum of their shares.
  void add(double pi, double share) {
    const double used = pi * share;
    // pi (1 - pi) / (1 - used), times the share; 1 / (1 - used) as a series, for a share is at most half or so here.
    const double u = share == 1.0 ? used : used * (1.0 - pi) * (1.0 + used * (1.0 + used));
    missed_ *= 1.0 - used;
    sum_ += u;
    squares_ += u * u;
  }

  // As if all of the other's copies had been added.
  void add(const MissProbability& other) {
    missed_ *= other.missed_;
    sum_ += other.sum_;
    squares_ += other.squares_;
  }

  // Of two sets together, the pairs that have one expert in each are 2 sum() sum().
  double sum() const { return sum_; }

  // `weight` is pair_weight() of all experts; 0 leaves the experts independent.
  double value(double weight) const { return missed_ * exp_of_minus(pairs() * weight); }
  // The same to the power of how the experts are used together (JointUse).
  double value(double weight, double power) const {
    return exp_of(power * (log_of(missed_ > kLeast ? missed_ : kLeast) - pairs() * weight));
  }
  static constexpr double kLeast = 1e-12;  // that is told from 0: a token has at most a few dozen experts

  // exp(-x), within 1e-8 below kSmall. Most sets hold a few experts, and the hot loops ask for each GPU of each layer.
  static constexpr double kSmall = 0.03;
  static double exp_of_minus(double x) { return x < kSmall ? exp_of_small(x) : std::exp(-x); }
  static double exp_of_small(double x) { return 1.0 - x * (1.0 - x * (0.5 - x * (1.0 / 6.0 - x / 24.0))); }

 private:
  double pairs() const { return sum_ * sum_ - squares_; }

  double missed_ = 1, sum_ = 0, squares_ = 0;
};

// 1 / 2V; 0 where nothing is random.
double pair_weight(std::span<const float> pi);

}  // namespace epsim
