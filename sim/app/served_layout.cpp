#include "sim/app/served_layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <limits>
#include <map>

#include "sim/core/config.h"
#include "sim/core/mapped.h"
#include "sim/core/refuse.h"
#include "traces/format/csv.h"
#include "traces/requests/json_records.h"

namespace epsim::app {
namespace {

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();
constexpr double kEver = std::numeric_limits<double>::infinity();
constexpr std::string_view kBuiltIn[] = {"file", "run"};

using Columns = std::map<std::string, std::string, std::less<>>;

// {a*b/c}: from the left.
struct Placeholder {
  std::vector<std::string> operands;
  std::string operators;  // one between each two
};

Placeholder parse_placeholder(std::string_view text) {
  Placeholder out;
  std::string operand;
  for (const char c : text) {
    if (c == '*' || c == '/') {
      out.operands.push_back(operand);
      out.operators += c;
      operand.clear();
    } else {
      operand += c;
    }
  }
  out.operands.push_back(operand);
  return out;
}

bool is_placeholder(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '*' || c == '/';
  });
}

// The text with what `take` gives in place of each placeholder. Other braces are YAML's.
template <class Take>
std::string replace_placeholders(const std::string& text, const Take& take) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t close = text[at] == '{' ? text.find('}', at) : std::string::npos;
    const std::string_view inside =
        close == std::string::npos ? "" : std::string_view(text).substr(at + 1, close - at - 1);
    const bool placeholder = is_placeholder(inside);
    out += placeholder ? take(parse_placeholder(inside)) : text.substr(at, 1);
    at = placeholder ? close + 1 : at + 1;
  }
  return out;
}

std::string text_at(const Columns& columns, const std::string& name) {
  const auto found = columns.find(name);
  return found != columns.end() ? found->second : "";
}

double number_at(const Columns& columns, const std::string& name) {
  return parse_number(text_at(columns, name)).value_or(parse_number(name).value_or(kNothing));
}

// Empty where a column has no number.
std::string computed(const Placeholder& p, const Columns& columns) {
  if (p.operands.size() == 1) {
    return text_at(columns, p.operands.front());
  }
  double value = number_at(columns, p.operands.front());
  for (std::size_t i = 0; i < p.operators.size(); ++i) {
    const double by = number_at(columns, p.operands[i + 1]);
    value = p.operators[i] == '*' ? value * by : value / by;
  }
  return std::isfinite(value) ? fmt::format("{}", std::llround(value)) : "";
}

// ---- the layout ----

std::vector<std::string> known_columns(const ServedLayout& layout) {
  std::vector<std::string> out = layout.flags;
  out.insert(out.end(), layout.columns.begin(), layout.columns.end());
  out.insert(out.end(), std::begin(kBuiltIn), std::end(kBuiltIn));
  for (const auto& [name, formula] : layout.derived) {
    out.push_back(name);
  }
  out.insert(out.end(), layout.lookup.names.begin(), layout.lookup.names.end());
  return out;
}

void check_column(const ConfigReader& in, const std::string& key, const std::string& name, const ServedLayout& layout) {
  const std::vector<std::string> known = known_columns(layout);
  in.check(std::find(known.begin(), known.end(), name) != known.end(), key, unknown_name("column", name, known));
}

void check_text(const ConfigReader& in, const std::string& key, const std::string& text, const ServedLayout& layout) {
  replace_placeholders(text, [&](const Placeholder& p) {
    for (const std::string& operand : p.operands) {
      if (!parse_number(operand)) {
        check_column(in, key, operand, layout);
      }
    }
    return std::string();
  });
}

std::vector<std::pair<std::string, std::string>> read_texts(ConfigReader in) {
  auto out = mapped(in.keys(), [&](const std::string& key) { return std::pair(key, in.required<std::string>(key)); });
  in.finish();
  return out;
}

std::vector<std::string> one_or_several(ConfigReader& in, const std::string& key) {
  const bool several = in.problem_of(key, ValueType::kText, {}).has_value();
  return several ? in.required<std::vector<std::string>>(key) : std::vector<std::string>{in.required<std::string>(key)};
}

