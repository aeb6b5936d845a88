// What a configuration gives to those who read it; the ways to get it wrong are in config_errors_test.cpp.
#include "sim/core/config.h"

#include <doctest/doctest.h>

#include <fstream>
#include <regex>

#include "sim/core/rng.h"
#include "tests/support/paths.h"

namespace epsim {
namespace {

Config config_from(const std::string& text) { return Config::from_text(text, "test.yaml"); }

TEST_CASE("a required key gives its value, in every type") {
  Config c = config_from(
      "flag: true\nint: -3\nbig: 9000000000\nwhole: 1e6\nreal: 2.5\nword: eplb\ntime: 250ms\nsize: 80GiB\n"
      "link: 100Gb/s\npeak: 312TF/s\nrate: 150/min\nreals: [0.5, 2]\nints: [1, 2, 3]\nwords: [base, eplb]\n");
  ConfigReader in = c.root();
  CHECK(in.required<bool>("flag"));
  CHECK(in.required<int>("int", Bound::kAny) == -3);
  CHECK(in.required<std::int64_t>("big") == 9000000000);
  CHECK(in.required<int>("whole") == 1000000);
  CHECK(in.required<double>("real") == 2.5);
  CHECK(in.required<std::string>("word") == "eplb");
  CHECK(in.required<Seconds>("time").count() == 0.25);
  CHECK(in.required<Bytes>("size").count() == 80.0 * 1024 * 1024 * 1024);
  CHECK(in.required<BytesPerSecond>("link").count() == 12.5e9);
  CHECK(in.required<FlopsPerSecond>("peak").count() == 312e12);
  CHECK(in.required<RequestsPerSecond>("rate").count() == doctest::Approx(2.5).epsilon(1e-15));
  CHECK(in.required<std::vector<double>>("reals") == std::vector<double>{0.5, 2.0});
  CHECK(in.required<std::vector<std::int64_t>>("ints") == std::vector<std::int64_t>{1, 2, 3});
  CHECK(in.required<std::vector<std::string>>("words") == std::vector<std::string>{"base", "eplb"});
  in.finish();
}

TEST_CASE("an absent key, or one without a value, gives the default") {
  Config c = config_from("empty:\ngiven: 4\n");
  ConfigReader in = c.root();
  CHECK(in.optional("absent", 7) == 7);
  CHECK(in.optional("empty", 8) == 8);
  CHECK(in.optional("given", 9) == 4);
  CHECK(!in.maybe<int>("other").has_value());
  CHECK(in.has("given"));
  CHECK(!in.has("nowhere"));
  in.finish();
}

TEST_CASE("a choice gives the word, or its default") {
  Config c = config_from("mode: global\n");
  ConfigReader in = c.root();
  CHECK(in.choice("mode", {"global", "hierarchical"}) == "global");
  CHECK(in.choice("ties", {"stable", "libstdcxx"}, "stable") == "stable");
  in.finish();
}

TEST_CASE("sections nest, and an absent one reads as empty") {
  Config c = config_from("cluster:\n  nodes: 8\n  node: {gpus: 4}\n");
  ConfigReader cluster = c.root().section("cluster");
  CHECK(cluster.required<int>("nodes") == 8);
  CHECK(cluster.required_section("node").required<int>("gpus") == 4);
  CHECK(c.root().section("absent").optional("depth", 2) == 2);
}

TEST_CASE("a list of sections keeps its order; keys() keeps the file's") {
  Config c = config_from("parts: [{name: b}, {name: a}]\nzeta: 1\nalpha: 2\n");
  ConfigReader in = c.root();
  std::vector<std::string> names;
  for (ConfigReader& part : in.list_of_sections("parts")) {
    names.push_back(part.required<std::string>("name"));
  }
  CHECK(names == std::vector<std::string>{"b", "a"});
  CHECK(in.list_of_sections("absent").empty());
  CHECK(in.keys() == std::vector<std::string>{"parts", "zeta", "alpha"});
}

TEST_CASE("finish() sees what was read through sections taken twice") {
  Config c = config_from("a:\n  x: 1\n  y: 2\n");
  ConfigReader in = c.root();
  CHECK(in.section("a").required<int>("x") == 1);
  CHECK(in.section("a").required<int>("y") == 2);
  in.finish();
}

TEST_CASE("file names: relative to the document, or to the working directory when overridden") {
  test::TempDir dir;
  std::filesystem::create_directory(dir / "in");
  std::ofstream(dir.path() / "in" / "scenario.yaml")
      << "trace: ../data/a.csv\nplain: b.csv\nsame: b.csv\nabsolute: /data/c.csv\nnested: {deep: d.csv}\n";
  Config c = Config::from_file(dir.path() / "in" / "scenario.yaml");
  c.set("over=e.csv");
  c.set("nested.over=f.csv");
  c.set("list=[{file: g.csv}]");
  ConfigReader in = c.root();
  CHECK(in.path("trace") == dir.path() / "data" / "a.csv");
  CHECK(in.path("plain") == dir.path() / "in" / "b.csv");
  CHECK(in.path("same") == dir.path() / "in" / "b.csv");
  CHECK(in.path("absolute") == "/data/c.csv");
  CHECK(in.path("over") == "e.csv");
  ConfigReader nested = in.section("nested");
  CHECK(nested.path("deep") == dir.path() / "in" / "d.csv");
  CHECK(nested.path("over") == "f.csv");
  CHECK(in.list_of_sections("list").at(0).path("file") == "g.csv");
  CHECK(!in.maybe_path("absent").has_value());
  CHECK(in.path("over") == "e.csv");  // a second look
  in.finish();
  // Every file once, in the order of reading.
  const std::vector<std::filesystem::path> files = c.files();
  CHECK(files.size() == 7);
  CHECK(files.front() == dir.path() / "data" / "a.csv");
  CHECK(files.back() == "g.csv");
}

// Reads every type, most of them by default, the way a run does.
std::vector<std::string> read_all(Config& c) {
  ConfigReader in = c.root();
  std::vector<std::string> seen;
  const auto number = [&](double value) {
    char text[40];
    std::snprintf(text, sizeof text, "%a", value);  // all bits
    seen.emplace_back(text);
  };
  number(in.optional("real", 0.1 + 0.2));
  number(in.optional<Seconds>("time", Seconds(1.0 / 3.0)).count());
  number(in.optional<Bytes>("size", Bytes(1e22)).count());
  number(in.optional<BytesPerSecond>("link", BytesPerSecond(1e9 / 3)).count());
  number(in.optional<RequestsPerSecond>("rate", RequestsPerSecond(1.0 / 7)).count());
  RandomStream random(Seed{3}, "config-test");
  for (int i = 0; i < 50; ++i) {
    const FlopsPerSecond peak(random.lognormal(30, 2));
    number(in.optional("peak" + std::to_string(i), peak).count());
  }
  seen.push_back(in.optional<bool>("flag", true) ? "yes" : "no");
  seen.push_back(std::to_string(in.optional<std::int64_t>("big", -5, Bound::kAny)));
  for (const char* word : {"null", "true", "12", "", "a: b", "# c", "~", "1e3", "it's", "two\nlines"}) {
    seen.push_back(in.optional<std::string>("word" + std::to_string(seen.size()), word));
  }
  for (const double x : in.optional("reals", std::vector<double>{1e-300, 0.1, 5})) {
    number(x);
  }
  for (const std::string& word : in.optional("words", std::vector<std::string>{"x, y", "z"})) {
    seen.push_back(word);
  }
  ConfigReader nested = in.section("nested").section("deeper");
  seen.push_back(std::to_string(nested.optional("count", 3)));
  seen.push_back(nested.choice("mode", {"a", "b"}, "b"));
  seen.push_back(std::filesystem::absolute(in.path("file")).lexically_normal().string());
  in.finish();
  return seen;
}

TEST_CASE("the echo, parsed again, gives the same values bit by bit") {
  Config c = config_from("file: some/trace.csv\nnested: {deeper: {count: 11}}\n");
  c.set("time=17us");
  const std::vector<std::string> first = read_all(c);
  Config again = Config::from_text(c.resolved(), "resolved.yaml");
  CHECK(read_all(again) == first);
  // But for the comments that say which values were defaults.
  const auto values = [](const Config& of) {
    return std::regex_replace(of.resolved(), std::regex(" +# default[^\n]*"), "");
  };
  CHECK(values(again) == values(c));
}

TEST_CASE("a copy of a document takes settings that the original does not see") {
  Config c = config_from("nodes: 8\n");
  Config own = c.clone();
  own.set("nodes=3");
  ConfigReader in = c.root();
  CHECK(in.optional<int>("window", 5) == 5);  // read after the copy was made, and echoed all the same
  CHECK(c.resolved() == "nodes: 8\nwindow: 5  # default\n");
  CHECK(own.resolved() == "nodes: 3\n");
}

TEST_CASE("the echo shows values as they were written, and defaults") {
  Config c = config_from("nodes: 8\nwindow: 60s\n");
  c.set("nodes=12");
  ConfigReader in = c.root();
  in.required<int>("nodes");
  in.required<Seconds>("window");
  in.section("serving").optional("chunk", 4096);
  CHECK(c.resolved() == "nodes: 12\nwindow: 60s\nserving:\n  chunk: 4096  # default\n");
}

TEST_CASE("overrides replace, add and nest") {
  Config c = config_from("a: 1\nb:\n  x: 2\nempty:\n");
  c.set("a=5");
  c.set("b.y=[1, 2]");
  c.set("new.deep.key=word=with=equals");
  c.set("empty.z=3s");
  c.set("b.x=");  // without a value: as if absent
  ConfigReader in = c.root();
  CHECK(in.required<int>("a") == 5);
  ConfigReader b = in.section("b");
  CHECK(b.optional("x", 9) == 9);
  CHECK(b.required<std::vector<std::int64_t>>("y") == std::vector<std::int64_t>{1, 2});
  CHECK(in.section("new").section("deep").required<std::string>("key") == "word=with=equals");
  CHECK(in.section("empty").required<Seconds>("z").count() == 3.0);
  in.finish();
}

TEST_CASE("an empty document has no keys") {
  for (const char* text : {"", "# only a comment\n", "{}"}) {
    CAPTURE(text);
    Config c = config_from(text);
    CHECK(c.root().keys().empty());
    c.root().finish();
  }
}

TEST_CASE("what nobody reads by name can be handed on, as text") {
  Config c = config_from("a: 1\nb: two\nc: [3, 4]\nd:\ne: 0.50\n");
  ConfigReader in = c.root();
  CHECK(in.required<int>("a") == 1);
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  const Pairs expected = {{"b", "two"}, {"c", "[3, 4]"}, {"d", ""}, {"e", "0.50"}};
  CHECK(in.rest() == expected);
  CHECK(in.rest() == expected);
  in.finish();
}

TEST_CASE("a table of numbers, and whether a key holds a section") {
  Config c = config_from("table: [[1, 2.5], [3], []]\nsection: {a: 1}\n");
  ConfigReader in = c.root();
  CHECK(in.required<std::vector<std::vector<double>>>("table") == std::vector<std::vector<double>>{{1, 2.5}, {3}, {}});
  CHECK(in.is_section("section"));
  CHECK_FALSE(in.is_section("table"));
  CHECK_FALSE(in.is_section("absent"));
}

}  // namespace
}  // namespace epsim
