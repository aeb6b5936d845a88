#include "sim/verbs/sweep_axes.h"

#include <doctest/doctest.h>

#include "sim/core/error.h"
#include "tests/support/errors.h"

namespace epsim {

template <class Call>
void check_refused(Call call, std::initializer_list<const char*> says) {
  test::check_contains(test::error_of<InputError>(call).what(), says);
}

using Values = std::vector<std::string>;

TEST_CASE("axis: commas part values, but for those inside quotes and brackets") {
  struct Row {
    const char* text;
    Values values;
  };
  for (const Row& row :
       {Row{"a.b=1,2, 3 ", {"1", "2", "3"}}, Row{"a.b=4/s", {"4/s"}},
        Row{"a.b=[1,2],[3,[4,5]]", {"[1,2]", "[3,[4,5]]"}}, Row{"a.b={x: 1, y: [2,3]},{}", {"{x: 1, y: [2,3]}", "{}"}},
        Row{"a.b=\"p,q\",'r,s'", {"\"p,q\"", "'r,s'"}}, Row{"a.b=it's,on=off", {"it's", "on=off"}},
        Row{"a.b=\"]\",[\"}\"]", {"\"]\"", "[\"}\"]"}}}) {
    CAPTURE(row.text);
    const SweepAxis axis = parse_axis(row.text);
    CHECK(axis.key == "a.b");
    CHECK(axis.values == row.values);
  }
}

TEST_CASE("axis: what is not one is refused with the reason") {
  struct Row {
    const char* text;
    const char* says;
  };
  for (const Row& row :
       {Row{"a", "key=a,b,c"}, Row{"=1,2", "key=a,b,c"}, Row{"a=", "a value is empty"},
        Row{"a=1,,2", "a value is empty"}, Row{"a=[1,2", "']' is missing"}, Row{"a=1]", "closes nothing"},
        Row{"a=[1}", "closes nothing"}, Row{"a=\"x,y", "'\"' is missing"}, Row{"a=1,2,1", "1 is given twice"}}) {
    CAPTURE(row.text);
    check_refused([&] { parse_axis(row.text); }, {"--vary", row.says});
  }
}

TEST_CASE("axes: what contradicts itself is refused") {
  const SweepAxis rate{"requests.rate", {"1/s", "2/s"}}, nodes{"cluster.nodes", {"1"}};
  CHECK_NOTHROW(check_axes({rate, nodes}, {"seed=1", "requests.ratex=2"}, 2));
  check_refused([&] { check_axes({rate, nodes, rate}, {}, 0); }, {"requests.rate", "each key once"});
  check_refused([&] { check_axes({rate, {"requests", {"{}"}}}, {}, 0); }, {"each key once"});
  check_refused([&] { check_axes({rate}, {"requests.rate=3/s"}, 0); }, {"fixed by --set"});
  check_refused([&] { check_axes({{"policy", {"eplb"}}}, {}, 0); }, {"--policies"});
  const SweepAxis many{"seed", Values(1000, "x")};
  CHECK_NOTHROW(check_axes({many, {"k", Values(100, "x")}}, {}, 1));  // 100000 points, as many as are allowed
  check_refused([&] { check_axes({many, {"k", Values(100, "x")}}, {}, 2); }, {"100000 points"});
}

TEST_CASE("axes whose values set several keys: what a combination sets, and keys that two axes set are refused") {
  const SweepAxis nodes{"nodes", {"few", "many"}, {{"cluster.nodes=2", "seed=3"}, {"cluster.nodes=8", "seed=4"}}};
  const SweepAxis rate{"requests.rate", {"1/s", "2/s"}};
  CHECK(values_at({nodes, rate}, 3) == Values{"many", "2/s"});
  CHECK(settings_at({nodes, rate}, 3) == Values{"cluster.nodes=8", "seed=4", "requests.rate=2/s"});
  check_refused([&] { check_axes({nodes, {"seed", {"1"}}}, {}, 0); }, {"seed", "each key once"});
  check_refused([&] { check_axes({nodes}, {"cluster.nodes=4"}, 0); }, {"fixed by --set"});
}

TEST_CASE("points: the first axis changes slowest") {
  const std::vector<SweepAxis> axes{{"a", {"1", "2"}}, {"b", {"x", "y", "z"}}};
  REQUIRE(combinations(axes) == 6);
  CHECK(values_at(axes, 0) == Values{"1", "x"});
  CHECK(values_at(axes, 2) == Values{"1", "z"});
  CHECK(values_at(axes, 3) == Values{"2", "x"});
  CHECK(values_at(axes, 5) == Values{"2", "z"});
}

TEST_CASE("points that differ in keys of another policy alone are alike") {
  const std::vector<SweepAxis> axes{{"policies.eplb.num_replicas", {"0", "8"}},
                                    {"requests.rate", {"1/s", "2/s", "3/s"}},
                                    {"policies.lina", {"{}", "{n_extra: 2}"}}};
  // Combination 11: 8 copies, 3/s, lina's second.
  CHECK(first_alike(axes, 11, "base") == 4);  // 0 copies, 3/s, lina's first
  CHECK(first_alike(axes, 11, "lina") == 5);
  CHECK(first_alike(axes, 11, "eplb") == 10);
  CHECK(first_alike(axes, 11, "eplb:kv_free") == 10);  // a variant reads what the policy reads
  CHECK(first_alike(axes, 11, "eplb_global") == 10);   // perhaps: it runs, at least
  const SweepAxis both{
      "set", {"a", "b"}, {{"policies.eplb.num_replicas=4"}, {"policies.eplb.num_replicas=8", "seed=2"}}};
  CHECK(first_alike({both}, 1, "base") == 1);  // seed
}

}  // namespace epsim
