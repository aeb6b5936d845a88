// The routing of AIConfigurator's collectors, by hand on small shapes.
#include "calibration/row_counts.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

namespace epsim {
namespace {

using Rows = std::vector<std::int64_t>;

std::int64_t sum(const Rows& rows) { return std::accumulate(rows.begin(), rows.end(), std::int64_t{0}); }

TEST_CASE("balanced: token t takes t + i x ceil(E / k), modulo E") {
  // 8 experts, top-2, stride 4: four tokens touch each expert once.
  CHECK(balanced_rows({4, 8, 2, 1}) == Rows{1, 1, 1, 1, 1, 1, 1, 1});
  // Six tokens: tokens 4 and 5 wrap to experts 4, 0 and 5, 1.
  CHECK(balanced_rows({6, 8, 2, 1}) == Rows{2, 2, 1, 1, 2, 2, 1, 1});
  // Fewer tokens than the stride are spread: token t starts at t x 4 / 2.
  CHECK(balanced_rows({2, 8, 2, 1}) == Rows{1, 0, 1, 0, 1, 0, 1, 0});
}

TEST_CASE("rank 0 of SGLang's collector computes its tokens' remote choices on expert 0") {
  // 8 experts on 4 ranks, top-2, stride 4. Of tokens 0 to 7, four have an expert on rank 0: 0 and 4 choose experts 0 and 4,
  // 1 and 5 choose 1 and 5. Expert 0 has two rows of its own and four of remote choices.
  CHECK(first_rank_with_remotes({8, 8, 2, 4}) == Rows{2 + 4, 2});
  CHECK(first_rank_with_remotes({8, 8, 2, 1}) == balanced_rows({8, 8, 2, 1}));
  // 16384 tokens over 256 ranks of one expert: a 32nd of them choose it, with 8 rows each.
  CHECK(first_rank_with_remotes({16384, 256, 8, 256}) == Rows{16384 / 32 * 8});
}

TEST_CASE("a power law gives every token its experts, and no expert more rows than tokens") {
  RandomStream random(Seed{3}, "test");
  for (const double alpha : {0.6, 1.01, 1.2}) {
    for (const std::int64_t tokens : {1, 16, 300, 4096}) {
      for (const Rows& rows :
           {power_law_quantiles({tokens, 64, 8, 8}, alpha), power_law_drawn({tokens, 64, 8, 8}, alpha, random)}) {
        CHECK(sum(rows) == tokens * 8);
        CHECK(*std::max_element(rows.begin(), rows.end()) <= tokens);
        CHECK(*std::min_element(rows.begin(), rows.end()) >= 0);
      }
    }
  }
}

TEST_CASE("a steeper power law is more uneven") {
  const auto hottest = [](double alpha) {
    return summarise_rows(power_law_quantiles({4096, 256, 8, 1}, alpha)).rows_max;
  };
  CHECK(hottest(1.2) > hottest(1.01));
  CHECK(hottest(1.01) > 2 * 4096.0 * 8 / 256);
}

TEST_CASE("a router of groups sends tokens elsewhere whose experts lie in groups that it does not keep") {
  // 8 experts in 4 groups of 2, of which 2 are kept, top-2: the tokens want 0 and 4, 1 and 5, 2 and 6, 3 and 7, one of each
  // of two groups. Both are kept, and so are both choices.
  CHECK(balanced_rows({4, 8, 2, 1}, {4, 2}) == balanced_rows({4, 8, 2, 1}));
  // One group kept: of two with one wanted expert each the first, 0 and 1 of tokens 0 and 1, 2 and 3 of the others.
  CHECK(balanced_rows({4, 8, 2, 1}, {4, 1}) == Rows{2, 2, 2, 2, 0, 0, 0, 0});
  // DeepSeek-V3: a token wants one expert of each of 8 groups and gets those of the first 4, and the first 4 others there: 0 to
  // 3, or 0 to 4 but for its own. 32 tokens touch 4 x 32 experts.
  const Rows deepseek = balanced_rows({32, 256, 8, 1}, {8, 4});
  CHECK(std::count_if(deepseek.begin(), deepseek.end(), [](std::int64_t r) { return r > 0; }) == 128);
  CHECK(sum(deepseek) == 32 * 8);
  RandomStream order(Seed{5}, "test");
  const GroupRows even = summarise_rows(power_law_quantiles({64, 256, 8, 1}, 1.01));
  const Rows drawn = power_law_rows({64, 256, 8, 1}, 1.01, {8, 4}, order);
  CHECK(sum(drawn) == 64 * 8);
  CHECK(summarise_rows(drawn).groups < even.groups);
  CHECK(summarise_rows(power_law_rows({64, 256, 8, 1}, 1.01, {}, order)).groups == even.groups);
}

TEST_CASE("the busiest rank is the one with most rows") {
  CHECK(busiest_rank({1, 2, 9, 0, 4, 4, 5, 3}, 4) == Rows{9, 0});
  const GroupRows all = summarise_rows({9, 0, 3});
  CHECK(all.rows == 12);
  CHECK(all.groups == 2);
  CHECK(all.rows_max == 9);
}

}  // namespace
}  // namespace epsim
