// GRACE planned on one data set and run on another (its Sec. 5.4), on gpt-oss-20b's recorded tokens: the rows of
// experiments/generalisation/README.md, which this test keeps true.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/policies/grace_support.h"

using namespace epsim;

namespace {

struct DataSet {
  const char* name;
  std::size_t first, tokens;  // sequences.csv of the recording
};
constexpr DataSet kMmlu{"MMLU", 87364, 60633}, kGpqa{"GPQA", 1188, 34873}, kSorry{"SORRY-Bench", 188119, 25462};

constexpr const char* kPolicies[] = {"grace_vanilla", "grace_hg", "grace_hg_fr", "grace_hg_dr_wrr", "grace_hg_dr_tar"};

LoadWindow window_of(std::span<const std::uint8_t> ids) {
  return test::window_from_routing<std::uint8_t>(ids, test::kGptOss);
}

// The five components, planned from `window` and run on `ids`.
std::vector<test::Rows> components(const LoadWindow& window, std::span<const std::uint8_t> ids, int gpus_per_node) {
  const ClusterShape cluster{2 * gpus_per_node, gpus_per_node};
  std::vector<test::Rows> out;
  for (const char* policy : kPolicies) {
    out.push_back(test::count_rows<std::uint8_t>(test::placed(policy, window, cluster), ids, test::kGptOss, cluster,
                                                 Dedup::kNode));
  }
  return out;
}

// A row of the table: who, where, and one figure of every component.
std::string table_row(const std::string& gpus, const std::string& planned, const char* run, const char* what,
                      const std::vector<test::Rows>& rows, double test::Rows::*figure) {
  std::string out = fmt::format("| {} | {} | {} | {} |", gpus, planned, run, what);
  for (const test::Rows& r : rows) {
    out += fmt::format(" {:.3f} |", r.*figure);
  }
  return out;
}

void check_rows(const std::string& readme, const std::string& gpus, const std::string& planned, const char* run,
                const std::vector<test::Rows>& rows) {
  for (const std::string& row : {table_row(gpus, planned, run, "between nodes", rows, &test::Rows::cross_node),
                                 table_row(gpus, planned, run, "inside nodes", rows, &test::Rows::in_node),
                                 table_row(gpus, planned, run, "deviation", rows, &test::Rows::deviation)}) {
    CHECK_MESSAGE(readme.find(row) != std::string::npos, "README.md does not have the row\n" << row);
  }
}

}  // namespace

TEST_CASE(
    "GRACE across data sets: worse than planned on the same, better than without groups (G17); README is current") {
  std::ifstream file(test::source_dir() / "experiments/generalisation/README.md");
  const std::string readme{std::istreambuf_iterator<char>(file), {}};
  const auto tokens = [](const DataSet& d) { return test::gpt_oss_tokens(d.first, d.tokens); };
  const std::vector<std::uint8_t> mmlu = tokens(kMmlu);
  const LoadWindow plan = window_of(mmlu);
  for (const DataSet& other : {kGpqa, kSorry}) {
    const std::vector<std::uint8_t> ids = tokens(other);
    const std::size_t half = other.tokens / 2 * test::kGptOss.ids_per_token();
    const std::span<const std::uint8_t> seen = std::span(ids).first(half), run = std::span(ids).subspan(half);
    for (const int gpus_per_node : {2, 4}) {
      CAPTURE(gpus_per_node);
      const std::string gpus = fmt::format("2 x {}", gpus_per_node);
      const std::vector<test::Rows> own = components(window_of(seen), run, gpus_per_node);
      const std::vector<test::Rows> foreign = components(plan, run, gpus_per_node);
      check_rows(readme, gpus, fmt::format("{}, first half", other.name), other.name, own);
      check_rows(readme, gpus, kMmlu.name, other.name, foreign);
      const test::Rows& vanilla = own.front();
      for (std::size_t i = 1; i < own.size(); ++i) {
        CAPTURE(kPolicies[i]);
        CHECK(foreign[i].cross_node + foreign[i].in_node < vanilla.cross_node + vanilla.in_node);
      }
      // Groups carry over; copies, which follow the load of the moment, less so.
      CHECK(foreign[3].deviation > own[3].deviation * 1.3);
    }
  }
}
