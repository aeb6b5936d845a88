// What collectives send where: conservation, offsets, and what each must deliver.
#include "calibration/measure/collectives.h"

#include <doctest/doctest.h>

#include <vector>

#include "calibration/measure/numbers.h"
#include "calibration/measure/ops.h"

namespace epsim::test {
namespace {

using namespace measure;
using K = MeasuredCollective;

TEST_CASE("sizes follow the bytes of one rank") {
  const Collective even{K::kAllToAll, 4096, 8, 1};  // 512 words: 64 for each of 8
  CHECK(even.words(3, 5) == 64);
  CHECK(even.send_words(3) == 512);
  CHECK(even.receive_words(5) == 512);
  const Collective gather{K::kAllGather, 4096, 8, 1};
  CHECK(gather.send_words(0) == 64);
  CHECK(gather.receive_words(0) == 512);
  const Collective scatter{K::kReduceScatter, 4096, 8, 1};
  CHECK(scatter.send_words(0) == 512);
  CHECK(scatter.receive_words(0) == 64);
  const Collective sum{K::kAllReduce, 4096, 8, 1};
  CHECK(sum.send_words(0) == 512);
  CHECK(sum.receive_words(0) == 512);
  CHECK(Collective{K::kAllToAll, 8, 16, 2}.words(0, 0) == 1);  // never nothing
}

TEST_CASE("skewed receivers: the first of four gets 48 % of every sender") {
  const Collective c{K::kAllToAllV, 8 * 2500, 4, 1};  // 2500 words; weights 12, 6, 4, 3 of 25
  CHECK(c.words(0, 0) == 1200);
  CHECK(c.words(3, 0) == 1200);
  CHECK(c.words(0, 1) == 600);
  CHECK(c.words(0, 3) == 300);
  CHECK(c.send_words(2) == 2500);
  CHECK(c.receive_words(0) == 4800);
}

TEST_CASE("parts lie side by side in both buffers, whatever the collective") {
  for (const K kind : {K::kAllToAll, K::kAllToAllV, K::kAllGather}) {
    for (const int ranks : {1, 2, 5, 8}) {
      const Collective c{kind, 12345, ranks, 1};
      std::int64_t sent = 0, received = 0;
      for (int r = 0; r < ranks; ++r) {
        std::int64_t at = 0;
        for (int to = 0; to < ranks; ++to) {
          CHECK(c.send_offset(r, to) == (kind == K::kAllGather ? 0 : at));
          at += c.words(r, to);
        }
        at = 0;
        for (int from = 0; from < ranks; ++from) {
          CHECK(c.receive_offset(from, r) == at);
          at += c.words(from, r);
        }
        CHECK(c.receive_words(r) == at);
        sent += c.send_words(r);
        received += c.receive_words(r);
      }
      CHECK(received == (kind == K::kAllGather ? ranks * sent : sent));
    }
  }
}

// The benchmark's data movement done on the host: what the check expects is what a right collective delivers.
TEST_CASE("an all-to-all carried out by hand delivers the words that are checked") {
  const Collective c{K::kAllToAllV, 800, 3, 1};
  std::vector<std::vector<std::uint64_t>> send(3), receive(3);
  for (int r = 0; r < 3; ++r) {
    for (int to = 0; to < 3; ++to) {
      for (std::int64_t i = 0; i < c.words(r, to); ++i) {
        send[static_cast<std::size_t>(r)].push_back(mix_bits(part_seed(r, to) + static_cast<std::uint64_t>(i)));
      }
    }
  }
  for (int to = 0; to < 3; ++to) {
    auto& mine = receive[static_cast<std::size_t>(to)];
    mine.resize(static_cast<std::size_t>(c.receive_words(to)));
    for (int from = 0; from < 3; ++from) {
      for (std::int64_t i = 0; i < c.words(from, to); ++i) {
        mine[static_cast<std::size_t>(c.receive_offset(from, to) + i)] =
            send[static_cast<std::size_t>(from)][static_cast<std::size_t>(c.send_offset(from, to) + i)];
      }
    }
    CHECK(mine[static_cast<std::size_t>(c.receive_offset(2, to))] == mix_bits(part_seed(2, to)));
  }
  CHECK(part_seed(0, 1) != part_seed(1, 0));
}

TEST_CASE("sums are exact in float") {
  double exact = 0;
  for (int r = 0; r < 64; ++r) {
    exact += random_value(sum_seed(r), 5, kSumSteps);
  }
  CHECK(static_cast<double>(expected_sum(64, 5)) == exact);
}

TEST_CASE("who takes part") {
  const auto who = [](int ranks, int nodes, int node) {
    const Members m = members_of({K::kAllReduce, 8, ranks, nodes}, node, 8);
    return std::pair(m.gpus, m.first_rank);
  };
  CHECK(who(4, 1, 0) == std::pair(4, 0));
  CHECK(who(4, 1, 1).first == 0);          // inside a node the other nodes rest
  CHECK(who(2, 2, 1) == std::pair(1, 1));  // one GPU of each node
  CHECK(who(16, 2, 1) == std::pair(8, 8));
}

TEST_CASE("every collective of the operators' table has a kind") {
  int kinds = 0;
  for (const OpSpec& op : all_ops()) {
    if (op.kind == OpKind::kCollective) {
      collective_kind(op.name);
      ++kinds;
    }
  }
  CHECK(kinds == 5);
}

}  // namespace
}  // namespace epsim::test
