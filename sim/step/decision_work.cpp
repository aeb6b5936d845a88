#include "sim/step/decision_work.h"

#include <algorithm>

namespace epsim {
namespace {

void clear(TrafficMatrix& traffic, const ClusterShape& shape) {
  traffic.clear(shape);
  traffic.executed.assign(shape.gpus, 0.0);
  traffic.touched.assign(shape.gpus, 0.0);
}

double pair_weight_of(const RequestMatrix& requests, int source, std::int64_t tokens) {
  std::vector<float> chances;
  for (int e = 0; e < requests.experts && tokens > 0; ++e) {
    chances.push_back(static_cast<float>(requests.at(source, e)) / static_cast<float>(tokens));
  }
  return pair_weight(chances);
}

}  // namespace

// The expert's column of both matrices, side by side.
void DecisionReader::take_column(int expert, const RequestMatrix& requests, const TokenAssignment& tokens) {
  column_.resize(static_cast<std::size_t>(requests.gpus));
  std::int64_t offered = 0, all = 0;
  for (int g = 0; g < requests.gpus; ++g) {
    const std::int64_t asked = requests.at(g, expert), computes = tokens.at(g, expert);
    const std::int64_t stays = profile_.draws_copies ? 0 : std::min(asked, computes);
    const auto at = static_cast<std::size_t>(g);
    column_[at] = {static_cast<double>(asked), static_cast<double>(asked) / static_cast<double>(gpu_tokens_[at]),
                   static_cast<double>(asked - stays), static_cast<double>(stays), static_cast<double>(computes)};
    offered += computes - stays;
    all += asked;
  }
  offered_ = static_cast<double>(offered);
  all_ = static_cast<double>(all);
}

void DecisionReader::place_expert(int expert, const RequestMatrix& requests, const StepDecision& decision,
                                  const Residency& home, DecisionWork& out) {
  take_column(expert, requests, decision.tokens);
  for (std::size_t d = 0; d < column_.size(); ++d) {
    const double here = column_[d].computes, local = column_[d].stays;
    if (here == 0) {
      continue;
    }
    const double free = here - local;
    for (std::size_t s = 0; s < column_.size(); ++s) {
      const double sent = here == all_
                              ? column_[s].asked
                              : (s == d ? local : 0.0) + (offered_ > 0 ? column_[s].remote * free / offered_ : 0);
      if (sent > 0) {
        add_use(s, d, sent, column_[s].asked, column_[s].chance);
      }
    }
    const double first = profile_.two_stage                                                         ? local
                         : profile_.copies_on_demand && home.home_of(expert) != static_cast<int>(d) ? 0.0
                                                                                                    : here;
    const double rest = here - first;
    out.first[d].rows += first;
    out.first[d].touched += first > 0 ? 1 : 0;
    out.then[d].rows += rest;
    out.then[d].touched += rest > 0 ? 1 : 0;
    out.tokens.executed[d] += here;
    out.tokens.touched[d] += 1;
  }
  end_expert();
}

void DecisionReader::add_use(std::size_t s, std::size_t d, double sent, double asked, double chance) {
  const auto gpus = static_cast<std::size_t>(shape_.gpus), per_node = static_cast<std::size_t>(shape_.gpus_per_node);
  rows_[d * gpus + s] += sent;
  if (dedup_ != Dedup::kNone) {
    missed_[d * gpus + s].add(chance, sent < asked ? sent / asked : 1.0);
  }
  if (dedup_ == Dedup::kNode) {
    Use& use = to_node_[s * (gpus / per_node) + d / per_node];
    use = {use.sent + sent, asked};
  }
}

// Copies of one expert in a node exclude each other: they count as one.
void DecisionReader::end_expert() {
  const auto nodes = static_cast<std::size_t>(shape_.nodes());
  for (std::size_t i = 0; i < to_node_.size(); ++i) {
    Use& use = to_node_[i];
    if (use.sent > 0) {
      node_missed_[i].add(use.asked / static_cast<double>(gpu_tokens_[i / nodes]), std::min(1.0, use.sent / use.asked));
      use = {};
    }
  }
}

// Rows of the shared expert, among those of the routed ones. They are no routed load: `executed` is without them.
void DecisionReader::place_shared(const SharedDispatch& shared, DecisionWork& out) {
  const auto gpus = static_cast<std::size_t>(shape_.gpus);
  std::vector<double> here(shared.share.empty() ? 0 : gpus, 0.0);
  for (std::size_t s = 0; s < gpus && !here.empty(); ++s) {
    const auto tokens = static_cast<double>(gpu_tokens_[s]);
    for (std::size_t d = 0; d < gpus; ++d) {
      const double rows = shared.share[s * gpus + d] * tokens;
      here[d] += rows;
      if (rows > 0 && shared.only_visited) {
        rows_[d * gpus + s] += rows;
      } else if (rows > 0) {
        add_use(s, d, rows, tokens, 1.0);
      }
    }
  }
  for (std::size_t d = 0; d < here.size(); ++d) {
    out.first[d].rows += here[d];
    out.first[d].touched += here[d] > 0 ? 1 : 0;
  }
  end_expert();
}

void DecisionReader::send_tokens(const JointPowers& joint, TrafficMatrix& out) {
  const auto gpus = static_cast<std::size_t>(shape_.gpus), per_node = static_cast<std::size_t>(shape_.gpus_per_node);
  const bool by_node = dedup_ == Dedup::kNode || all_gather_;
  const auto used = [](const MissProbability& missed, double weight, const std::vector<double>& powers, std::size_t i) {
    return 1.0 - (powers.empty() ? missed.value(weight) : missed.value(weight, powers[i]));
  };
  for (std::size_t s = 0; s < gpus; ++s) {
    const auto tokens = static_cast<double>(gpu_tokens_[s]);
    const auto rows = [&](std::size_t d) {
      const std::size_t pair = d * gpus + s;
      return all_gather_              ? tokens
             : dedup_ == Dedup::kNone ? rows_[pair]
                                      : tokens * used(missed_[pair], pair_weight_[s], joint.gpus, d);
    };
    for (std::size_t n = 0; n < gpus / per_node; ++n) {
      // One row per token and node lands on the GPU of the sender's index and is fanned out from there.
      const std::size_t landing = by_node && n != s / per_node ? n * per_node + s % per_node : s;
      for (std::size_t d = n * per_node; d < (n + 1) * per_node; ++d) {
        out.add(static_cast<int>(landing), static_cast<int>(d), rows(d));
      }
      if (landing != s) {
        const MissProbability& missed = node_missed_[s * (gpus / per_node) + n];
        out.add(static_cast<int>(s), static_cast<int>(landing),
                all_gather_ ? tokens : tokens * used(missed, pair_weight_[s], joint.nodes, n));
      }
    }
  }
}

void DecisionReader::move_weights(const StepDecision& decision, const Residency& home, DecisionWork& out) const {
  out.from_host.assign(static_cast<std::size_t>(shape_.gpus), 0.0);
  for (const ExpertCopy& copy : decision.copies) {
    if (profile_.copies_from_host) {
      out.from_host[static_cast<std::size_t>(copy.gpu)] += 1;
      continue;
    }
    const int from = profile_.broadcasts ? (copy.gpu + shape_.gpus - 1) % shape_.gpus
                     : copy.from >= 0    ? copy.from
                                         : home.home_of(copy.expert);
    out.weights.add(from, copy.gpu, 1.0);
  }
  out.copies = static_cast<double>(decision.copies.size());
}

void DecisionReader::read(const RequestMatrix& requests, const StepDecision& decision, const Residency& home,
                          std::span<const std::int64_t> gpu_tokens, const JointPowers& joint, DecisionWork& out) {
  const auto gpus = static_cast<std::size_t>(shape_.gpus);
  const std::size_t to_nodes = gpus * static_cast<std::size_t>(shape_.nodes());
  clear(out.tokens, shape_);
  clear(out.weights, shape_);
  out.first.assign(gpus, {});
  out.then.assign(gpus, {});
  missed_.assign(gpus * gpus, {});
  node_missed_.assign(to_nodes, {});
  to_node_.assign(dedup_ == Dedup::kNode ? to_nodes : 0, {});
  rows_.assign(gpus * gpus, 0.0);
  gpu_tokens_ = gpu_tokens;
  pair_weight_.clear();
  for (int s = 0; s < requests.gpus; ++s) {
    pair_weight_.push_back(pair_weight_of(requests, s, gpu_tokens[static_cast<std::size_t>(s)]));
  }
  for (int e = 0; e < requests.experts; ++e) {
    place_expert(e, requests, decision, home, out);
  }
  place_shared(decision.shared, out);
  send_tokens(joint, out.tokens);
  move_weights(decision, home, out);
}

}  // namespace epsim
