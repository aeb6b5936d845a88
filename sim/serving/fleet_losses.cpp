// What a fleet does when hardware is lost (fleet.h).
#include <algorithm>
#include <utility>

#include "sim/core/check.h"
#include "sim/serving/fleet.h"

namespace epsim {

bool Fleet::any_alive(std::span<const std::size_t> among) const {
  return std::any_of(among.begin(), among.end(), [this](std::size_t i) { return instances_[i].alive(); });
}

std::size_t Fleet::pick_alive(std::span<const std::size_t> among, std::size_t& next, std::int32_t request) const {
  if (!may_lose_) {
    return pick(among, next, rule_, request);
  }
  std::vector<std::size_t> alive;
  std::copy_if(among.begin(), among.end(), std::back_inserter(alive),
               [this](std::size_t i) { return instances_[i].alive(); });
  EPSIM_CHECK(!alive.empty(), "somebody is left who can serve");
  next %= alive.size();
  return pick(alive, next, rule_, request);
}

void Fleet::on(const HardwareLost& event) {
  const auto i = static_cast<std::size_t>(event.instance), loss = static_cast<std::size_t>(event.loss);
  if (instances_[i].stepping) {
    unnoticed_[i].push_back(loss);
  } else {
    strike(i, specs_[i].losses[loss]);
  }
}

void Fleet::strike(std::size_t i, const Loss& loss) {
  Instance& instance = instances_[i];
  if (!instance.alive()) {
    return;
  }
  if (loss.fatal) {
    lose_instance(i);
  } else {
    specs_[i].on_loss(static_cast<std::size_t>(&loss - specs_[i].losses.data()));
    instance.blocked_until = std::max(instance.blocked_until, now_ + loss.recovery);
    lose_ranks(i, loss.ranks);
  }
  // Those whose step is under way go when it has ended.
  for (std::size_t j = 0; j < instances_.size(); ++j) {
    if (stranded(j) && !instances_[j].stepping) {
      lose_instance(j);
    }
  }
}

// A prefill instance without anyone to decode for it. A decode instance ends what it has.
bool Fleet::stranded(std::size_t i) const {
  return instances_[i].role() == InstanceRole::kPrefill && instances_[i].alive() && !any_alive(decoders_);
}

void Fleet::lose_instance(std::size_t i) {
  std::vector<int> all(instances_[i].ranks().size());
  for (std::size_t r = 0; r < all.size(); ++r) {
    all[r] = static_cast<int>(r);
  }
  lose_ranks(i, all);
}

void Fleet::lose_ranks(std::size_t i, std::span<const int> ranks) {
  std::vector<std::int32_t> orphans;
  for (const int r : ranks) {
    DpRank& rank = instances_[i].ranks()[static_cast<std::size_t>(r)];
    if (rank.alive()) {
      const std::vector<std::int32_t> lost = rank.die();
      orphans.insert(orphans.end(), lost.begin(), lost.end());
    }
  }
  std::sort(orphans.begin(), orphans.end());
  for (const std::int32_t request : orphans) {
    cut_route(request, i);
  }
  for (const std::int32_t request : orphans) {
    retry(request);
  }
}

// A request that was lost at one end of a transfer leaves the other end too.
void Fleet::cut_route(std::int32_t request, std::size_t lost_instance) {
  const auto entry = routes_.find(request);
  if (entry == routes_.end()) {
    return;
  }
  const Route route = entry->second;
  routes_.erase(entry);
  const bool source_lost = static_cast<std::size_t>(route.from_instance) == lost_instance;
  const auto other = static_cast<std::size_t>(source_lost ? route.to_instance : route.from_instance);
  const auto rank = static_cast<std::size_t>(source_lost ? route.to_rank : route.from_rank);
  instances_[other].ranks()[rank].drop(request);
  if (instances_[other].any_work()) {
    expect_step(other);
  }
  if (source_lost) {
    start_transfers(other);  // its memory may be what another prompt waits for
  }
}

void Fleet::retry(std::int32_t request) {
  RequestRecord& r = result_.requests[static_cast<std::size_t>(request)];
  r.state = RequestState::kWaiting;
  r.admitted = r.first_token = Ticks{};
  r.cached_tokens = 0;
  if (r.retries >= retry_limit_ || !can_serve()) {
    fail(request);
    return;
  }
  ++r.retries;
  expect_step(route(request));
}

void Fleet::fail(std::int32_t request) {
  RequestRecord& r = result_.requests[static_cast<std::size_t>(request)];
  r.state = RequestState::kFailed;
  r.finished = now_;
  ++result_.failed;
  tally_.requests.left(1);
  fingerprint_.add(static_cast<std::int64_t>(request));
}

}  // namespace epsim
