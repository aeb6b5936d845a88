#include "sim/step/decision_work.h"

#include <algorithm>

namespace epsim {
namespace {

void clear(TrafficMatrix& traffic, const ClusterShape& shape) {
  traffic.clear(shape);
  traffic.executed.assign(shape.gpus, 0.0);
  traffic.touched.assign(shape.gpus, 0.0);
}

}  // namespace

void DecisionReader::place_expert(int expert, const RequestMatrix& requests, const StepDecision& decision,
                                  const Residency& home, DecisionWork& out) {
  const int gpus = requests.gpus;
  const auto at = [](int i) { return static_cast<std::size_t>(i); };
  double asked = 0, offered = 0;  // elsewhere than at home
  const auto stays_on = [&](int g) {
    return profile_.draws_copies ? 0 : std::min(requests.at(g, expert), decision.tokens.at(g, expert));
  };
  for (int g = 0; g < gpus; ++g) {
    const std::int64_t local = stays_on(g);
    asked += static_cast<double>(requests.at(g, expert) - local);
    offered += static_cast<double>(decision.tokens.at(g, expert) - local);
  }
  for (int d = 0; d < gpus; ++d) {
    const std::int64_t here = decision.tokens.at(d, expert);
    if (here == 0) {
      continue;
    }
    const std::int64_t local = stays_on(d);
    const double free = static_cast<double>(here - local);
    for (int s = 0; s < gpus; ++s) {
      const double remote = static_cast<double>(requests.at(s, expert) - stays_on(s));
      const double sent = (s == d ? static_cast<double>(local) : 0.0) + (offered > 0 ? remote * free / offered : 0.0);
      if (sent > 0) {
        const std::size_t pair = at(s) * at(gpus) + at(d);
        rows_[pair] += sent;
        missed_[pair] *= std::max(0.0, 1.0 - sent / static_cast<double>(gpu_tokens_[at(s)]));
      }
    }
    const double first = profile_.two_stage                                       ? static_cast<double>(local)
                         : profile_.copies_on_demand && home.home_of(expert) != d ? 0.0
                                                                                  : static_cast<double>(here);
    const double rest = static_cast<double>(here) - first;
    out.first[at(d)].rows += first;
    out.first[at(d)].touched += first > 0 ? 1 : 0;
    out.then[at(d)].rows += rest;
    out.then[at(d)].touched += rest > 0 ? 1 : 0;
    out.tokens.executed[at(d)] += static_cast<double>(here);
    out.tokens.touched[at(d)] += 1;
  }
}

// Rows of the shared expert, among those of the routed ones. They are no routed load: `executed` is without them.
void DecisionReader::place_shared(const SharedDispatch& shared, DecisionWork& out) {
  const auto gpus = static_cast<std::size_t>(shape_.gpus);
  for (std::size_t s = 0; s < gpus && !shared.share.empty(); ++s) {
    for (std::size_t d = 0; d < gpus; ++d) {
      const std::size_t pair = s * gpus + d;
      const double rows = shared.share[pair] * static_cast<double>(gpu_tokens_[s]);
      rows_[pair] += rows;
      missed_[pair] *= shared.only_visited ? 1.0 : 1.0 - shared.share[pair];
      out.first[d].rows += rows;
    }
  }
  for (std::size_t d = 0; d < gpus && !shared.share.empty(); ++d) {
    double chance = 0;
    for (std::size_t s = 0; s < gpus; ++s) {
      chance += shared.share[s * gpus + d] * static_cast<double>(gpu_tokens_[s]);
    }
    out.first[d].touched += chance > 0 ? 1 : 0;
  }
}

void DecisionReader::send_tokens(std::span<const std::int64_t> gpu_tokens, TrafficMatrix& out) {
  const auto gpus = static_cast<std::size_t>(shape_.gpus), per_node = static_cast<std::size_t>(shape_.gpus_per_node);
  const bool by_node = dedup_ == Dedup::kNode || all_gather_;
  for (std::size_t s = 0; s < gpus; ++s) {
    const auto tokens = static_cast<double>(gpu_tokens[s]);
    const auto rows = [&](std::size_t d) {
      const std::size_t pair = s * gpus + d;
      return all_gather_ ? tokens : dedup_ == Dedup::kNone ? rows_[pair] : tokens * (1.0 - missed_[pair]);
    };
    for (std::size_t first = 0; first < gpus; first += per_node) {
      const bool own = s / per_node == first / per_node;
      // One row per token and node lands on the GPU of the sender's index and is fanned out from there.
      const std::size_t landing = by_node && !own ? first + s % per_node : s;
      double missed = 1.0;
      for (std::size_t d = first; d < first + per_node; ++d) {
        out.add(static_cast<int>(landing), static_cast<int>(d), rows(d));
        missed *= missed_[s * gpus + d];
      }
      if (landing != s) {
        out.add(static_cast<int>(s), static_cast<int>(landing), all_gather_ ? tokens : tokens * (1.0 - missed));
      }
    }
  }
}

void DecisionReader::move_weights(const StepDecision& decision, const Residency& home, DecisionWork& out) const {
  for (const ExpertCopy& copy : decision.copies) {
    const int from = profile_.broadcasts ? (copy.gpu + shape_.gpus - 1) % shape_.gpus
                     : copy.from >= 0    ? copy.from
                                         : home.home_of(copy.expert);
    out.weights.add(from, copy.gpu, 1.0);
  }
  out.copies = static_cast<double>(decision.copies.size());
}

void DecisionReader::read(const RequestMatrix& requests, const StepDecision& decision, const Residency& home,
                          std::span<const std::int64_t> gpu_tokens, DecisionWork& out) {
  const auto gpus = static_cast<std::size_t>(shape_.gpus);
  clear(out.tokens, shape_);
  clear(out.weights, shape_);
  out.first.assign(gpus, {});
  out.then.assign(gpus, {});
  missed_.assign(gpus * gpus, 1.0);
  rows_.assign(gpus * gpus, 0.0);
  gpu_tokens_ = gpu_tokens;
  for (int e = 0; e < requests.experts; ++e) {
    place_expert(e, requests, decision, home, out);
  }
  place_shared(decision.shared, out);
  send_tokens(gpu_tokens, out.tokens);
  move_weights(decision, home, out);
}

}  // namespace epsim
