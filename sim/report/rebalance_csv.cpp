#include "sim/report/csv.h"
#include "sim/report/csv_table.h"
#include "sim/report/format.h"

namespace epsim {

void write_rebalances_csv(std::ostream& out, const RunResult& run) {
  CsvTable csv(out, {"instance", "rebalanced_after_steps", "outcome", "at_s", "in_effect_s", "balancedness_in_place",
                     "balancedness_of_new_plan", "moved_copies", "moved_gib", "transfer_s", "waited_for_plan_s",
                     "waited_for_weights_s", "slowed_s", "lost_s", "gained_s", "paid"});
  for (const RebalanceEvent& e : run.rebalance.events) {
    const bool taken = e.outcome == RebalanceOutcome::kTaken;
    csv.integer(e.instance).integer(e.step).text(kRebalanceOutcomeNames[static_cast<std::size_t>(e.outcome)]);
    csv.raw(exact_seconds(e.at)).raw(e.in_effect > Ticks{} ? exact_seconds(e.in_effect) : "");
    csv.number(e.balancedness).number(e.planned).integer(e.moved_copies).number(to_gib(e.moved));
    for (const Ticks time : {e.transfer, e.planning, e.moving, e.slowed, e.lost()}) {
      csv.raw(exact_seconds(time));
    }
    csv.number(taken ? to_seconds(e.gained).count() : kUndefined).raw(taken ? (e.paid() ? "1" : "0") : "");
    csv.end_row();
  }
}

}  // namespace epsim
