// What is known of a request during and after a run: its state, the rank that served it, its times.
//
// Runs of 10^7 requests keep a record of each, so that a record has no gaps (44 bytes), and what few requests have stands
// beside the records (12 bytes of every request, in runs in which any has it).
#pragma once

#include <array>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/core/units.h"
#include "sim/domain/request_trace.h"

namespace epsim {

enum class RequestState : std::uint8_t {
  kWaiting,  // not finished when the run was cut short, and without tokens in the KV pool
  kRunning,  // likewise, with tokens in the KV pool
  kCompleted,
  kFailed,  // lost with hardware, and not retried, or as often as allowed
};

enum class RequestPlace : std::uint8_t {
  kAway,     // has not arrived, or came when nobody could serve it
  kOutside,  // has arrived, and no scheduler may see it yet (ServingOptions::request_time)
  kRank,     // was routed to a DP rank
};

// Ticks that need no alignment of 8 bytes.
class PackedTicks {
 public:
  constexpr PackedTicks() = default;
  constexpr PackedTicks(Ticks at) : words_(std::bit_cast<Words>(at.count())) {}
  constexpr operator Ticks() const { return Ticks{std::bit_cast<std::int64_t>(words_)}; }

  constexpr PackedTicks& operator+=(Ticks time) { return *this = *this + time; }
  friend constexpr Ticks operator+(PackedTicks a, PackedTicks b) { return Ticks{a} + Ticks{b}; }
  friend constexpr Ticks operator-(PackedTicks a, PackedTicks b) { return Ticks{a} - Ticks{b}; }
  friend constexpr auto operator<=>(PackedTicks a, PackedTicks b) { return Ticks{a} <=> Ticks{b}; }
  friend constexpr bool operator==(PackedTicks a, PackedTicks b) { return Ticks{a} == Ticks{b}; }

 private:
  using Words = std::array<std::uint32_t, 2>;
  Words words_{};
};

// One request of the trace. Times count from the start of the run.
struct RequestRecord {
  // Where `place` is kRank the DP rank that served it, numbered over all instances; of two the one that decodes.
  std::uint16_t rank = 0;
  RequestState state = RequestState::kWaiting;
  RequestPlace place = RequestPlace::kAway;
  std::int32_t input_tokens = 0;
  std::int32_t output_tokens = 0;
  PackedTicks arrival;
  PackedTicks admitted;  // first step that worked on it began
  // When the host saw the token that ended its prefill (sim/cluster/instance.h), or that the transfer to its decode
  // instance had ended.
  PackedTicks first_token;
  PackedTicks finished;  // when the host saw its last token; of a failed request the moment when it failed

  bool routed() const { return place == RequestPlace::kRank; }
};
static_assert(sizeof(RequestRecord) == 44);
inline constexpr std::int64_t kMostRanks = 65536;  // that a record can name

struct RequestExtras {
  std::int32_t cached_tokens = 0;  // of the input, found in the prefix cache when it was admitted
  std::int32_t retractions = 0;    // times that its KV memory was taken back
  std::int32_t retries = 0;        // times that it was started anew because its rank was lost
};

// The records of a run, in the trace's order. Their number must not change once any has extras.
class RequestRecords : public std::vector<RequestRecord> {
 public:
  using std::vector<RequestRecord>::vector;

  RequestExtras extras(std::size_t request) const { return extras_.empty() ? RequestExtras{} : extras_[request]; }
  // To be written.
  RequestExtras& make_extras(std::size_t request) {
    extras_.resize(size());
    return extras_[request];
  }
  // Of every request; empty where none has any.
  const std::vector<RequestExtras>& all_extras() const { return extras_; }

 private:
  std::vector<RequestExtras> extras_;
};

// Records of requests that have not arrived. Takes the rows apart as it goes: rows that are moved here and the records are
// never there in full at once.
RequestRecords records_of(std::vector<Request> requests);

}  // namespace epsim
