// How requests come to a deployment: from the trace or from clients of a closed loop, past what each takes outside the
// scheduler, to an instance.
#include <algorithm>
#include <iterator>

#include "sim/cluster/deployment.h"

namespace epsim {

// Every client sends its first request of the warm-up, or of the part that is measured.
void Deployment::start_clients() {
  for (int client = 0; client < loop_.concurrency; ++client) {
    const Ticks later = loop_.ramp / loop_.concurrency * client;
    if (sent_ < (warming_up_ ? loop_.warmup : std::ssize(result_.requests))) {
      queue_.push(now_ + later, Phase::Arrive, RequestArrived{static_cast<std::int32_t>(sent_++)});
    }
  }
}

// So many requests have ended: as many clients of a closed loop send their next.
void Deployment::send_next(std::int64_t requests) {
  if (loop_.concurrency == 0) {
    return;
  }
  const std::int64_t end = warming_up_ ? loop_.warmup : std::ssize(result_.requests);
  for (; requests > 0 && sent_ < end; --requests) {
    queue_.push(now_, Phase::Arrive, RequestArrived{static_cast<std::int32_t>(sent_++)});
  }
  if (warming_up_ && arrived_ == end && counters_.requests.in_system() == 0) {
    warming_up_ = false;
    counters_.warmup_gaps = counters_.gaps.count();
    counters_.gaps = {};
    for (const auto& rank : ranks_) {
      counters_.warmup_lookup_tokens += rank->counts().lookup_tokens;
      counters_.warmup_hit_tokens += rank->counts().hit_tokens;
    }
    start_clients();
  }
}

void Deployment::expect_arrival(std::size_t request) {
  if (loop_.concurrency == 0 && request < result_.requests.size()) {
    queue_.push(result_.requests[request].arrival, Phase::Arrive, RequestArrived{static_cast<std::int32_t>(request)});
  }
}

// Queues the request at a rank that computes its prompt.
Deployment::Place Deployment::enter_front(std::int32_t request) {
  const std::size_t instance = pick_alive(fronts_, next_front_, request);
  const std::size_t rank = instances_[instance].enqueue(request);
  const std::int64_t number = first_rank(instance) + static_cast<std::int64_t>(rank);
  note_rank(request, number);
  fingerprint_.add(static_cast<std::uint64_t>(number));
  expect_step(instance);
  return {instance, rank};
}

// Some instance can serve the request.
void Deployment::begin(std::int32_t request) {
  if (!memory_first_) {
    enter_front(request);
    return;
  }
  const Route& route = route_to_decoder(request);
  const auto to = static_cast<std::size_t>(route.to_instance);
  note_rank(request, first_rank(to) + route.to_rank);
  start_transfers(to);
  expect_step(to);
}

bool Deployment::has_ended(std::int32_t request) const {
  const RequestState state = result_.requests[static_cast<std::size_t>(request)].state;
  return state == RequestState::kCompleted || state == RequestState::kFailed;
}

// A turn comes as long after the one before it as the trace has it, and not before that one's answer.
Ticks Deployment::earliest(std::int32_t turn) const {
  const auto before = static_cast<std::size_t>(turn_before_[static_cast<std::size_t>(turn)]);
  return result_.requests[before].arrival + (result_.due[static_cast<std::size_t>(turn)] - result_.due[before]);
}

// Turns whose answer before has come since.
void Deployment::send_turns() {
  for (const std::int32_t request : ended_) {
    const auto [first, last] = waiting_turns_.equal_range(request);
    for (auto turn = first; turn != last; ++turn) {
      result_.turns_waited += now_ > earliest(turn->second) ? 1 : 0;
      queue_.push(std::max(now_, earliest(turn->second)), Phase::Arrive, RequestArrived{turn->second, true});
    }
    waiting_turns_.erase(first, last);
  }
  ended_.clear();
}

void Deployment::on(const RequestArrived& event) {
  if (!event.answered) {
    expect_arrival(static_cast<std::size_t>(event.request) + 1);
    const std::int32_t before = turn_before_.empty() ? -1 : turn_before_[static_cast<std::size_t>(event.request)];
    if (before >= 0 && !has_ended(before)) {
      waiting_turns_.emplace(before, event.request);
      return;
    }
    if (before >= 0 && earliest(event.request) > now_) {
      queue_.push(earliest(event.request), Phase::Arrive, RequestArrived{event.request, true});
      return;
    }
  }
  counters_.requests.arrived();
  ++arrived_;
  RequestRecord& request = result_.requests[static_cast<std::size_t>(event.request)];
  request.arrival = now_;
  const ServingOptions& front = specs_[fronts_.front()].options;
  const Ticks outside = to_ticks(front.request_time + front.token_time * static_cast<double>(request.input_tokens));
  request.place = RequestPlace::kOutside;
  if (outside > Ticks{}) {
    queue_.push(now_ + outside, Phase::Arrive, RequestReady{event.request});
  } else {
    on(RequestReady{event.request});
  }
}

void Deployment::on(const RequestReady& event) {
  result_.requests[static_cast<std::size_t>(event.request)].place = RequestPlace::kAway;
  if (can_serve()) {
    begin(event.request);
  } else {
    fail(event.request);
  }
}

}  // namespace epsim
