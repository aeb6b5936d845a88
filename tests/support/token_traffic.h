// Who sends how many rows to whom when the experts of every token are known: the exact counterpart of TrafficModel.
//   Models : each token's experts as they are, so experts that serve the same tokens share rows as they really would.
//            Where copies share an expert's tokens, rows are expected values: a token is computed by one of the copies,
//            and which one of them does not depend on its other experts.
//   Ignores: routing metadata, as TrafficModel does.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "models/network/traffic.h"
#include "sim/core/check.h"

namespace epsim {

// Slots of each expert with their GPUs.
struct TokenCopies {
  std::vector<std::size_t> first;  // [expert + 1]
  std::vector<std::size_t> slot, gpu;

  explicit TokenCopies(const LayerPlacement& at) : first(at.copies.size() + 1, 0), slot(at.expert.size()), gpu(slot) {
    for (std::size_t e = 0; e < at.copies.size(); ++e) {
      first[e + 1] = first[e] + static_cast<std::size_t>(at.copies[e]);
    }
    std::vector<std::size_t> next(first.begin(), first.end() - 1);
    for (std::size_t g = 0; g + 1 < at.first_slot.size(); ++g) {
      for (auto s = static_cast<std::size_t>(at.first_slot[g]); s < static_cast<std::size_t>(at.first_slot[g + 1]);
           ++s) {
        const std::size_t place = next[static_cast<std::size_t>(at.expert[s])]++;
        slot[place] = s;
        gpu[place] = g;
      }
    }
  }
};

class TokenCounter {
 public:
  TokenCounter(const LayerPlacement& at, const ClusterShape& shape, Dedup dedup, TrafficMatrix& out)
      : at_(at),
        shape_(shape),
        dedup_(dedup),
        out_(out),
        copies_(at),
        slot_rows_(at.expert.size(), 0.0),
        slot_missed_(at.expert.size(), 1.0),
        reach_(static_cast<std::size_t>(shape.gpus)),
        missed_(reach_.size()),
        node_share_(reach_.size() / per_node(), 0.0),
        node_missed_(node_share_.size()) {
    out.clear(shape);
    out.executed.assign(reach_.size(), 0.0);
    out.touched.assign(reach_.size(), 0.0);
  }

  template <class Id>
  void add(std::span<const Id> experts, std::size_t source) {
    const float* share = at_.share.data();
    if (!at_.by_source.empty()) {
      share = at_.by_source.share.data() +
              source / static_cast<std::size_t>(at_.by_source.gpus_per_source) * at_.expert.size();
    }
    std::fill(reach_.begin(), reach_.end(), 0.0);
    std::fill(missed_.begin(), missed_.end(), 1.0);
    std::fill(node_missed_.begin(), node_missed_.end(), 1.0);
    for (const Id e : experts) {
      // Slots of an expert come by growing GPU.
      for (std::size_t i = copies_.first[e], next = i; i < copies_.first[e + 1U]; i = next) {
        const std::size_t gpu = copies_.gpu[i];
        double here = 0;
        for (; next < copies_.first[e + 1U] && copies_.gpu[next] == gpu; ++next) {
          const auto chance = static_cast<double>(share[copies_.slot[next]]);
          here += chance;
          slot_rows_[copies_.slot[next]] += chance;
          slot_missed_[copies_.slot[next]] *= 1.0 - chance;
        }
        reach_[gpu] += here;
        missed_[gpu] *= 1.0 - here;
        node_share_[gpu / per_node()] += here;
      }
      for (std::size_t n = 0; n < node_share_.size(); ++n) {
        node_missed_[n] *= 1.0 - node_share_[n];
        node_share_[n] = 0;
      }
    }
    send(source);
  }

  void finish() {
    for (std::size_t g = 0; g < reach_.size(); ++g) {
      for (auto s = static_cast<std::size_t>(at_.first_slot[g]); s < static_cast<std::size_t>(at_.first_slot[g + 1]);
           ++s) {
        out_.executed[g] += slot_rows_[s];
        out_.touched[g] += 1.0 - slot_missed_[s];
      }
    }
  }

 private:
  std::size_t per_node() const { return static_cast<std::size_t>(shape_.gpus_per_node); }

  void send(std::size_t source) {
    const std::size_t per_node = this->per_node();
    for (std::size_t n = 0; n < reach_.size() / per_node; ++n) {
      const bool own = n == source / per_node;
      // With one row per node, tokens of other nodes land on the GPU of their own index and go on from there.
      const bool lands = dedup_ == Dedup::kNode && !own;
      const std::size_t from = lands ? n * per_node + source % per_node : source;
      for (std::size_t g = n * per_node; g < (n + 1) * per_node; ++g) {
        const double rows = dedup_ == Dedup::kNone ? reach_[g] : 1.0 - missed_[g];
        out_.add(static_cast<int>(from), static_cast<int>(g), rows);
      }
      if (lands) {
        out_.add(static_cast<int>(source), static_cast<int>(from), 1.0 - node_missed_[n]);
      }
    }
  }

  const LayerPlacement& at_;
  ClusterShape shape_;
  Dedup dedup_;
  TrafficMatrix& out_;
  TokenCopies copies_;
  std::vector<double> slot_rows_, slot_missed_;   // [slot] rows, and the chance of none
  std::vector<double> reach_, missed_;            // [GPU] of the token at hand
  std::vector<double> node_share_, node_missed_;  // [node] of the expert at hand; of the token at hand
};

// Counts the rows of MoE layer `l` for tokens that lie on token_gpu[t] and use experts ids[t * top_k .. + top_k - 1].
template <class Id>
void count_token_traffic(const Placement& placement, int l, const ClusterShape& shape, Dedup dedup,
                         std::span<const Id> ids, std::span<const std::int32_t> token_gpu, TrafficMatrix& out) {
  TokenCounter counter(placement.layer(l), shape, dedup, out);
  EPSIM_CHECK(!token_gpu.empty() && ids.size() % token_gpu.size() == 0, "every token has equally many experts");
  const std::size_t top_k = ids.size() / token_gpu.size();
  const auto experts = static_cast<std::size_t>(placement.experts());
  EPSIM_CHECK(std::all_of(ids.begin(), ids.end(), [&](Id e) { return e < experts; }), "ids are experts of the model");
  for (std::size_t t = 0; t < token_gpu.size(); ++t) {
    counter.add(ids.subspan(t * top_k, top_k), static_cast<std::size_t>(token_gpu[t]));
  }
  counter.finish();
}

}  // namespace epsim
