// A recording at another rate on the same time axis.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <unordered_map>

#include "sim/core/refuse.h"
#include "traces/requests/request_collector.h"

namespace epsim {

namespace {

struct Copy {
  Ticks arrival;
  std::size_t original;
  std::int64_t number;  // 0 = at the recorded instant
};

// Copies of one request do not come together, as no two users send the same long prompt at once: copy `number` comes in
// the place of an earlier request, up to a tenth of the recording away, the others of its number as far.
std::size_t content_of(std::size_t place, std::int64_t number, std::size_t requests) {
  constexpr double kTurn = 0.6180339887498949;  // of a circle: any few of them are far apart
  const double turns = static_cast<double>(number) * kTurn;
  const auto away = static_cast<std::size_t>((turns - std::floor(turns)) * static_cast<double>(requests) / 10);
  return (place + away) % requests;
}

// Blocks that follow one within a conversation: the next turn's, and those beside it that an unfilled block and an answer
// written anew leave. What more come after ends a prompt that conversations share.
constexpr int kMostNext = 3;

// Of each request the first turn of its conversation, itself where it goes on from none. A turn has the blocks of the one before it,
// but for the last, which that one may not have filled, and more, or is sent again.
std::vector<std::size_t> first_turns(const RequestTable& table) {
  std::vector<std::size_t> out(table.trace.requests.size());
  std::iota(out.begin(), out.end(), std::size_t{0});
  if (table.prefix_start.empty()) {
    return out;
  }
  const auto blocks_of = [&](std::size_t i) {
    const auto first = static_cast<std::size_t>(table.prefix_start[i]);
    return std::span(table.prefix_blocks).subspan(first, static_cast<std::size_t>(table.prefix_start[i + 1]) - first);
  };
  struct Block {
    std::int64_t latest = -1;  // request
    int ends = 0;              // requests whose last it is
    int next = 0;  // different blocks after it; each stands for all before it, so that it comes after one only
  };
  std::unordered_map<std::int64_t, Block> known;  // looked up only
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto blocks = blocks_of(i);
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      if (known.try_emplace(blocks[b]).second && b > 0) {
        ++known[blocks[b - 1]].next;
      }
    }
    if (!blocks.empty()) {
      ++known[blocks.back()].ends;
    }
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto blocks = blocks_of(i);
    std::size_t common = blocks.size();
    while (common > 0 && known[blocks[common - 1]].latest < 0) {
      --common;
    }
    if (common > 0 && known[blocks[common - 1]].next <= kMostNext) {
      const auto before = static_cast<std::size_t>(known[blocks[common - 1]].latest);
      const bool again = common == blocks.size() && known[blocks.back()].ends <= kMostNext;  // or all send it
      out[i] = common + 1 >= blocks_of(before).size() && (again || common < blocks.size()) ? out[before] : i;
    }
    for (const std::int64_t block : blocks) {
      known[block].latest = static_cast<std::int64_t>(i);
    }
  }
  return out;
}

// Whether a request has one copy more than the whole ones is drawn for its conversation: without its earlier turns a later one would
// find nothing in a prefix cache.
std::vector<Copy> draw_copies(const RequestTable& table, double factor, Seed seed) {
  const std::vector<Request>& requests = table.trace.requests;
  const std::vector<std::size_t> firsts = first_turns(table);
  RandomStream random(seed, "requests.resample"), more(seed, "requests.resample.copies");
  const double whole = std::floor(factor);
  std::vector<bool> extra(requests.size());
  std::generate(extra.begin(), extra.end(), [&] { return more.uniform() < factor - whole; });
  std::vector<Copy> copies;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const Ticks gap = (i + 1 < requests.size() ? requests[i + 1] : requests[i]).arrival - requests[i].arrival;
    const auto all = static_cast<std::int64_t>(whole);
    const std::int64_t count = all + (extra[firsts[content_of(i, all, requests.size())]] ? 1 : 0);
    for (std::int64_t k = 0; k < count; ++k) {
      const double later = k == 0 ? 0.0 : random.uniform() * static_cast<double>(gap.count());
      copies.push_back(
          {requests[i].arrival + Ticks{static_cast<std::int64_t>(later)}, content_of(i, k, requests.size()), k});
    }
  }
  std::stable_sort(copies.begin(), copies.end(), [](const Copy& a, const Copy& b) { return a.arrival < b.arrival; });
  return copies;
}

// Block ids numbered from 0 in order of appearance, so that shifted ids cannot overflow. Returns how many there are.
std::int64_t renumber(std::vector<std::int64_t>& blocks) {
  std::unordered_map<std::int64_t, std::int64_t> numbers;  // looked up only: its order reaches nothing
  for (std::int64_t& id : blocks) {
    id = numbers.try_emplace(id, static_cast<std::int64_t>(numbers.size())).first->second;
  }
  return static_cast<std::int64_t>(numbers.size());
}

}  // namespace

RequestTable resample_requests(const RequestTable& table, double factor, Seed seed) {
  const double wanted = factor * static_cast<double>(table.trace.requests.size());
  const double blocks_wanted = factor * static_cast<double>(table.prefix_blocks.size());
  refuse_if(!(wanted <= kMaxRequests) || blocks_wanted > static_cast<double>(kMaxPrefixBlocks),
            {table.trace.source, 0, "rate"},
            fmt::format("this asks for {:.3g} requests with {:.3g} prefix blocks; at most {:.0e} and {} are allowed.",
                        wanted, blocks_wanted, kMaxRequests, kMaxPrefixBlocks));
  std::vector<std::int64_t> blocks = table.prefix_blocks;
  const std::int64_t ids = renumber(blocks);
  RequestTable out;
  out.trace.source = table.trace.source + fmt::format(" (resampled, {:.4g} copies of each request)", factor);
  out.block_tokens = table.block_tokens;
  out.answers = table.answers;
  if (!table.prefix_start.empty()) {
    out.prefix_start.push_back(0);
  }
  for (const Copy& copy : draw_copies(table, factor, seed)) {
    out.trace.requests.push_back(table.trace.requests[copy.original]);
    out.trace.requests.back().arrival = copy.arrival;
    if (table.prefix_start.empty()) {
      continue;
    }
    const auto end = static_cast<std::size_t>(table.prefix_start[copy.original + 1]);
    for (auto b = static_cast<std::size_t>(table.prefix_start[copy.original]); b < end; ++b) {
      out.prefix_blocks.push_back(blocks[b] + copy.number * ids);
    }
    out.prefix_start.push_back(static_cast<std::int64_t>(out.prefix_blocks.size()));
  }
  refuse_if(out.trace.requests.empty(), {table.trace.source, 0, "rate"}, "no request is left at this rate.");
  return out;
}

}  // namespace epsim
