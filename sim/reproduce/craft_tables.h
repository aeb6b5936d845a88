// What CRAFT's claims were worked out from, as tables: for the report, and for readers with questions of their own.
// metrics.md defines every column. Equal evidence gives equal bytes.
#pragma once

#include <iosfwd>

#include "sim/reproduce/craft_evidence.h"

namespace epsim {

// setups.csv: one row per setup and policy; means over seeds.
void write_setups_csv(std::ostream& out, const CraftEvidence& evidence);
// setup_layers.csv: one row per setup, policy and MoE layer.
void write_setup_layers_csv(std::ostream& out, const CraftEvidence& evidence);
// setup_gains.csv: rows per setup and MoE layer: experts in order, packed, and with each number of copies that CRAFT
// tried.
void write_setup_gains_csv(std::ostream& out, const CraftEvidence& evidence);
// fixed_rates.csv: one row per setup and policy, means over seeds; none where nothing was run at a fixed rate.
void write_fixed_rates_csv(std::ostream& out, const CraftEvidence& evidence);

}  // namespace epsim
