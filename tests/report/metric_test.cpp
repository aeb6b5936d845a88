// The metric table: what every row must have, so that each writer can rely on it.
#include "sim/report/metric.h"

#include <doctest/doctest.h>

#include <set>
#include <stdexcept>

#include "sim/report/format.h"

namespace epsim {

TEST_CASE("metrics: each has a name of its own, a section, a sentence and one getter") {
  std::set<std::string> sections, names;
  for (const MetricSection& section : metric_sections()) {
    CHECK(sections.insert(std::string(section.name)).second);
  }
  for (const Metric& m : metrics()) {
    CAPTURE(m.name);
    CHECK(names.insert(m.name).second);
    CHECK(sections.contains(m.section));
    CHECK(m.text.ends_with("."));
    CHECK(m.is_text() == !m.number);
    CHECK(m.is_text() == static_cast<bool>(m.words));
    CHECK(&metric(m.name) == &m);
    CHECK(&metrics()[m.index] == &m);
  }
  CHECK(names.size() > 140);
  CHECK_THROWS_AS(metric("ttft"), std::out_of_range);
}

TEST_CASE("metrics: shares are percentages, latencies are better when lower, rates when higher") {
  for (const Metric& m : metrics()) {
    CAPTURE(m.name);
    CHECK((m.unit == "share") == (m.form == Form::kPercent));
    CHECK((m.unit == "share") == m.name.ends_with("_share"));
    if (m.section == "latency" && m.unit == "ms") {
      CHECK(m.better == Better::kLower);
    }
    if (m.section == "throughput" && m.name.find("offered") == std::string::npos && m.unit == "1/s") {
      CHECK(m.better == Better::kHigher);
    }
  }
}

TEST_CASE("metrics: what is text or an index has no mean, and what is compared over seeds has one") {
  CHECK_FALSE(has_mean("balancedness_worst_layer"));
  CHECK_FALSE(has_mean("fingerprint"));
  CHECK(has_mean("balancedness_worst_layer_mean"));
  CHECK(has_mean("knee_requests_per_s"));  // of a search
  for (const Metric& m : metrics()) {
    CAPTURE(m.name);
    CHECK((m.has_mean() || m.key.title.empty()));
  }
  CHECK(shown(Form::kIndex, 12) == "12");
}

TEST_CASE("metrics: key figures have places of their own, and columns on the terminal have units") {
  std::set<int> places;
  for (const Metric& m : metrics()) {
    CAPTURE(m.name);
    const bool has_place = m.key.has_column() || !m.key.label.empty();
    CHECK(has_place == (m.key.place > 0));
    CHECK((!has_place || places.insert(m.key.place).second));
    CHECK((!m.key.over_seeds || (m.key.has_column() && !m.key.title.empty())));
  }
  REQUIRE(key_columns().size() == 11);
  CHECK(key_columns().front()->name == "requests_per_s");
  CHECK(page_figures().front()->name == "requests_per_s");
}

TEST_CASE("metrics: a figure is shown with the digits of its form") {
  CHECK(shown(Form::kCount, 1234567) == "1,234,567");
  CHECK(shown(Form::kCount, kUndefined) == "-");
  CHECK(shown(Form::kPercent, 0.1234) == "12.3");
  CHECK(shown(Form::kThreeDigits, 0.75) == "0.750");
  CHECK(shown(Form::kNumber, 12.345678) == "12.35");
}

}  // namespace epsim
