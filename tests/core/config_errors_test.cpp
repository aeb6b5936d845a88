// Every way to get a configuration wrong ends in one clear message that names the file, the line and the key.
#include <doctest/doctest.h>

#include <functional>

#include "sim/core/config.h"
#include "tests/support/errors.h"
#include "tests/support/paths.h"

namespace epsim {
namespace {

using test::check_contains;
using test::error_of;

Config config(const std::string& text) { return Config::from_text(text, "test.yaml"); }

InputError reading(const std::string& text, const std::function<void(ConfigReader&)>& read) {
  Config c = config(text);
  ConfigReader in = c.root();
  return error_of<InputError>([&] { read(in); });
}

TEST_CASE("an unknown key names the nearest known one, the file and the line") {
  const InputError e = reading("window: 60s\nslots_per_gpus: 4\n", [](ConfigReader& in) {
    in.optional<Seconds>("window", Seconds(1));
    in.optional("slots_per_gpu", 5);
    in.optional("zone", 1);
    in.finish();
  });
  CHECK(e.place.file == "test.yaml");
  CHECK(e.place.line == 2);
  CHECK(e.place.key == "slots_per_gpus");
  check_contains(e.what(),
                 {"test.yaml:2: `slots_per_gpus`: unknown key 'slots_per_gpus'", "nearest first: slots_per_gpu,"});
}

TEST_CASE("finish() looks into sections and lists of sections") {
  const auto nested = [](ConfigReader& in) {
    ConfigReader a = in.section("a");
    a.section("b").optional("known", 1);
    for (ConfigReader& part : in.list_of_sections("parts")) {
      part.optional("name", std::string());
    }
    in.finish();
  };
  CHECK(reading("a:\n  b:\n    knwon: 1\n", nested).place.key == "a.b.knwon");
  CHECK(reading("a:\n  b:\n    knwon: 1\n", nested).place.line == 3);
  CHECK(reading("a:\n  c: 1\n", nested).place.key == "a.c");
  CHECK(reading("parts:\n  - name: x\n  - nmae: y\n", nested).place.key == "parts[1].nmae");
  CHECK(reading("parts:\n  - name: x\n  - nmae: y\n", nested).place.line == 3);
}

TEST_CASE("an unknown key where none is allowed says so") {
  const InputError e = reading("policy:\n  extra: 1\n", [](ConfigReader& in) {
    in.section("policy");
    in.finish();
  });
  check_contains(e.what(), {"unknown key 'extra'", "none is allowed here"});
}

TEST_CASE("a missing key is named with its section") {
  const InputError e = reading("cluster:\n  nodes: 8\n", [](ConfigReader& in) {
    ConfigReader cluster = in.section("cluster");
    cluster.required<std::string>("node");
  });
  CHECK(e.place.key == "cluster.node");
  check_contains(e.what(), {"test.yaml", "required and missing"});
  CHECK(reading("", [](ConfigReader& in) { in.required_section("model"); }).place.key == "model");
  CHECK(reading("", [](ConfigReader& in) { in.path("trace"); }).place.key == "trace");
}

TEST_CASE("a required key that is misspelt is named as such") {
  const InputError e = reading("cluster:\n  node: p4de\n  nods: 8\n", [](ConfigReader& in) {
    ConfigReader cluster = in.required_section("cluster");
    cluster.required<std::string>("node");
    cluster.required<int>("nodes");
  });
  CHECK(e.place.key == "cluster.nodes");
  check_contains(e.what(), {"required and missing; line 3 has 'nods'"});
  // 'node' has been read and 'nodule' is three edits away: neither is a misspelling of 'nodes'.
  const InputError other = reading("node: a\nnodule: 8\n", [](ConfigReader& in) {
    in.required<std::string>("node");
    in.required<int>("nodes");
  });
  CHECK(other.problem == "this key is required and missing.");
  CHECK(reading("modle: {}\n", [](ConfigReader& in) { in.required_section("model"); }).problem ==
        "this key is required and missing; line 1 has 'modle'.");
  CHECK(reading("paht: x\n", [](ConfigReader& in) { in.path("path"); }).problem ==
        "this key is required and missing; line 1 has 'paht'.");
}

TEST_CASE("finish() tells all unknown keys at once, in the file's order") {
  const auto e = error_of<InputErrors>([] {
    Config c = config("a: 1\nb: 2\nsub:\n  c: 3\n");
    ConfigReader in = c.root();
    in.optional("a", 1);
    in.section("sub");
    in.finish();
  });
  REQUIRE(e.all.size() == 2);
  CHECK(e.all[0].place.line == 2);
  CHECK(e.all[1].place.key == "sub.c");
  check_contains(e.what(), {"2 errors:\n  test.yaml:2: `b`: unknown key", "\n  test.yaml:4: `sub.c`: unknown key"});
}

TEST_CASE("a value can be checked against a type without reading it") {
  const ConfigReader in = config("time: 5\ncount: 2\nlist: [1, x]\n").root();
  CHECK(in.problem_of("time", ValueType::kTime, Bound::kNotNegative).has_value());  // no unit
  CHECK_FALSE(in.problem_of("count", ValueType::kWhole, Bound::kPositive).has_value());
  CHECK(in.problem_of("count", ValueType::kSection, Bound::kPositive).has_value());
  CHECK(in.problem_of("list", ValueType::kNumbers, Bound::kPositive) == "'x' is not a number.");
  CHECK_FALSE(in.problem_of("absent", ValueType::kWhole, Bound::kPositive).has_value());
}

TEST_CASE("a key given twice is refused at the second place") {
  const InputError e = error_of<InputError>([] { config("rate: 1\nother: 2\nrate: 3\n"); });
  CHECK(e.place.key == "rate");
  CHECK(e.place.line == 3);
  check_contains(e.what(), {"twice"});
}

TEST_CASE("wrong types and values say what was there and what is allowed") {
  struct Row {
    std::string text;
    std::function<void(ConfigReader&)> read;
    const char* says;
  };
  const auto whole = [](ConfigReader& in) { in.required<int>("k"); };
  const auto big = [](ConfigReader& in) { in.required<std::int64_t>("k"); };
  const auto real = [](ConfigReader& in) { in.required<double>("k"); };
  const auto any = [](ConfigReader& in) { in.required<double>("k", Bound::kAny); };
  const auto positive = [](ConfigReader& in) { in.required<double>("k", Bound::kPositive); };
  const auto flag = [](ConfigReader& in) { in.required<bool>("k"); };
  const auto time = [](ConfigReader& in) { in.required<Seconds>("k"); };
  const auto word = [](ConfigReader& in) { in.required<std::string>("k"); };
  const auto reals = [](ConfigReader& in) { in.required<std::vector<double>>("k"); };
  const Row rows[] = {
      {"k: word", whole, "'word' is not a whole number"},
      {"k: 2.5", whole, "'2.5' is not a whole number"},
      {"k: [1]", whole, "a list"},
      {"k: {a: 1}", whole, "a mapping"},
      {"k: 3000000000", whole, "within +-2147483647"},
      {"k: -1", whole, "must not be negative"},
      {"k: 1e17", big, "'1e17' is not a whole number"},
      {"k: 99999999999999999999", big, "not a whole number"},
      {"k: .nan", big, "not a whole number"},
      {"k: word", real, "'word' is not a number"},
      {"k: 3s", real, "'3s' is not a number"},
      {"k: -0.5", real, "must not be negative"},
      {"k: .nan", real, "finite"},
      {"k: .inf", real, "finite"},
      {"k: -.inf", any, "finite"},
      {"k: nan", any, "not a number"},
      {"k: 1e999", any, "not a number"},
      {"k: 0", positive, "greater than 0"},
      {"k: maybe", flag, "not true or false"},
      {"k: 1", flag, "not true or false"},
      {"k: 60", time, "'60' has no unit: a time is written with one of s, ms, us, ns, min, h"},
      {"k: 60GB", time, "unit 'GB'"},
      {"k: -3s", time, "must not be negative"},
      {"k: nans", time, "finite number and a unit"},
      {"k: infs", time, "finite number and a unit"},
      {"k: 1e308h", time, "finite"},
      {"k: [a]", word, "a list"},
      {"k: 3", reals, "a list in [brackets]"},
      {"k: [1, x]", reals, "'x' is not a number"},
      {"k: [1, -2]", reals, "must not be negative"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    const InputError e = reading(row.text, row.read);
    CHECK(e.place.file == "test.yaml");
    CHECK(e.place.line == 1);
    CHECK(e.place.key == "k");
    check_contains(e.problem, {row.says});
  }
}

TEST_CASE("a word that is no choice lists the choices, the nearest first") {
  const InputError e = reading("mode: glbal\n", [](ConfigReader& in) {
    in.choice("mode", {"hierarchical", "global", "none"});
  });
  check_contains(e.what(), {"test.yaml:1", "unknown value 'glbal'", "nearest first: global,"});
}

TEST_CASE("sections and lists must be what they are read as") {
  CHECK(reading("a: 3\n", [](ConfigReader& in) { in.section("a"); }).place.line == 1);
  CHECK(reading("a: {}\n", [](ConfigReader& in) { in.list_of_sections("a"); }).place.key == "a");
  check_contains(reading("\na: [{x: 1}, 2]\n", [](ConfigReader& in) { in.list_of_sections("a"); }).what(),
                 {"test.yaml:2", "item 2"});
  CHECK(reading("a: ''\n", [](ConfigReader& in) { in.path("a"); }).place.key == "a");
}

TEST_CASE("check() puts the reader's own rule at its key") {
  const InputError e =
      reading("\n\nnodes: 0\n", [](ConfigReader& in) { in.check(in.required<int>("nodes") > 0, "nodes", "too few."); });
  CHECK(std::string(e.what()) == "test.yaml:3: `nodes`: too few.");
}

TEST_CASE("text that is not one YAML mapping is refused at its line") {
  struct Row {
    std::string text;
    const char* says;
  };
  for (const Row& row :
       {Row{",a: 1\n", "nothing can begin with this character"}, Row{"a: [1, 2\n", "not valid YAML"},
        Row{"a: 1\n b: 2\n", "not valid YAML"}, Row{"- 1\n- 2\n", "must be a mapping"},
        Row{"just words", "must be a mapping"}, Row{"\x01\x02\x03", "must be a mapping"},
        Row{"a: 1\n---\na: 2\n", "one document"}, Row{"? [1, 2]\n: 3\n", "a key must be a word"},
        Row{"a: &x {b: *x}\n", "is inside the anchor that it repeats"}, Row{"a: {b: 1, b: 1}\n", "twice"},
        Row{"a:\n  b: 1\n\tc: 2\n", "Line 3 is indented with a tab; YAML takes spaces."}}) {
    CAPTURE(row.text);
    const InputError e = error_of<InputError>([&] { config(row.text); });
    CHECK(e.place.file == "test.yaml");
    CHECK(e.place.line >= 1);
    check_contains(e.what(), {row.says});
  }
}

TEST_CASE("a file that cannot be read says why") {
  test::TempDir dir;
  check_contains(error_of<InputError>([&] { Config::from_file(dir / "absent.yaml"); }).what(),
                 {"absent.yaml: there is no such file"});
  check_contains(error_of<InputError>([&] { Config::from_file(dir.path()); }).what(), {"a folder, not a file"});
}

TEST_CASE("overrides that cannot be meant are refused") {
  for (const std::string assignment :
       {"", "novalue", "=3", ".=1", "a.=1", ".a=1", "a..b=1", "a=[1", "value.below=1", "a={x: 1, x: 2}"}) {
    CAPTURE(assignment);
    Config c = config("value: 3\n");
    const InputError e = error_of<InputError>([&] { c.set(assignment); });
    check_contains(e.what(), {"--set "});
  }
}

TEST_CASE("an override that a reader refuses is told from the file") {
  Config c = config("a: 1\nb: {x: 1}\n");
  c.set("a=word");
  c.set("b.tpyo=2");
  c.set("list=[{x: 1}]");
  c.set("tpyo.x=2");
  ConfigReader in = c.root();
  const InputError wrong = error_of<InputError>([&] { in.required<int>("a"); });
  CHECK(wrong.place.file == "--set");
  CHECK(wrong.place.key == "a");
  in.section("b").required<int>("x");
  const InputError in_list =
      error_of<InputError>([&] { in.list_of_sections("list").at(0).required<std::string>("name"); });
  CHECK(in_list.place.file == "--set");
  CHECK(in_list.place.key == "list[0].name");
  CHECK(error_of<InputError>([&] { in.section("b").finish(); }).place.key == "b.tpyo");
  // What the override alone wrote is its own, from the first part on.
  CHECK(in.place("tpyo").file == "--set");
  CHECK(in.place("b").file != "--set");
}

}  // namespace
}  // namespace epsim
