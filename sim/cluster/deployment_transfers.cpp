// How prompts come from prefill instances to decode instances (deployment.h).
#include <algorithm>

#include "sim/cluster/deployment.h"
#include "sim/core/check.h"

namespace epsim {

// The prompt queues up at a decode instance.
Deployment::Route& Deployment::route_to_decoder(std::int32_t request) {
  const std::size_t to = pick_alive(decoders_, next_decoder_, request);
  const std::size_t rank = instances_[to].enqueue_remote(request);
  Route& route = routes_[request] = {static_cast<std::int32_t>(to), static_cast<std::int32_t>(rank)};
  route.asked = now_;
  return route;
}

// What has been computed of prompts on a prefill instance goes to decode instances, in part or whole.
void Deployment::hand_over(std::size_t from) {
  const auto ranks = instances_[from].ranks();
  const auto pass_on = [&](std::int32_t request, std::size_t rank, std::int64_t tokens, bool ended) {
    const bool known = routes_.contains(request);
    if (memory_first_ && !known) {  // the rank that had memory for it was lost
      if (ended) {
        ranks[rank]->drop(request);
        retry(request);
      }
      return;
    }
    Route& route = known ? routes_.at(request) : route_to_decoder(request);
    route.from_instance = static_cast<std::int32_t>(from);
    route.from_rank = static_cast<std::int32_t>(rank);
    route.computed = std::max(route.computed, tokens);
    route.ended = ended;
    if (route.admitted) {
      transfer(request, route);
    } else if (!known) {
      const auto to = static_cast<std::size_t>(route.to_instance);
      start_transfers(to);
      expect_step(to);
    }
  };
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    for (const Scheduler::PromptPart& part : ranks[r]->take_parts()) {
      pass_on(part.request, r, part.tokens, false);
    }
    for (const std::int32_t request : ranks[r]->take_handed_over()) {
      pass_on(request, r, result_.requests[static_cast<std::size_t>(request)].input_tokens, true);
    }
  }
}

// The decode instance sets pages aside for the prompts that wait for it, in their order.
void Deployment::start_transfers(std::size_t to) {
  const auto ranks = instances_[to].ranks();
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    while (const std::optional<std::int32_t> request = ranks[r]->admit_remote()) {
      Route& route = routes_.at(*request);
      EPSIM_CHECK(route.to_instance == static_cast<std::int32_t>(to) && route.to_rank == static_cast<std::int32_t>(r),
                  "a prompt travels to the rank that it was routed to");
      route.admitted = true;
      route.sent = ranks[r]->lent_tokens(*request);
      result_.transfers.wait_for_memory += to_seconds(now_ - route.asked);
      if (route.from_instance >= 0) {
        transfer(*request, route);
      } else {
        begin_remote(*request, route);
      }
    }
  }
  observe(to);
}

// Memory waits for the prompt, which may be computed now.
void Deployment::begin_remote(std::int32_t request, Route& route) {
  if (!any_alive(fronts_)) {
    instances_[static_cast<std::size_t>(route.to_instance)].ranks()[static_cast<std::size_t>(route.to_rank)]->drop(
        request);
    routes_.erase(request);
    fail(request);
    return;
  }
  const Place place = enter_front(request);
  route.from_instance = static_cast<std::int32_t>(place.instance);
  route.from_rank = static_cast<std::int32_t>(place.rank);
}

