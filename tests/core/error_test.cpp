#include "sim/core/error.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "sim/core/check.h"
#include "tests/support/errors.h"

namespace epsim {
namespace {

TEST_CASE("an input error says where, as far as it knows") {
  CHECK(std::string(InputError({"a.yaml", 3, "k"}, "wrong.").what()) == "a.yaml:3: `k`: wrong.");
  CHECK(std::string(InputError({"a.yaml", 0, "k"}, "wrong.").what()) == "a.yaml: `k`: wrong.");
  CHECK(std::string(InputError({"a.csv", 9, ""}, "wrong.").what()) == "a.csv:9: wrong.");
  CHECK(std::string(InputError({"", 0, "k"}, "wrong.").what()) == "`k`: wrong.");
  CHECK(std::string(InputError({}, "wrong.").what()) == "wrong.");
  const InputError e({"a.yaml", 3, "k"}, "wrong.");
  CHECK(e.place.file == "a.yaml");
  CHECK(e.place.line == 3);
  CHECK(e.place.key == "k");
  CHECK(e.problem == "wrong.");
}

TEST_CASE("what does not fit names the GPU, what it needs and what it has") {
  const DoesNotFit e(17, 30_GiB, 24_GiB, "the experts");
  CHECK(e.gpu == 17);
  CHECK(e.need == 30_GiB);
  CHECK(e.have == 24_GiB);
  CHECK(std::string(e.what()) ==
        "GPU 17 cannot hold the experts: it needs 30.000 GiB and has 24.000 GiB. Fewer copies or more GPUs make room.");
  CHECK(DoesNotFit(e, " So does X.").problem == e.problem + " So does X.");
}

TEST_CASE("edits between words") {
  CHECK(edit_distance("", "") == 0);
  CHECK(edit_distance("abc", "") == 3);
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("kitten", "sitting") == 3);  // k -> s, e -> i, + g
  CHECK(edit_distance("slots", "slots") == 0);
  CHECK(edit_distance("ab", "ba") == 2);
}

TEST_CASE("an unknown name lists the known ones, the nearest first, ties in their own order") {
  CHECK(unknown_name("policy", "epbl", {"base", "craft", "eplb"}) ==
        "unknown policy 'epbl'. Known, the nearest first: eplb, base, craft.");
  CHECK(unknown_name("model", "qwen3-235b", {"Qwen3-32B", "Qwen3-235B-A22B"}) ==
        "unknown model 'qwen3-235b'. Known, the nearest first: Qwen3-235B-A22B, Qwen3-32B.");
  CHECK(unknown_name("key", "x", {}) == "unknown key 'x'; none is allowed here.");
}

TEST_CASE("of very many names the nearest 40 are listed") {
  std::vector<std::string> links(100, "gpu.port.out");
  links.back() = "leaf0.up";
  const std::string text = unknown_name("link", "leaf0.upp", links);
  test::check_contains(text, {"first: leaf0.up, gpu", " and 60 more."});
  CHECK(std::count(text.begin(), text.end(), ',') == 1 + 39);
}

TEST_CASE("a misspelling is up to two edits away, and not most of the name") {
  CHECK(misspelling("nods", {"node", "nodes"}) == "node");  // one edit each; the first counts
  CHECK(misspelling("nods", {"nodes"}) == "nodes");
  CHECK(misspelling("stes", {"steps"}) == "steps");
  CHECK(misspelling("paht", {"path"}) == "path");              // two edits, two characters stay
  CHECK_FALSE(misspelling("at", {"it", "rate"}).has_value());  // one character stays, none does
  CHECK_FALSE(misspelling("nodes", {}).has_value());
}

TEST_CASE("several errors are thrown as one, a single one as itself, none not at all") {
  CHECK_NOTHROW(throw_all({}));
  CHECK(test::error_of<InputError>([] { throw_all({InputError({"f", 1, "a"}, "x.")}); }).problem == "x.");
  const auto two = test::error_of<InputErrors>([] {
    throw_all({InputError({"f", 1, "a"}, "x."), InputError({"f", 2, "b"}, "y.")});
  });
  CHECK(std::string(two.what()) == "2 errors:\n  f:1: `a`: x.\n  f:2: `b`: y.");
  CHECK(two.place.key == "a");
}

TEST_CASE("a broken invariant names the condition and the place") {
  const auto broken = test::error_of<InvariantBroken>([] { EPSIM_CHECK(1 + 1 == 3, "sums hold"); });
  test::check_contains(broken.what(), {"error_test.cpp:", "1 + 1 == 3", "sums hold"});
  CHECK_NOTHROW(EPSIM_CHECK(true, "never"));
}

}  // namespace
}  // namespace epsim
