// What a goodput study says on the terminal, and its files: goodput.json, goodput.csv (one row per policy, seed and k)
// and curve.csv (one row per probe). metrics.md defines every name in them. Equal studies give equal bytes.
#pragma once

#include <filesystem>
#include <string>

#include "sim/report/json.h"
#include "sim/report/sweep_table.h"
#include "sim/study/goodput_result.h"

namespace epsim {

// A table of the policies in the order given, one of the sensitivity to k, the rules behind them and the conclusions.
std::string goodput_tables(const GoodputStudy& study);

inline constexpr int kGoodputFormat = 2;  // of goodput.json; raised when a key changes its meaning or goes away

std::string goodput_json(const GoodputStudy& study, const RunInfo& info);
ResultTable goodput_table(const GoodputStudy& study);  // goodput.csv
ResultTable curve_table(const GoodputStudy& study);    // curve.csv
// What goodput.json has of a policy in one row, but for its ratios to the first policy: means over seeds.
ResultTable policy_table(const GoodputStudy& study, std::size_t policy);

// All three, and resolved.yaml, into `folder`, which exists. Throws RunFailed when the disk does not take them.
void write_goodput(const std::filesystem::path& folder, const GoodputStudy& study, const RunInfo& info);

}  // namespace epsim
