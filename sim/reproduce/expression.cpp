#include "sim/reproduce/expression.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "sim/core/error.h"

namespace epsim {
namespace {

class ExpressionParser {
 public:
  ExpressionParser(const std::string& text, const std::map<std::string, std::string>& shorts)
      : text_(text), shorts_(shorts) {}

  Expression whole() {
    Expression out = sum();
    if (peek() != '\0') {
      fail(fmt::format("'{}' does not belong there", text_.substr(at_)));
    }
    return out;
  }

 private:
  // Operands with operators of one rank between them, from the left.
  template <class Next>
  Expression chain(std::string_view operators, const Next& next) {
    Expression out = next();
    while (peek() != '\0' && operators.find(peek()) != std::string_view::npos) {
      Expression more{.op = text_[at_++], .metric = {}, .parts = {}};
      more.parts.push_back(std::move(out));
      more.parts.push_back(next());
      out = std::move(more);
    }
    return out;
  }

  Expression sum() {
    return chain("+-", [this] { return chain("*/", [this] { return operand(); }); });
  }

  Expression operand() {
    if (take('(')) {
      Expression out = sum();
      need(')');
      return out;
    }
    if (std::isdigit(static_cast<unsigned char>(peek())) != 0) {
      return constant();
    }
    const std::string name = word();
    need('(');
    if (name == "largest" || name == "smallest") {
      Expression out{.op = name == "largest" ? '>' : '<', .metric = {}, .parts = {}};
      do {
        out.parts.push_back(sum());
      } while (take(','));
      need(')');
      return out;
    }
    return metric(name);
  }

  Expression constant() {
    Expression out;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), out.number);
    if (error != std::errc{}) {
      fail(fmt::format("'{}' is not a number", text_.substr(at_)));
    }
    at_ = static_cast<std::size_t>(end - text_.data());
    return out;
  }

  Expression metric(const std::string& name) {
    const auto found = shorts_.find(name);
    const std::string full = found != shorts_.end() ? found->second : name;
    const std::size_t dot = full.find('.');
    if (dot == std::string::npos) {
      std::vector<std::string> known{"largest", "smallest"};
      for (const auto& [one, unused] : shorts_) {
        known.push_back(one);
      }
      fail(unknown_name("short name of a metric (others are written study.metric)", name, known));
    }
    Expression out{.op = 'm', .metric = {full.substr(0, dot), full.substr(dot + 1), word()}, .parts = {}};
    if (take(',')) {
      if (word() != "other") {
        fail("after a policy there may be `other` alone");
      }
      out.metric.other = true;
    }
    need(')');
    return out;
  }

  std::string word() {
    peek();
    const std::size_t from = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_' ||
                                  text_[at_] == '.' || text_[at_] == '-')) {
      ++at_;
    }
    if (at_ == from) {
      fail(at_ == text_.size() ? "it ends too early" : fmt::format("a name is missing before '{}'", text_.substr(at_)));
    }
    return text_.substr(from, at_ - from);
  }

  // The next character that is no space; '\0' at the end.
  char peek() {
    while (at_ < text_.size() && text_[at_] == ' ') {
      ++at_;
    }
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    const bool there = peek() == c;
    at_ += there ? 1 : 0;
    return there;
  }
  void need(char c) {
    if (!take(c)) {
      fail(fmt::format("'{}' is missing {}", c,
                       at_ == text_.size() ? "at the end" : "before '" + text_.substr(at_) + "'"));
    }
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw std::invalid_argument(fmt::format("'{}' cannot be worked out: {}.", text_, what));
  }

  const std::string& text_;
  const std::map<std::string, std::string>& shorts_;
  std::size_t at_ = 0;
};

// The larger one, or the smaller; without a value where one of them has none, in whatever order they stand.
Measured extreme(char op, const Measured& a, const Measured& b) {
  if (!std::isfinite(a.value) || !std::isfinite(b.value)) {
    return {std::numeric_limits<double>::quiet_NaN(), 0};
  }
  return (op == '>' ? b.value > a.value : b.value < a.value) ? b : a;
}

Measured combined(char op, const Measured& a, const Measured& b) {
  if (op == '*') {
    return {a.value * b.value, std::hypot(a.open, b.open)};
  }
  if (op == '/') {
    return {a.value / b.value, std::hypot(a.open, b.open)};
  }
  const double value = op == '+' ? a.value + b.value : a.value - b.value;
  const double open = std::hypot(a.value * a.open, b.value * b.open);
  return {value, open == 0 ? 0 : open / std::abs(value)};
}

}  // namespace

Measured Expression::value(const std::function<Measured(const MetricOf&)>& measure) const {
  if (op == '0') {
    return {number, 0};
  }
  if (op == 'm') {
    return measure(metric);
  }
  Measured out = parts.front().value(measure);
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const Measured next = parts[i].value(measure);
    out = op == '>' || op == '<' ? extreme(op, out, next) : combined(op, out, next);
  }
  return out;
}

void Expression::each_metric(const std::function<void(const MetricOf&)>& visit) const {
  if (op == 'm') {
    visit(metric);
  }
  for (const Expression& part : parts) {
    part.each_metric(visit);
  }
}

Expression parse_expression(const std::string& text, const std::map<std::string, std::string>& shorts) {
  return ExpressionParser(text, shorts).whole();
}

}  // namespace epsim
