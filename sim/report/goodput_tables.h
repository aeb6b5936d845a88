// What the terminal shows at the end of a goodput study.
#pragma once

#include <string>

#include "sim/report/tables.h"
#include "sim/study/goodput_result.h"

namespace epsim {

// A table of the policies in the order given, one of the sensitivity to k, the rules behind them and the conclusions.
std::string goodput_tables(const GoodputStudy& study, TableStyle style = {});

}  // namespace epsim
