// Arithmetic of claims.
#include "sim/reproduce/expression.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <stdexcept>

namespace epsim {
namespace {

const std::map<std::string, std::string> kShorts{{"knee", "goodput.knee_requests_per_s"}};

Measured worked_out(const std::string& text) {
  return parse_expression(text, kShorts).value([](const MetricOf& metric) -> Measured {
    const double base = metric.policy == "a" ? 3 : metric.policy == "b" ? 4 : 8;
    return {metric.other ? 10 * base : base, metric.study == "goodput" ? 0.03 * base / 3 : 0};
  });
}

std::string refused(const std::string& text) {
  try {
    parse_expression(text, kShorts);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "";
}

TEST_CASE("an expression: rank of operators, brackets, from the left") {
  CHECK(worked_out("1 + 2 * 3 - 4 / 8").value == 6.5);
  CHECK(worked_out("(1 + 2) * 3").value == 9);
  CHECK(worked_out("8 / 4 / 2").value == 1);
  CHECK(worked_out("8 - 4 - 2").value == 2);
  CHECK(worked_out("run.x(a) / run.x(b)").value == 0.75);
  CHECK(worked_out("100 * (1 - run.x(a) / run.x(b))").value == 25);
  CHECK(worked_out("run.x(b, other) / run.x(b)").value == 10);
  CHECK(worked_out("largest(run.x(a), run.x(c), run.x(b)) - smallest(run.x(c), run.x(a))").value == 5);
}

TEST_CASE("the largest and the smallest of figures have no value where one has none, in any order") {
  for (const char* text : {"largest(0 / 0, 3)", "largest(3, 0 / 0)", "smallest(0 / 0, 3)", "smallest(3, 0 / 0)",
                           "largest(1 / 0, 3)", "smallest(3, 1 / 0)", "largest(1, 0 / 0, 2)"}) {
    CAPTURE(text);
    CHECK(std::isnan(worked_out(text).value));
  }
}

TEST_CASE("what searches leave open adds as squares: shares of factors, amounts of terms") {
  // 3 % of 3 and 4 % of 4.
  CHECK(worked_out("knee(a) / knee(b)").open == doctest::Approx(0.05));
  CHECK(worked_out("2 * knee(a)").open == doctest::Approx(0.03));
  // 0.09 and 0.16 of a sum of 7.
  CHECK(worked_out("knee(a) + knee(b)").open == doctest::Approx(std::hypot(0.09, 0.16) / 7));
  CHECK(worked_out("largest(knee(a), knee(b))").open == 0.04);
  CHECK(worked_out("run.x(a) / run.x(b)").open == 0);
}

TEST_CASE("an expression that cannot be read says what is wrong") {
  struct Wrong {
    const char *text, *mentions;
  };
  for (const Wrong& wrong : {Wrong{"knee(a) / ", "ends too early"}, Wrong{"knee(a", "')' is missing at the end"},
                             Wrong{"knee(a) 3", "'3'"}, Wrong{"kne(a)", "knee"}, Wrong{"knee", "'(' is missing"},
                             Wrong{"knee(a, there)", "`other` alone"}, Wrong{"knee(a) / (", "ends too early"},
                             Wrong{"knee(a) * * 2", "a name is missing before '* 2'"}, Wrong{"", "ends too early"}}) {
    CAPTURE(wrong.text);
    CHECK_MESSAGE(refused(wrong.text).find(wrong.mentions) != std::string::npos, refused(wrong.text));
  }
}

}  // namespace
}  // namespace epsim
