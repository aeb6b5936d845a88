// As joint_use_test.cpp, on gpt-oss-20b's recorded tokens: planned on one data set and run on another.
#include <doctest/doctest.h>

#include "tests/policies/joint_use_support.h"

using namespace epsim;

TEST_CASE("rows of a run are those counted token by token, within 3 %: gpt-oss-20b planned on MMLU, run on GPQA") {
  // Rows of the recording as its sequences.csv has them.
  const std::vector<std::uint8_t> mmlu = test::gpt_oss_tokens(87364, 60633), gpqa = test::gpt_oss_tokens(1188, 34873);
  test::check_joint_rows<std::uint8_t>(test::window_from_routing<std::uint8_t>(mmlu, test::kGptOss), gpqa,
                                       test::kGptOss, 0.03);
}