// Sends what has been computed and not been sent.
void Deployment::transfer(std::int32_t request, Route& route) {
  const auto from = static_cast<std::size_t>(route.from_instance), to = static_cast<std::size_t>(route.to_instance);
  const InstanceSpec& spec = specs_[from];
  const std::int64_t tokens = route.computed - route.sent;
  if (tokens <= 0) {
    return;  // a part that was computed again, or that the receiver has
  }
  const int out = route.from_rank / spec.ranks_per_lane, in = route.to_rank / specs_[to].ranks_per_lane;
  Ticks& sent = lane_free_[from][static_cast<std::size_t>(out)];
  const Ticks start = std::max(now_, sent);
  const double share = std::min(spec.path->share_left(out, start), specs_[to].path->share_left(in, start));
  const Ticks duration = to_ticks(spec.path->transfer_time(tokens, route.ended, share));
  sent = start + duration;
  route.sent = route.computed;
  const std::int64_t prompts = route.ended ? 1 : 0;
  result_.transfers.count += prompts;
  result_.transfers.tokens += tokens;
  for (TransferStats::Carried* carried : {&result_.transfers.sent[from][static_cast<std::size_t>(out)],
                                          &result_.transfers.received[to][static_cast<std::size_t>(in)]}) {
    carried->prompts += prompts;
    carried->tokens += tokens;
  }
  result_.transfers.time += to_seconds(duration);
  if (route.ended) {  // of a prompt's last part; waits of those before it overlap
    result_.transfers.wait += to_seconds(start - now_);
  }
  // The receiving lane has its own rate, and takes no longer for a slow sender.
  const Ticks takes =
      to_ticks(specs_[to].path->transfer_time(tokens, route.ended, specs_[to].path->share_left(in, start)));
  KvTravels travels{
      {request, attempt_of(request)},
      route.to_instance,
      in,
      false,
      route.ended,
      duration > Ticks(0) ? static_cast<double>(takes.count()) / static_cast<double>(duration.count()) : 0.0,
      takes};
  if (start > now_) {
    queue_.push(start, Phase::Complete, travels);
  } else {
    on(travels);
  }
  travels.ends = true;
  queue_.push(sent, Phase::Complete, travels);
}

// A receiving lane is a queue of bytes: what several instances send at once waits where it exceeds the lane's rate, and a
// prompt has arrived when its last byte has been taken. No sender waits for that.
void Deployment::on(const KvTravels& event) {
  Inbound& lane = inbound_[static_cast<std::size_t>(event.to_instance)][static_cast<std::size_t>(event.to_lane)];
  lane.backlog_s = std::max(0.0, lane.backlog_s + (lane.inflow - 1) * to_seconds(now_ - lane.since).count());
  lane.since = now_;
  lane.prompts += event.ends ? -1 : 1;
  lane.inflow = lane.prompts == 0 ? 0.0 : lane.inflow + (event.ends ? -event.inflow : event.inflow);
  const bool current =
      routes_.contains(event.prompt.request) && event.prompt.attempt == attempt_of(event.prompt.request);
  if (!event.ends || !event.last || !current) {
    return;
  }
  const Ticks queued = to_ticks(Seconds(lane.backlog_s));
  if (queued == Ticks(0)) {
    on(event.prompt);
    return;
  }
  // A lane slower than the sender's takes longer for the prompt itself.
  const double own = to_seconds(event.takes).count() * std::max(0.0, 1 - 1 / event.inflow);
  result_.transfers.time += Seconds(std::min(own, lane.backlog_s));
  result_.transfers.wait += Seconds(std::max(0.0, lane.backlog_s - own));
  queue_.push(now_ + queued, Phase::Complete, event.prompt);
}

void Deployment::on(const KvArrived& event) {
  const auto entry = routes_.find(event.request);
  if (entry == routes_.end() || event.attempt != attempt_of(event.request)) {
    return;  // one of its ends was lost on the way
  }
  const Route route = entry->second;
  routes_.erase(entry);
  const auto from = static_cast<std::size_t>(route.from_instance), to = static_cast<std::size_t>(route.to_instance);
  instances_[from].ranks()[static_cast<std::size_t>(route.from_rank)]->release_handed_over(event.request);
  instances_[to].ranks()[static_cast<std::size_t>(route.to_rank)]->receive(event.request, now_);
  note_rank(event.request, first_rank(to) + route.to_rank);
  observe(from);
  observe(to);
  if (instances_[from].any_work()) {
    expect_step(from);
  }
  expect_step(to);
}

}  // namespace epsim
