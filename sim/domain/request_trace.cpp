#include "sim/domain/request_trace.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/core/error.h"
#include "sim/core/refuse.h"

namespace epsim {

void RequestTrace::validate() const {
  const auto refuse = [&](std::size_t i, const std::string& what) {
    throw InputError({source, 0, ""}, fmt::format("request {}: {}", i + 1, what));
  };
  refuse_if(requests.empty(), {source, 0, ""}, "the trace holds no request.");
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const Request& r = requests[i];
    if (r.input_tokens <= 0 || r.output_tokens <= 0) {
      refuse(i,
             fmt::format("{} input and {} output tokens; both must be at least 1.", r.input_tokens, r.output_tokens));
    }
    if (r.arrival.count() < 0) {
      refuse(i, "it arrives before the start of the run.");
    }
    if (i > 0 && r.arrival < requests[i - 1].arrival) {
      refuse(i, "it arrives before the one ahead of it; arrivals must be in order of time.");
    }
  }
  refuse_if(!turn_before.empty() && turn_before.size() != requests.size(), {source, 0, ""},
            "the order of turns does not belong to its requests.");
  for (std::size_t i = 0; i < turn_before.size(); ++i) {
    if (turn_before[i] >= static_cast<std::int64_t>(i)) {
      refuse(i, "it waits for a turn that comes after it.");
    }
  }
  if (!prefixes.known()) {
    return;
  }
  refuse_if(prefixes.start.size() != requests.size() + 1 || prefixes.start.front() != 0 ||
                prefixes.start.back() != std::ssize(prefixes.ids) ||
                !std::is_sorted(prefixes.start.begin(), prefixes.start.end()),
            {source, 0, ""}, "the prefix blocks do not belong to its requests.");
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const auto blocks = static_cast<std::int64_t>(prefixes.of(i).size());
    const std::int64_t tokens = std::int64_t{requests[i].input_tokens} + requests[i].output_tokens - 1;
    if (blocks * prefixes.block_tokens > tokens) {
      refuse(i, fmt::format("{} prefix blocks of {} tokens, but {} tokens of input and answer that could fill them.",
                            blocks, prefixes.block_tokens, tokens));
    }
  }
}

void RequestTrace::drop_unfilled_blocks() {
  if (!prefixes.known()) {
    return;
  }
  PrefixBlocks out{prefixes.block_tokens, prefixes.distinct, {0}, {}};
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const std::int64_t filled =
        (std::int64_t{requests[i].input_tokens} + requests[i].output_tokens - 1) / prefixes.block_tokens;
    const auto blocks = prefixes.of(i);
    const auto kept = blocks.first(std::min(blocks.size(), static_cast<std::size_t>(filled)));
    out.ids.insert(out.ids.end(), kept.begin(), kept.end());
    out.start.push_back(std::ssize(out.ids));
  }
  prefixes = std::move(out);
}

namespace {

std::vector<std::int32_t> selected_turns(std::span<const std::int32_t> before, std::span<const std::size_t> positions) {
  if (before.empty()) {
    return {};
  }
  std::vector<std::int32_t> place(before.size(), -1),
      out;  // among the selected ones, of those that stand there already
  for (const std::size_t i : positions) {
    std::int32_t turn = before[i];
    while (turn >= 0 && place[static_cast<std::size_t>(turn)] < 0) {
      turn = before[static_cast<std::size_t>(turn)];
    }
    place[i] = static_cast<std::int32_t>(out.size());
    out.push_back(turn < 0 ? -1 : place[static_cast<std::size_t>(turn)]);
  }
  return out;
}

}  // namespace

RequestTrace RequestTrace::select(std::span<const std::size_t> positions) const {
  RequestTrace out{source, {}};
  out.closed_loop = closed_loop;
  out.prefixes.block_tokens = prefixes.block_tokens;
  out.prefixes.distinct = prefixes.distinct;
  if (prefixes.known()) {
    out.prefixes.start.push_back(0);
  }
  out.ramp = static_cast<std::size_t>(std::ranges::count_if(positions, [this](std::size_t i) { return i < ramp; }));
  out.turn_before = selected_turns(turn_before, positions);
  out.requests.reserve(positions.size());
  for (const std::size_t i : positions) {
    out.requests.push_back(requests[i]);
    if (prefixes.known()) {
      const auto blocks = prefixes.of(i);
      out.prefixes.ids.insert(out.prefixes.ids.end(), blocks.begin(), blocks.end());
      out.prefixes.start.push_back(std::ssize(out.prefixes.ids));
    }
  }
  return out;
}

}  // namespace epsim
