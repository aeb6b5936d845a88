// The loop at the heart of a run.
#pragma once

#include <cstdint>

#include "sim/core/fingerprint.h"
#include "sim/engine/event_queue.h"

namespace epsim {

struct LoopEnd {
  std::int64_t events = 0;  // handled
  bool stopped = false;     // by the predicate, with events left; otherwise the queue ran empty
};

// Takes events in order until none is left or `stop()` says so before the next one (a user's Ctrl-C, say, or a
// horizon). Each event enters the fingerprint with its time and phase, then goes to `handle(key, event)`, which may
// push more. An event type brings `void add_to(Fingerprint&, const Event&)` beside it, with all of the event that can
// differ.
template <class Event, class Handler, class Stop>
LoopEnd run_events(EventQueue<Event>& queue, Handler&& handle, Fingerprint& fingerprint, Stop&& stop) {
  LoopEnd end;
  while (!queue.empty()) {
    if (stop()) {
      end.stopped = true;
      break;
    }
    const auto next = queue.pop();
    fingerprint.add(static_cast<std::int64_t>(next.key.at.count()));
    fingerprint.add(static_cast<std::uint64_t>(next.key.phase));
    add_to(fingerprint, next.event);
    handle(next.key, next.event);
    ++end.events;
  }
  return end;
}

}  // namespace epsim