double day_of(const std::string& date) {
  int year = 0;
  unsigned month = 0, day = 0;
  if (std::sscanf(date.c_str(), "%d-%u-%u", &year, &month, &day) != 3) {
    return kNothing;
  }
  const std::chrono::year_month_day when{std::chrono::year(year), std::chrono::month(month), std::chrono::day(day)};
  return when.ok() ? static_cast<double>(std::chrono::sys_days(when).time_since_epoch().count()) : kNothing;
}

double read_day(ConfigReader& in, const std::string& key, const ServedLayout& layout, double fallback) {
  const std::optional<std::string> text = in.maybe<std::string>(key);
  if (!text) {
    return fallback;
  }
  in.check(!layout.date.empty(), key, "the layout names no column with a date.");
  const double day = day_of(*text);
  in.check(std::isfinite(day), key, fmt::format("'{}' is no day; write year-month-day.", *text));
  return day;
}

ServedRule read_rule(ConfigReader in, const ServedLayout& layout) {
  ServedRule rule;
  rule.since = read_day(in, "since", layout, -kEver);
  rule.before = read_day(in, "before", layout, kEver);
  ConfigReader when = in.section("when"), set = in.section("set");
  for (const std::string& column : when.keys()) {
    check_column(when, column, column, layout);
    rule.when.emplace_back(column, one_or_several(when, column));
  }
  for (auto& [key, value] : set.rest()) {
    check_text(set, key, value, layout);
    rule.set.emplace_back(key, value);
  }
  rule.note = in.optional<std::string>("note", "");
  rule.unexpressed = in.optional<std::string>("unexpressed", "");
  in.optional<std::string>("source", "");
  check_text(in, "note", rule.note, layout);
  check_text(in, "unexpressed", rule.unexpressed, layout);
  in.check(rule.unexpressed.empty() || (rule.set.empty() && rule.note.empty()), "unexpressed",
           "a rule says why a point cannot be expressed, or sets keys.");
  when.finish();
  in.finish();
  return rule;
}

// A table whose columns are the layout's, which have to fit, and others, which it adds.
ServedLookup read_lookup(const ConfigReader& in, const std::filesystem::path& file, const ServedLayout& layout) {
  ByteInput input(file);
  CsvReader csv(input);
  ServedLookup out;
  const std::vector<std::string> known = known_columns(layout);
  for (const std::string& name : csv.header()) {
    (std::find(known.begin(), known.end(), name) != known.end() ? out.keys : out.names).push_back(name);
  }
  in.check(!out.keys.empty() && !out.names.empty(), "lookup",
           fmt::format("{} needs columns of the layout, by which its rows are found, and others.",
                       file.filename().string()));
  const auto texts = [&](const std::vector<std::string>& names) {
    return mapped(names, [&](const std::string& name) { return std::string(csv.text(*csv.find_column(name))); });
  };
  while (csv.next()) {
    out.rows.push_back({texts(out.keys), texts(out.names)});
  }
  return out;
}

// "ttft_ms: median_ttft_ms"
void read_measured(ConfigReader in, ServedLayout& out) {
  for (std::size_t m = 0; m < kServedMetrics.size(); ++m) {
    for (const auto& [ending, unit] : {std::pair{"_s", 1.0}, std::pair{"_ms", 1e-3}}) {
      const std::string key = std::string(kServedMetrics[m]) + ending;
      if (in.has(key)) {
        in.check(out.measured[m].columns.empty(), key, "this is given in another unit, too.");
        out.measured[m] = {one_or_several(in, key), unit};
      }
    }
  }
  in.finish();
  in.check(std::any_of(out.measured.begin(), out.measured.end(), [](const auto& one) { return !one.columns.empty(); }),
           "", "measured names the column of one of ttft_s, ttft_ms, tpot_s, tpot_ms, e2e_s, e2e_ms.");
}

// ---- rows ----

// One of the texts that are wanted, and none of those behind a `!`.
bool fits(const std::vector<std::string>& texts, const std::string& text) {
  bool wanted = false, found = false;
  for (const std::string& one : texts) {
    if (one.starts_with('!')) {
      if (text == one.substr(1)) {
        return false;
      }
      continue;
    }
    wanted = true;
    const std::string_view begin = std::string_view(one).substr(0, one.size() - 1);
    found = found || (one.ends_with('*')     ? !text.empty() && text.starts_with(begin)
                      : one.starts_with('*') ? text.ends_with(std::string_view(one).substr(1))
                                             : one == text);
  }
  return found || !wanted;
}

