// The files of a goodput study: goodput.json, goodput.csv (one row per policy, seed and k) and curve.csv (one row per
// probe). metrics.md defines every name in them. Equal studies give equal bytes.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>

#include "sim/report/json.h"
#include "sim/study/goodput_result.h"

namespace epsim {

std::string goodput_json(const GoodputStudy& study, const RunInfo& info);
void write_goodput_csv(std::ostream& out, const GoodputStudy& study);
void write_curve_csv(std::ostream& out, const GoodputStudy& study);

// All three, and resolved.yaml, into `folder`, which exists. Throws RunFailed when the disk does not take them.
void write_goodput(const std::filesystem::path& folder, const GoodputStudy& study, const RunInfo& info);

}  // namespace epsim
