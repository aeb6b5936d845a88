// What a deployment does when hardware is lost or comes back (deployment.h).
#include <algorithm>
#include <functional>
#include <utility>

#include "sim/cluster/deployment.h"
#include "sim/core/check.h"

namespace epsim {

bool Deployment::any_alive(std::span<const std::size_t> among) const {
  return std::any_of(among.begin(), among.end(), [this](std::size_t i) { return instances_[i].alive(); });
}

std::size_t Deployment::pick_alive(std::span<const std::size_t> among, std::size_t& next, std::int32_t request) const {
  if (!may_lose_) {
    return pick(among, next, rule_, request);
  }
  std::vector<std::size_t> alive;
  std::copy_if(among.begin(), among.end(), std::back_inserter(alive),
               [this](std::size_t i) { return instances_[i].alive(); });
  EPSIM_CHECK(!alive.empty(), "at least one instance survives");
  const auto ready = [this](std::size_t i) { return standing_[i].ready <= now_; };
  if (std::ranges::any_of(alive, ready)) {
    std::erase_if(alive, std::not_fn(ready));
  }
  next %= alive.size();
  return pick(alive, next, rule_, request);
}

void Deployment::on(const HardwareChanged& event) {
  const auto i = static_cast<std::size_t>(event.instance), number = static_cast<std::size_t>(event.change);
  const HardwareChange& change = specs_[i].changes[number];
  specs_[i].model->set_conditions(change.conditions);  // of steps that begin from now on
  if (!change.gpus) {
    return;
  }
  if (instances_[i].stepping) {
    unnoticed_[i].push_back(number);
  } else {
    const bool held = specs_[i].model->holds_steps(), unseen = instances_[i].has_unseen_tokens();
    change_gpus(i, change);
    expect_weights(i);
    if (unseen) {
      settle(i);  // what it had made has gone out
    } else if (held && instances_[i].any_work()) {
      expect_step(i);  // what it waited for may have been dropped
    }
  }
}

void Deployment::change_gpus(std::size_t i, const HardwareChange& change) {
  stop_loop(i);
  const std::optional<Ticks> still = recovery_stall(i, change);
  standing_[i].down = !still;
  if (still) {
    instances_[i].blocked_until = std::max(instances_[i].blocked_until, now_ + change.recovery + *still);
    if (!instances_[i].alive()) {
      standing_[i].ready = instances_[i].blocked_until;
    }
    revive(i);  // first: what others lose at the same instant may go to who is back
    lose_ranks(i, change.ranks);
  } else {
    lose_instance(i);
  }
  for (std::size_t j = 0; j < instances_.size(); ++j) {
    if (stranded(j) && !instances_[j].stepping) {  // those whose step is under way go when it has ended
      lose_instance(j);
    } else if (instances_[j].role() == InstanceRole::kPrefill && any_alive(decoders_)) {
      revive(j);
    }
    observe(j);
  }
}

// Enters the change; for how long the instance stands still besides its recovery, none where it cannot go on.
std::optional<Ticks> Deployment::recovery_stall(std::size_t i, const HardwareChange& change) {
  std::vector<bool>& broken = standing_[i].broken;
  for (const int r : change.ranks) {
    broken[static_cast<std::size_t>(r)] = true;
  }
  for (const int r : change.back) {
    broken[static_cast<std::size_t>(r)] = false;
  }
  const std::optional<Ticks> still = specs_[i].model->recover(change);
  return change.fatal ? std::nullopt : still;
}

// Ranks that are whole serve again, unless their instance cannot, or nobody decodes for them.
void Deployment::revive(std::size_t i) {
  const auto ranks = instances_[i].ranks();
  for (std::size_t r = 0; r < ranks.size() && !standing_[i].down; ++r) {
    if (!ranks[r]->alive() && !standing_[i].broken[r]) {
      ranks[r]->revive();
    }
  }
}

// A prefill instance without anyone to decode for it. A decode instance ends what it has.
bool Deployment::stranded(std::size_t i) const {
  return instances_[i].role() == InstanceRole::kPrefill && instances_[i].alive() && !any_alive(decoders_);
}

void Deployment::lose_instance(std::size_t i) {
  std::vector<int> all(instances_[i].ranks().size());
  for (std::size_t r = 0; r < all.size(); ++r) {
    all[r] = static_cast<int>(r);
  }
  lose_ranks(i, all);
}

void Deployment::lose_ranks(std::size_t i, std::span<const int> ranks) {
  stop_loop(i);
  std::vector<std::int32_t> orphans;
  for (const int r : ranks) {
    Scheduler& rank = *instances_[i].ranks()[static_cast<std::size_t>(r)];
    if (rank.alive()) {
      const std::vector<std::int32_t> lost = rank.die();
      orphans.insert(orphans.end(), lost.begin(), lost.end());
    }
  }
  std::sort(orphans.begin(), orphans.end());
  std::erase_if(orphans, [&](std::int32_t request) { return !cut_route(request, i); });
  for (const std::int32_t request : orphans) {
    retry(request);
  }
}

// A request that was lost at one end of a transfer leaves the other end too, and starts anew; but a prompt under way whose
// decode rank is lost is computed to its end first.
bool Deployment::cut_route(std::int32_t request, std::size_t lost_instance) {
  const auto entry = routes_.find(request);
  if (entry == routes_.end()) {
    return true;
  }
  const Route route = entry->second;
  routes_.erase(entry);
  if (route.from_instance < 0) {
    return true;  // it has not begun
  }
  const bool source_lost = static_cast<std::size_t>(route.from_instance) == lost_instance;
  const bool begun = result_.requests[static_cast<std::size_t>(request)].state == RequestState::kRunning;
  if (!source_lost && !route.ended && begun) {
    return false;
  }
  const auto other = static_cast<std::size_t>(source_lost ? route.to_instance : route.from_instance);
  const auto rank = static_cast<std::size_t>(source_lost ? route.to_rank : route.from_rank);
  instances_[other].ranks()[rank]->drop(request);
  if (instances_[other].any_work()) {
    expect_step(other);
  }
  if (source_lost) {
    start_transfers(other);  // its memory may be what another prompt waits for
  }
  return true;
}

void Deployment::retry(std::int32_t request) {
  RequestRecord& r = result_.requests[static_cast<std::size_t>(request)];
  r.state = RequestState::kWaiting;
  r.admitted = r.first_token = Ticks{};
  RequestExtras& extras = result_.requests.make_extras(static_cast<std::size_t>(request));
  extras.cached_tokens = 0;
  if (extras.retries >= retry_limit_ || !can_serve()) {
    fail(request);
    return;
  }
  ++extras.retries;
  begin(request);
}

void Deployment::fail(std::int32_t request) {
  RequestRecord& r = result_.requests[static_cast<std::size_t>(request)];
  r.state = RequestState::kFailed;
  r.finished = now_;
  ++result_.failed;
  counters_.requests.left(1);
  fingerprint_.add(static_cast<std::int64_t>(request));
  send_next(1);
  if (!turn_before_.empty()) {
    ended_.push_back(request);
    send_turns();
  }
}

}  // namespace epsim
