// What planning again did to a run.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/core/units.h"

namespace epsim {

// What became of a plan that was made during a run.
enum class RebalanceOutcome : std::uint8_t {
  kTaken,
  kUnchanged,   // it places every expert where it is
  kTurnedDown,  // by the rule: it would cost more than it saves
  kDidNotFit,   // it needs more memory for experts than the first plan's
  kCutShort     // taken, but GPUs went or came back before all of its weights had arrived
};
inline constexpr std::array<std::string_view, 5> kRebalanceOutcomeNames = {"taken", "unchanged", "turned down",
                                                                           "did not fit", "cut short"};

// One plan. Gained and lost are counted over the steps of the run as they were and do not say how requests would have
// queued otherwise.
struct RebalanceEvent {
  int instance = 0;
  std::int64_t step = 0;  // steps that had run when the rule asked for it
  Ticks at{};             // end of the last of them
  Ticks in_effect{};      // start of the first step in which all layers have it; zero: it never came to that
  RebalanceOutcome outcome = RebalanceOutcome::kTaken;
  double balancedness = 1;        // of the plan in place: mean over layers and over the steps since the last look
  double planned = 1;             // of the new plan on the window that it was made from
  std::int64_t moved_copies = 0;  // weights of an expert of one layer that another GPU had
  Bytes moved{};
  Ticks transfer{};  // what moving them takes with the links to itself
  Ticks planning{};  // for which steps waited
  Ticks moving{};    // likewise
  Ticks slowed{};    // by which steps took longer beside transfers
  Ticks gained{};    // what the steps that it served would have taken with the plan that it replaced, less what they
                     // took

  Ticks lost() const { return planning + moving + slowed; }
  bool paid() const { return gained > lost(); }
};

struct RebalanceReport {
  bool active = false;  // the policy has a rule for planning again
  Ticks gained{};       // what the same steps would have taken with the first plan, less what they took
  Ticks idle_moving{};  // of transfers, between steps
  std::vector<RebalanceEvent> events;

  std::int64_t count(RebalanceOutcome outcome) const {
    return std::ranges::count(events, outcome, &RebalanceEvent::outcome);
  }
  // What adds up over the plans: copies, bytes, times.
  RebalanceEvent sum() const {
    RebalanceEvent out;
    for (const RebalanceEvent& e : events) {
      out.moved_copies += e.moved_copies;
      out.moved += e.moved;
      out.transfer += e.transfer;
      out.planning += e.planning;
      out.moving += e.moving;
      out.slowed += e.slowed;
      out.gained += e.gained;
    }
    return out;
  }
};

}  // namespace epsim
