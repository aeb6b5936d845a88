// The value of a claim's figure: arithmetic on metrics of policies.
//
//   knee(cra8) / knee(eplb)                          a metric of a policy, by one of the file's short names
//   100 * (1 - run.ttft_mean_ms(a) / run.ttft_mean_ms(b))    or by study and name
//   knee(cra8) / knee(cra8, other)                   `other`: on the setup that the figure sets beside this one
//   largest(x(a), x(b), x(c)) / smallest(x(a), x(b), x(c))
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace epsim {

struct MetricOf {
  std::string study, name, policy;
  bool other = false;
};

// A value and the share of it that the searches' brackets leave open; of independent figures the shares add as squares.
struct Measured {
  double value = 0, open = 0;
};

struct Expression {
  char op = '0';  // '0' number, 'm' metric, + - * /, '>' largest, '<' smallest
  double number = 0;
  MetricOf metric;
  std::vector<Expression> parts;

  Measured value(const std::function<Measured(const MetricOf&)>& measure) const;
  // Every metric in it, left to right.
  void each_metric(const std::function<void(const MetricOf&)>& visit) const;
};

// `shorts`: short name to "study.name". Throws std::invalid_argument, saying what is wrong.
Expression parse_expression(const std::string& text, const std::map<std::string, std::string>& shorts);

}  // namespace epsim
