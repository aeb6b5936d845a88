// Kinds of tokens: what makes experts go together within a token, beyond its sequence's topic.
//
//   Models : every token is of one of a few kinds, all as frequent, drawn anew for each token and the same in all
//            layers. Every expert belongs to one kind, or to several where one could not use it enough,
//            as many by popularity to each. A kind prefers its own by
//            e^(kind_sigma g), g of two values with mean 0 and variance 1 over the kinds, scaled (Sinkhorn 1964) so
//            that the kinds' mean is the popularity. Disjoint preferences reach any affinity up to 1 - 1 / kinds;
//            preferences drawn independently overlap, and reach little, the less the more kinds there are. In place of
//            what one really sees: names, digits, function words, ...
#pragma once

#include <vector>

#include "traces/routing_model/routing_law.h"

namespace epsim {

// The rate -ln(1 - p) at which an expert races, that wins with chance p; finite for p = 1.
float race_rate(float p);

class TokenKinds {
 public:
  explicit TokenKinds(const RoutingLaw& law);

  // The weights of a kind's experts in the race of a topic with these rates (of all experts): the mix of what the kind
  // prefers and, for the share of choices without kind, the rates themselves.
  void weights(int layer, std::size_t kind, std::span<const float> rates, std::span<float> out) const;

 private:
  std::size_t kinds_;
  float share_;
  std::vector<float> preference_;  // [layer][kind][expert], over the rate that the popularity alone gives
};

}  // namespace epsim
