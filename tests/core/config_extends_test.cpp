// Documents that take keys from other documents.
#include <doctest/doctest.h>

#include <fstream>

#include "sim/core/config.h"
#include "tests/support/paths.h"

namespace epsim {
namespace {

void write(const std::filesystem::path& file, const std::string& text) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

// What reading `file` is refused with.
InputError refusal(const std::filesystem::path& file) {
  try {
    Config::from_file(file);
  } catch (const InputError& e) {
    return e;
  }
  FAIL("the document was read");
  throw std::logic_error("not reached");
}

TEST_CASE("keys of the extended file stand where the document has none, mapping by mapping") {
  test::TempDir dir;
  write(dir / "common/base.yaml", "name: base\ncluster:\n  node: p4de\n  nodes: 8\nlist: [1, 2]\ntrace: loads.json\n");
  write(dir / "de8.yaml", "extends: common/base.yaml\nname: de8\ncluster:\n  nodes: 6\nlist: [3]\nplan: plan.json\n");
  Config c = Config::from_file(dir / "de8.yaml");
  ConfigReader in = c.root();
  CHECK(in.required<std::string>("name") == "de8");
  CHECK(in.section("cluster").required<int>("nodes") == 6);
  CHECK(in.section("cluster").required<std::string>("node") == "p4de");
  CHECK(in.required<std::vector<std::int64_t>>("list") == std::vector<std::int64_t>{3});
  // Each file name starts from the folder of the file it stands in.
  CHECK(in.path("trace") == dir / "common/loads.json");
  CHECK(in.path("plan") == dir / "plan.json");
  in.finish();
  CHECK(c.files() ==
        std::vector<std::filesystem::path>{dir / "common/base.yaml", dir / "common/loads.json", dir / "plan.json"});
  // The echo stands alone.
  CHECK(c.resolved().find("extends") == std::string::npos);
  CHECK(Config::from_text(c.resolved(), "resolved.yaml").root().section("cluster").required<std::string>("node") ==
        "p4de");
}

TEST_CASE("messages name the file and line that a key stands in") {
  test::TempDir dir;
  write(dir / "base.yaml", "seed: 1\ncluster:\n  nodes: -8\n");
  write(dir / "top.yaml", "extends: base.yaml\ncluster:\n  gpus: -1\n");
  Config c = Config::from_file(dir / "top.yaml");
  ConfigReader cluster = c.root().section("cluster");
  CHECK(cluster.place("nodes").file == (dir / "base.yaml").string());
  CHECK(cluster.place("nodes").line == 3);
  CHECK(cluster.place("gpus").file == (dir / "top.yaml").string());
  CHECK(cluster.place("gpus").line == 3);
  // An override of the whole mapping hides where its keys were from.
  c.set("cluster={nodes: 4}");
  CHECK(c.root().section("cluster").place("nodes").file == "--set");
}

TEST_CASE("a section of another kind takes nothing from the extended file's") {
  test::TempDir dir;
  write(dir / "base.yaml",
        "loads: {kind: file, path: a.h5}\nserving: {knob: 1}\nrequests: {kind: poisson, rate: 4, cv: 2}\n");
  write(dir / "top.yaml", "extends: base.yaml\nloads: {kind: even}\nserving: {kind: b}\nrequests: {kind: poisson}\n");
  const Config c = Config::from_file(dir / "top.yaml");
  ConfigReader in = c.root();
  CHECK(in.section("loads").keys() == std::vector<std::string>{"kind"});
  CHECK(in.section("serving").keys() == std::vector<std::string>{"kind", "knob"});  // the base names no kind
  ConfigReader requests = in.section("requests");
  CHECK(requests.required<int>("rate") == 4);
  CHECK(requests.unknown_key("kind", {"count"}).problem.find("extends") == std::string::npos);
  const InputError inherited = requests.unknown_key("cv", {"count"});
  CHECK(inherited.place.file == (dir / "base.yaml").string());
  CHECK(inherited.problem.find("It is inherited through `extends`; `requests.cv:` with no value in") !=
        std::string::npos);
  // What the message says.
  write(dir / "top.yaml", "extends: base.yaml\nrequests:\n  kind: poisson\n  cv:\n");
  CHECK(Config::from_file(dir / "top.yaml").root().section("requests").keys() ==
        std::vector<std::string>{"kind", "rate"});
}

TEST_CASE("a chain of files: the nearest one has the word") {
  test::TempDir dir;
  write(dir / "a.yaml", "x: 1\ny: 1\nz: 1\n");
  write(dir / "b.yaml", "extends: a.yaml\ny: 2\nz: 2\n");
  write(dir / "c.yaml", "extends: b.yaml\nz: 3\n");
  const Config c = Config::from_file(dir / "c.yaml");
  ConfigReader in = c.root();
  CHECK(in.required<int>("x") == 1);
  CHECK(in.required<int>("y") == 2);
  CHECK(in.required<int>("z") == 3);
  CHECK(in.place("x").file == (dir / "a.yaml").string());
  CHECK(in.place("y").file == (dir / "b.yaml").string());
}

TEST_CASE("a key without a value takes the extended file's away") {
  Config c = Config::from_text("requests:\n", "top");
  c.extend(Config::from_text("requests: {rate: 4}\nseed: 7\n", "base"));
  CHECK(!c.root().has("requests"));
  CHECK(c.root().required<int>("seed") == 7);
  CHECK(c.root().place("seed").file == "base");
}

TEST_CASE("what cannot be extended is refused where it is said") {
  test::TempDir dir;
  write(dir / "missing.yaml", "\nextends: nowhere.yaml\n");
  CHECK(refusal(dir / "missing.yaml").place.line == 2);
  CHECK(std::string(refusal(dir / "missing.yaml").what()).find("nowhere.yaml") != std::string::npos);
  write(dir / "circle.yaml", "extends: circle.yaml\n");
  CHECK(std::string(refusal(dir / "circle.yaml").what()).find("circle") != std::string::npos);
  write(dir / "list.yaml", "extends: [a.yaml, b.yaml]\n");
  CHECK(refusal(dir / "list.yaml").place.key == "extends");
}

}  // namespace
}  // namespace epsim
