// LPLB against the linear programme as GLPK solves it: minimise the height h, where each expert's tokens are split over
// its copies and no GPU has more than h. Loads, copies and heights are whole tokens in epsim; rounding GLPK's optimum up
// is exact, as bipartite flows with whole capacities have whole solutions.
#include <doctest/doctest.h>
#include <glpk.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "sim/core/rng.h"
#include "tests/policies/support.h"
#include "tests/support/residency.h"

using epsim::RequestMatrix;
using epsim::Residency;
using epsim::TokenAssignment;

namespace {

// The least height of the fullest GPU, by the simplex method.
double glpk_height(const RequestMatrix& requests, const Residency& held) {
  glp_term_out(GLP_OFF);
  glp_prob* const programme = glp_create_prob();
  glp_set_obj_dir(programme, GLP_MIN);
  const int experts = held.experts();
  glp_add_rows(programme, experts + held.gpus);  // an expert's copies take its tokens; a GPU's load - h <= 0
  const int height = glp_add_cols(programme, 1);
  glp_set_col_bnds(programme, height, GLP_LO, 0, 0);
  glp_set_obj_coef(programme, height, 1);
  for (int e = 0; e < experts; ++e) {
    const double tokens = static_cast<double>(requests.of_expert(e));
    glp_set_row_bnds(programme, 1 + e, GLP_FX, tokens, tokens);
  }
  std::vector<int> rows{0};
  std::vector<double> minus_one{0};
  for (int g = 0; g < held.gpus; ++g) {
    rows.push_back(1 + experts + g);
    minus_one.push_back(-1);
    glp_set_row_bnds(programme, rows.back(), GLP_UP, 0, 0);
  }
  glp_set_mat_col(programme, height, held.gpus, rows.data(), minus_one.data());
  for (int e = 0; e < experts; ++e) {
    for (int g = 0; g < held.gpus; ++g) {
      if (held.holds(e, g)) {
        const int share = glp_add_cols(programme, 1);
        const int in[] = {0, 1 + e, 1 + experts + g};
        const double one[] = {0, 1, 1};
        glp_set_col_bnds(programme, share, GLP_LO, 0, 0);
        glp_set_mat_col(programme, share, 2, in, one);
      }
    }
  }
  REQUIRE(glp_simplex(programme, nullptr) == 0);
  REQUIRE(glp_get_status(programme) == GLP_OPT);
  const double least = glp_get_obj_val(programme);
  glp_delete_prob(programme);
  return least;
}

}  // namespace

TEST_CASE("LPLB: the fullest GPU is as light as GLPK's optimum of the linear programme") {
  for (std::uint64_t index = 0; index < 60; ++index) {
    epsim::RandomStream random(epsim::Seed{25}, "lplb-glpk", index);
    const int gpus = 2 << static_cast<int>(random.uniform() * 6);  // 2 to 64
    const int experts = gpus * (1 + static_cast<int>(random.uniform() * 4));
    Residency held = epsim::test::contiguous(experts, gpus);
    for (int copies = static_cast<int>(random.uniform() * 2 * gpus); copies > 0; --copies) {
      held.add(static_cast<int>(random.uniform() * experts), static_cast<int>(random.uniform() * gpus));
    }
    RequestMatrix requests(gpus, experts);
    for (std::int64_t& count : requests.count) {
      count = static_cast<std::int64_t>(random.lognormal(3, 1.5));
    }
    const TokenAssignment tokens = epsim::test::step_policy("lplb")->decide(requests, requests, held).tokens;
    std::int64_t fullest = 0;
    for (int g = 0; g < gpus; ++g) {
      fullest = std::max(fullest, tokens.of_gpu(g));
    }
    CAPTURE(index);
    CHECK(fullest == std::llround(std::ceil(glpk_height(requests, held) - 1e-6)));
  }
}
