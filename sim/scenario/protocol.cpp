#include "sim/scenario/protocol.h"

#include "sim/core/choice.h"

namespace epsim {
namespace {

enum class Counted { kSteady, kAll };

}  // namespace

template <>
inline constexpr auto kNames<Counted> = choice<Counted>({{"steady", Counted::kSteady}, {"all", Counted::kAll}});

namespace {

constexpr KeyTable kProtocolKeys({
    {"slo", key::text(), key::by("none: the knee is searched for"),
     "The SLO where --slo gives none, as in ttft.p99<2s,tpot.p99<50ms."},
    {"requests", key::whole(Bound::kPositive), key::by("as many as the verdict needs"),
     "Requests of a run at each rate, with count: all."},
    {"count", key::one_of<Counted>(), key::is(Counted::kSteady),
     "steady: what warm-up and drain leave, if it is steady; all: every request, as in a short benchmark run."},
});

}  // namespace

std::span<const Key> protocol_keys() { return kProtocolKeys; }

Protocol read_protocol(ConfigReader in) {
  const auto requests = in.maybe<std::int64_t>(kProtocolKeys["requests"]);
  const bool all = in.read<Counted>(kProtocolKeys["count"]) == Counted::kAll;
  in.check(all == requests.has_value(), all ? "requests" : "count",
           "`requests` and `count: all` go together, as in {requests: 500, count: all}; in a steady state the search "
           "chooses the number of requests.");
  Protocol out{{}, requests.value_or(0)};
  if (const auto slo = in.maybe<std::string>(kProtocolKeys["slo"])) {
    try {
      out.slo = parse_slo(*slo);
    } catch (const InputError& e) {
      in.fail("slo", e.problem);
    }
  }
  return out;
}

}  // namespace epsim