bool applies(const ServedRule& rule, const Columns& columns, double day) {
  const bool dated = rule.since > -kEver || rule.before < kEver;
  if (dated && !(day >= rule.since && day < rule.before)) {
    return false;
  }
  return std::all_of(rule.when.begin(), rule.when.end(),
                     [&](const auto& condition) { return fits(condition.second, text_at(columns, condition.first)); });
}

// Fills the texts of a rule in; a column without a text is a reason not to express the point.
void apply_rule(const ServedRule& rule, const Columns& columns, ServedPoint& out) {
  const auto filled = [&](const std::string& text) {
    return replace_placeholders(text, [&](const Placeholder& p) {
      std::string value = computed(p, columns);
      if (value.empty()) {
        out.reasons.push_back(fmt::format("the table has no {}", fmt::join(p.operands, ", ")));
      }
      return value;
    });
  };
  if (!rule.unexpressed.empty()) {
    out.reasons.push_back(filled(rule.unexpressed));
    return;
  }
  for (const auto& [key, value] : rule.set) {
    out.assignments.push_back(key + "=" + filled(value));
  }
  if (!rule.note.empty()) {
    out.notes.push_back(filled(rule.note));
  }
}

void look_up(const ServedLookup& lookup, Columns& columns) {
  const auto has_keys = [&](const ServedLookup::Row& row) {
    for (std::size_t k = 0; k < lookup.keys.size(); ++k) {
      if (!row.keys[k].empty() && row.keys[k] != text_at(columns, lookup.keys[k])) {
        return false;
      }
    }
    return true;
  };
  const auto found = std::find_if(lookup.rows.begin(), lookup.rows.end(), has_keys);
  for (std::size_t n = 0; n < lookup.names.size(); ++n) {
    columns[lookup.names[n]] = found != lookup.rows.end() ? found->texts[n] : "";
  }
}

ServedPoint point_of(Columns& columns, const ServedLayout& layout, int row) {
  columns["run"] = fmt::format("{}", row);
  for (const auto& [name, formula] : layout.derived) {
    columns[name] = replace_placeholders(formula, [&](const Placeholder& p) { return computed(p, columns); });
  }
  look_up(layout.lookup, columns);
  ServedPoint out;
  out.row = row;
  out.flags = mapped(layout.flags, [&](const std::string& flag) { return text_at(columns, flag); });
  out.groups = mapped(layout.groups, [&](const auto& group) { return text_at(columns, group.second); });
  out.in_flight = number_at(columns, layout.in_flight);
  out.day = day_of(text_at(columns, layout.date));
  for (std::size_t m = 0; m < kServedMetrics.size(); ++m) {
    out.measured[m] = kNothing;
    for (const std::string& column : layout.measured[m].columns) {
      const double value = parse_number(text_at(columns, column)).value_or(kNothing) * layout.measured[m].unit_s;
      out.measured[m] = value > 0 && !std::isfinite(out.measured[m]) ? value : out.measured[m];
    }
  }
  for (const ServedRule& rule : layout.rules) {
    if (applies(rule, columns, out.day)) {
      apply_rule(rule, columns, out);
    }
  }
  return out;
}

std::vector<std::string> columns_of_file(const ServedLayout& layout) {
  std::vector<std::string> out = layout.flags;
  out.insert(out.end(), layout.columns.begin(), layout.columns.end());
  for (const ServedMeasure& measure : layout.measured) {
    out.insert(out.end(), measure.columns.begin(), measure.columns.end());
  }
  out.push_back(layout.date);
  std::erase(out, "");
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

std::string text_of_field(const nlohmann::json& field) {
  return field.is_number()                    ? fmt::format("{}", field.get<double>())
         : field.is_string()                  ? field.get<std::string>()
         : field.is_array() && !field.empty() ? "list"
                                              : "";
}

std::vector<ServedPoint> read_json_points(ByteInput& input, const ServedLayout& layout) {
  const std::vector<std::string> names = columns_of_file(layout);
  std::vector<std::string_view> fields(names.begin(), names.end());
  fields.emplace_back("server_info");  // of sglang.bench_serving: its keys follow that name
  std::vector<ServedPoint> out;
  read_json_records(input, fields, [&](const JsonRecord& record) {
    Columns columns{{"file", input.name()}};
    for (const auto& [name, value] : record.fields.items()) {
      columns[name] = text_of_field(value);
      if (value.is_object()) {
        for (const auto& [key, inner] : value.items()) {
          columns[name + "_" + key] = text_of_field(inner);
        }
      }
    }
    out.push_back(point_of(columns, layout, static_cast<int>(out.size()) + 1));
  });
  return out;
}

std::vector<ServedPoint> read_csv_points(ByteInput& input, const ServedLayout& layout) {
  CsvReader csv(input);
  const std::vector<std::string> names = columns_of_file(layout);
  std::vector<std::string> missing;
  std::copy_if(names.begin(), names.end(), std::back_inserter(missing),
               [&](const std::string& name) { return !csv.find_column(name); });
  refuse_if(!missing.empty(), {input.name(), 1, ""},
            fmt::format("the table lacks columns that {} reads: {}. Name the layout of this table with "
                        "--layout (experiments/served/README.md).",
                        layout.file.filename().string(), fmt::join(missing, ", ")));
  std::vector<ServedPoint> out;
  while (csv.next()) {
    Columns columns{{"file", input.name()}};
    for (const std::string& name : names) {
      columns[name] = csv.text(*csv.find_column(name));
    }
    out.push_back(point_of(columns, layout, static_cast<int>(out.size()) + 1));
  }
  return out;
}

}  // namespace

ServedLayout read_served_layout(const std::filesystem::path& file) {
  const Config config = Config::from_file(file);
  ConfigReader in = config.root();
  ServedLayout out;
  out.file = file;
  out.scenario = in.maybe_path("scenario");
  out.flags = in.required<std::vector<std::string>>("flags");
  out.columns = in.optional<std::vector<std::string>>("columns", {});
  out.deployment = in.optional<std::vector<std::string>>("deployment", {});
  for (const std::string& flag : out.deployment) {
    in.check(std::ranges::find(out.flags, flag) != out.flags.end(), "deployment",
             unknown_name("flag", flag, out.flags));
  }
  out.derived = read_texts(in.section("derived"));
  out.groups = read_texts(in.section("groups"));
  out.in_flight = in.required<std::string>("in_flight");
  out.date = in.optional<std::string>("date", "");
  if (const auto lookup = in.maybe_path("lookup")) {
    out.lookup = read_lookup(in, *lookup, out);
  }
  read_measured(in.required_section("measured"), out);
  out.means = in.choice("statistic", {"median", "mean"}, "median") == "mean";
  check_column(in, "in_flight", out.in_flight, out);
  for (const auto& [name, formula] : out.derived) {
    check_text(in, "derived", formula, out);
  }
  for (const auto& [heading, column] : out.groups) {
    check_column(in, "groups", column, out);
  }
  for (ConfigReader& rule : in.list_of_sections("rules")) {
    out.rules.push_back(read_rule(rule, out));
  }
  in.finish();
  return out;
}

bool is_json_lines(const std::filesystem::path& file) {
  ByteInput input(file);
  int c = input.next();
  for (const int mark : {0xEF, 0xBB, 0xBF}) {  // a byte order mark
    c = c == mark ? input.next() : c;
  }
  while (c == ' ' || c == '\n' || c == '\r' || c == '\t') {
    c = input.next();
  }
  refuse_if(c < 0, {input.name(), 0, ""}, "the file is empty.");
  return c == '{' || c == '[';
}

std::vector<ServedPoint> read_served_points(const std::filesystem::path& file, const ServedLayout& layout) {
  const bool json = is_json_lines(file);
  ByteInput input(file);
  std::vector<ServedPoint> out = json ? read_json_points(input, layout) : read_csv_points(input, layout);
  refuse_if(out.empty(), {input.name(), 0, ""}, "the table has no row.");
  return out;
}

}  // namespace epsim::app
